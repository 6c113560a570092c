package fold

import (
	"errors"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-dev/sluice/event"
)

// folds has a fresh fold of every kind in the package; one that is added here is tested.
var folds = map[string]func() Fold{
	"Tracker":             func() Fold { return new(Tracker) },
	"Tracker of one":      func() Fold { return NewTracker("ses_7f3") },
	"Ledger":              func() Fold { return new(Ledger) },
	"Digest":              func() Fold { return new(Digest) },
	"Transcript":          func() Fold { return new(Transcript) },
	"Transcript of child": func() Fold { return &Transcript{Agent: "task-1"} },
	"Detector":            func() Fold { return new(Detector) },
	"Classifier":          func() Fold { return &classes{} },
}

// classes makes a fold of a Classifier, so that its Wants are tested too.
type classes struct {
	Classifier
	list []Class
}

func (c *classes) Apply(e event.Event) { c.list = append(c.list, c.Class(e)) }

// whole lets cmp see everything, and tells nil from empty in nothing.
var whole = cmp.Options{cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()}

// wantsError says which body a fold looks into though its Wants do not list it.
func wantsError(fresh func() Fold) string {
	wants := Wanted(fresh())
	for _, e := range event.Samples() {
		if wants(e.Header) {
			continue
		}
		bare := event.Event{Header: e.Header}
		for _, before := range event.Samples() {
			with, without := fresh(), fresh()
			Apply(before, with, without)
			with.Apply(e)
			without.Apply(bare)
			if !reflect.DeepEqual(with, without) {
				return "after " + string(before.Kind) + " it looks into " + string(e.Kind) + ":\n" + cmp.Diff(without, with, whole)
			}
		}
	}
	return ""
}

func TestWants(t *testing.T) {
	for name, fresh := range folds {
		t.Run(name, func(t *testing.T) {
			if msg := wantsError(fresh); msg != "" {
				t.Error(msg)
			}
		})
	}
}

// forgetful is a fold with the very bug that wantsError is for, and only after another event.
type forgetful struct {
	armed bool
	last  string
}

func (f *forgetful) Wants() []event.Body { return []event.Body{event.Prompt{}} }

func (f *forgetful) Apply(e event.Event) {
	switch b := e.Body.(type) {
	case event.Prompt:
		f.armed = true
	case event.Notice:
		if f.armed {
			f.last = b.Text
		}
	}
}

func TestWantsFindsForgetful(t *testing.T) {
	if wantsError(func() Fold { return new(forgetful) }) == "" {
		t.Error("a fold that looks into a body it does not want was not found")
	}
}

// number gives events their numbers, and a second each.
func number(events ...event.Event) []event.Event {
	at := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	for i := range events {
		e := &events[i]
		*e = e.Stamp()
		e.Seq = uint64(i + 1)
		if e.At.IsZero() {
			e.At = at.Add(time.Duration(i) * time.Second)
		}
	}
	return events
}

// lines writes events and reads them again.
func lines(events []event.Event) iter.Seq2[event.Line, error] {
	return func(yield func(event.Line, error) bool) {
		var p event.Parser
		var buf []byte
		for _, e := range events {
			buf = event.Append(buf[:0], e) // reused, as a journal's reader does
			if l, err := p.Parse(buf); !yield(l, err) {
				return
			}
		}
	}
}

func TestLiveIsReplay(t *testing.T) {
	for _, events := range [][]event.Event{event.Samples(), aRun()} {
		for name, fresh := range folds {
			t.Run(name, func(t *testing.T) {
				live, replay := fresh(), fresh()
				for _, e := range events {
					Apply(e, live)
				}
				if err := Run(lines(events), replay); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(live, replay, whole); diff != "" {
					t.Errorf("replay differs from live (-live +replay):\n%s", diff)
				}
			})
		}
	}
}

// Every kind alone, without its body and twice: nothing panics, and what nobody knows changes nothing that matters.
func TestBearsEverything(t *testing.T) {
	for name, fresh := range folds {
		t.Run(name, func(t *testing.T) {
			all := fresh()
			for _, e := range event.Samples() {
				one := fresh()
				Apply(e, one, all)
				Apply(event.Event{Header: e.Header}, one, all)
				Apply(event.Event{}, one, all)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	want := Wanted(new(Ledger), new(forgetful))
	var got []event.Kind
	for _, b := range event.Kinds() {
		if want(event.Header{Kind: b.Kind()}) {
			got = append(got, b.Kind())
		}
	}
	expect := []event.Kind{
		"run.started", "session.started", "prompt", "turn.ended", "reply.done", "reply.failed", "reply.cancelled", "run.done", "run.failed", "run.cancelled",
	}
	if diff := cmp.Diff(expect, got); diff != "" {
		t.Error(diff)
	}
}

func TestDigestOpensLittle(t *testing.T) {
	want := Wanted(new(Digest))
	for _, k := range []event.Kind{
		"tool.done", "tool.failed", "tool.denied", "tool.cancelled", "tool.output", "text.delta", "thought.delta", "thought", "foreign", "prompt",
	} {
		if want(event.Header{Kind: k}) {
			t.Errorf("the digest opens %s: that is most of a journal", k)
		}
	}
}

func TestRunTellsBadLines(t *testing.T) {
	first, torn := errors.New("line 2 is not JSON"), errors.New("torn")
	events := number(event.Event{Body: event.TurnEnded{}}, event.Event{Body: event.TurnEnded{}}, event.Event{Body: event.TurnEnded{}})
	seq := func(yield func(event.Line, error) bool) {
		for l, err := range lines(events[:2]) {
			if !yield(l, err) || !yield(event.Line{}, first) {
				return
			}
		}
		// A body that is no JSON: its header counts.
		l, err := event.Parse([]byte(`{"seq":3,"kind":"turn.ended","body":{"number":}}`))
		if !yield(l, err) {
			return
		}
		// A field of another type: the rest of the body counts.
		l, err = event.Parse([]byte(`{"seq":4,"kind":"turn.ended","body":{"number":"x","usage":{"output":7}}}`))
		if !yield(l, err) {
			return
		}
		yield(event.Line{}, torn)
	}
	var l Ledger
	err := Run(seq, &l)
	var bad *BadLines
	if !errors.As(err, &bad) || bad.Count != 5 || bad.First != first || bad.Last != torn || !errors.Is(err, torn) {
		t.Errorf("Run: %v", err)
	}
	if got := l.Accounts().Total; got.Turns != 4 || got.Usage.Output == nil || *got.Usage.Output != 7 {
		t.Errorf("the good part was not applied: %+v", got)
	}
	if err := Run(lines(slices.Clone(events)), new(Ledger)); err != nil {
		t.Error(err)
	}
}
