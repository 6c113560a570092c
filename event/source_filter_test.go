package event

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// pairer is a filter that keeps every first diag until the next, and passes all else on at once.
type pairer struct{ kept []Event }

func (p *pairer) Put(e Event, emit func(Event)) {
	if _, ok := e.Body.(Diag); ok && len(p.kept) == 0 {
		p.kept = append(p.kept, e)
		return
	}
	p.Close(emit)
	emit(e)
}

func (p *pairer) Close(emit func(Event)) {
	for _, e := range p.kept {
		emit(e)
	}
	p.kept = nil
}

func TestSourceThrough(t *testing.T) {
	var journal, show memory
	s := NewSource("ses", 0, &journal, &show, clock)
	var p pairer
	s.Through(&p)
	if e, err := s.Emit(Event{Body: Diag{Text: "a"}}); e != (Event{}) || err != nil || s.Last() != 0 {
		t.Errorf("what is kept back came out: %+v, %v", e, err)
	}
	if p.kept[0].Session != "ses" || p.kept[0].Kind != "diag" || p.kept[0].Seq != 0 || !p.kept[0].At.IsZero() {
		t.Errorf("the filter sees %+v", p.kept[0])
	}
	e, err := s.Emit(Event{Body: Notice{Text: "b"}})
	if e.Seq != 2 || e.Body != (Notice{Text: "b"}) || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
	s.Emit(Event{Body: Diag{Text: "c"}})
	if err := s.Flush(); err != nil {
		t.Error(err)
	}
	for _, sink := range []*memory{&journal, &show} {
		if n := sink.numbers(); !slices.Equal(n, []uint64{1, 2, 3}) || sink.events[0].Body != (Diag{Text: "a"}) || sink.events[2].Body != (Diag{Text: "c"}) {
			t.Errorf("%+v", sink.events)
		}
	}
	if err := s.Flush(); err != nil || s.Last() != 3 {
		t.Error("there was something left:", err)
	}
	if err := NewSource("", 0, nil, nil, clock).Flush(); err != nil {
		t.Error(err)
	}
}

// Whatever was written is shown, also if what came with it could not be written.
func TestSourceThroughBreaks(t *testing.T) {
	full := errors.New("disk full")
	var journal, show memory
	journal.before = func(e Event) {
		if e.Seq == 2 {
			journal.err = full
		}
	}
	s := NewSource("s", 0, &journal, &show, clock)
	s.Through(&pairer{})
	s.Emit(Event{Body: Diag{}})
	e, err := s.Emit(Event{Body: Notice{}})
	if e.Seq != 1 || !errors.Is(err, full) {
		t.Errorf("%+v, %v", e, err)
	}
	if n := show.numbers(); !slices.Equal(n, []uint64{1}) {
		t.Errorf("shown: %v", n)
	}
	s.Emit(Event{Body: Diag{}})
	if err := s.Flush(); !errors.Is(err, full) {
		t.Error("the timeline went on:", err)
	}
}

// A filter is used by one goroutine at a time, and one order remains.
func TestSourceThroughOrder(t *testing.T) {
	var journal, show memory
	s := NewSource("s", 0, &journal, &show, clock)
	s.Through(&pairer{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				s.Emit(Event{Body: Diag{}})
				s.Emit(Event{Body: Notice{}})
			}
		})
	}
	wg.Wait()
	s.Flush()
	if w := journal.numbers(); len(w) != 800 || !slices.IsSorted(w) || !slices.Equal(w, show.numbers()) {
		t.Errorf("%d written, %d shown", len(w), len(show.numbers()))
	}
}

// A Mender is a filter.
func TestSourceThroughMender(t *testing.T) {
	var journal memory
	s := NewSource("s", 0, &journal, nil, clock)
	s.Through(&Mender{})
	s.Emit(Event{Body: TextDelta{Text: "he"}})
	s.Flush()
	if err := checkGrammar(journal.events); err != nil {
		t.Error(err)
	}
}

// What a filter keeps back is heeded when it is emitted, and watched when it is written.
func TestHeed(t *testing.T) {
	s := NewSource("s", 0, nil, nil, time.Now)
	s.Through(&pairer{})
	var heeded, watched []Kind
	defer s.Heed(func(e Event) { heeded = append(heeded, e.Kind) })()
	defer s.Watch(func(e Event) { watched = append(watched, e.Kind) })()
	s.Emit(Event{Body: Diag{}})
	if !slices.Equal(heeded, []Kind{"diag"}) || watched != nil {
		t.Error(heeded, watched)
	}
	s.Emit(Event{Body: Prompt{}})
	if !slices.Equal(heeded, []Kind{"diag", "prompt"}) || !slices.Equal(watched, heeded) {
		t.Error(heeded, watched)
	}
}

func TestWatch(t *testing.T) {
	s := NewSource("s", 0, nil, nil, time.Now)
	var a, b []Kind
	stopA := s.Watch(func(e Event) { a = append(a, e.Kind) })
	s.Emit(Event{Body: Prompt{}})
	stopB := s.Watch(func(e Event) { b = append(b, e.Kind) })
	s.Emit(Event{Body: TurnStarted{}})
	stopA()
	s.Emit(Event{Body: Text{Text: "x"}})
	stopB()
	s.Emit(Event{Body: TurnEnded{}})
	if !slices.Equal(a, []Kind{"prompt", "turn.started"}) || !slices.Equal(b, []Kind{"turn.started", "text"}) {
		t.Error(a, b)
	}
}
