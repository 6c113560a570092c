package event

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// memory is a sink that keeps what was put.
type memory struct {
	mu     sync.Mutex
	events []Event
	err    error
	before func(Event)
}

func (m *memory) Put(e Event) error {
	if m.before != nil {
		m.before(e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.events = append(m.events, e)
	return nil
}

func (m *memory) numbers() (list []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		list = append(list, e.Seq)
	}
	return list
}

func clock() time.Time { return moment.Add(1500 * time.Microsecond) }

func TestSourceStamps(t *testing.T) {
	var journal memory
	s := NewSource("ses", 41, &journal, nil, clock)
	e, err := s.Emit(Event{Body: Diag{Text: "a"}})
	want := Event{Header{Seq: 42, At: moment.Add(time.Millisecond), Session: "ses", Kind: "diag"}, Diag{Text: "a"}}
	if e != want || err != nil || journal.events[0] != want {
		t.Errorf("%+v, %v", e, err)
	}
	told := Event{Header{Seq: 7, At: moment, Session: "other", Agent: "a", Call: "c", Of: 3}, Diag{}}
	e, err = s.Emit(told)
	want = told.Stamp()
	if want.Seq = 43; e != want || err != nil || s.Last() != 43 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := NewSource("", 0, nil, nil, clock).Emit(told); err != nil {
		t.Error(err)
	}
}

// However many emit, there is one order: of numbers, in the journal and as shown; and nothing is shown that is not written.
func TestSourceOrder(t *testing.T) {
	var journal, show memory
	show.before = func(e Event) {
		if n := journal.numbers(); !slices.Contains(n, e.Seq) {
			t.Errorf("event %d was shown and not written", e.Seq)
		}
	}
	s := NewSource("s", 0, &journal, &show, clock)
	const each = 50
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			last := uint64(0)
			for range each {
				e, err := s.Emit(Event{Body: Diag{}})
				if err != nil || e.Seq <= last {
					t.Errorf("event %d after %d, %v", e.Seq, last, err)
				}
				if n := show.numbers(); !slices.Contains(n, e.Seq) {
					t.Errorf("event %d was not shown when Emit returned", e.Seq)
				}
				last = e.Seq
			}
		})
	}
	wg.Wait()
	written, shown := journal.numbers(), show.numbers()
	if len(written) != 16*each || !slices.IsSorted(written) || !slices.Equal(written, shown) || s.Last() != 16*each {
		t.Errorf("written %v, shown %v", written, shown)
	}
}

func TestSourceJournalBreaks(t *testing.T) {
	full := errors.New("disk full")
	var journal, show memory
	s := NewSource("s", 0, &journal, &show, clock)
	emit := func() error {
		_, err := s.Emit(Event{Body: Diag{}})
		return err
	}
	if err := emit(); err != nil {
		t.Fatal(err)
	}
	journal.err = full
	if err := emit(); !errors.Is(err, full) {
		t.Error(err)
	}
	journal.err = nil
	if err := emit(); !errors.Is(err, full) {
		t.Error("the timeline went on after an error:", err)
	}
	if s.Last() != 1 || len(journal.events) != 1 || len(show.events) != 1 {
		t.Errorf("last %d, written %v, shown %v", s.Last(), journal.numbers(), show.numbers())
	}
}

func TestSourceShowBreaks(t *testing.T) {
	gone := errors.New("nobody reads")
	var journal memory
	s := NewSource("s", 0, &journal, &memory{err: gone}, clock)
	for range 2 {
		if _, err := s.Emit(Event{Body: Diag{}}); !errors.Is(err, gone) {
			t.Error(err)
		}
	}
	if n := journal.numbers(); !slices.Equal(n, []uint64{1, 2}) {
		t.Error(n)
	}
}

// A reader who is slow holds up those who emit, and nobody else.
func TestSourceSlowReader(t *testing.T) {
	reading, read := make(chan bool), make(chan bool)
	show := &memory{before: func(Event) { reading <- true; <-read }}
	s := NewSource("s", 0, &memory{}, show, clock)
	emitted := make(chan bool)
	for range 2 {
		go func() {
			s.Emit(Event{Body: Diag{}})
			emitted <- true
		}()
	}
	<-reading
	for s.Last() != 2 { // does not block, and both get their numbers
		time.Sleep(time.Millisecond)
	}
	select {
	case <-emitted:
		t.Error("Emit returned before its event was shown")
	default:
	}
	read <- true
	<-reading
	read <- true
	<-emitted
	<-emitted
}

// A sink that panics leaves the timeline usable: the end of the run must still be told.
func TestSourcePanic(t *testing.T) {
	var journal, show memory
	for _, sink := range []*memory{&journal, &show} {
		s := NewSource("s", 0, &journal, &show, clock)
		sink.before = func(Event) { panic("ouch") }
		func() {
			defer func() { recover() }()
			s.Emit(Event{Body: Diag{}})
		}()
		sink.before = nil
		if _, err := s.Emit(Event{Body: RunFailed{}}); err != nil {
			t.Error(err)
		}
	}
}
