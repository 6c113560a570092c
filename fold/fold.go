// Package fold has the views of a run: each is built by applying its events in order, live or from a journal, with the
// same code.
//
//	lines ──Run──▶ Event ──Apply──▶ Tracker     where the run stands, for who supervises it
//	                              ├▶ Ledger      what it cost
//	                              ├▶ Digest      what happened, for a person
//	                              ├▶ Transcript  what was said, for a model
//	                              └▶ Detector    whether an answer goes nowhere
//
// A [Fold] names the kinds of bodies that it looks into, and only those are decoded; a [Skimmer] names fields. A view over
// gigabytes is as fast as its Wants are short. A [Classifier] is no view; it says of each event whether somebody should wake up for it.
//
// Events come stamped with their kind, as [event.Source] and [event.Line] give them. The package is pure: no clock, no
// file, no goroutine. "Stalled" is now.Sub(snapshot.LastAt), and the caller's to compute. Nothing here is safe for
// concurrent use.
package fold

import (
	"fmt"
	"iter"

	"github.com/sluice-dev/sluice/event"
)

// A Fold is a view being built.
type Fold interface {
	// Wants returns one body of each kind Apply looks into. Bodies of other kinds are not decoded.
	Wants() []event.Body
	// Apply takes the next event. It sees every header; Body is nil unless Wants lists its kind. It may be there unasked,
	// and nil though it was asked for, if it could not be read.
	Apply(event.Event)
}

// A Skimmer is a [Fold] that looks at a few fields of a body, so that the others need not be read.
type Skimmer interface {
	Fold
	// Fields returns the fields that Apply looks at, as they are called in JSON, for kinds that Wants lists. Bodies of kinds
	// that it leaves out are read whole. Apply gets all fields all the same where somebody else wants them. A body that is read
	// in part is gone when Apply returns: what is to stay must be copied, though not strings or what a field points to.
	Fields() map[event.Kind][]string
}

// Run applies the lines to the folds, decoding each wanted body once. It goes on as long as lines does: what could not be
// read is skipped, and told at the end as a [*BadLines].
func Run(lines iter.Seq2[event.Line, error], folds ...Fold) error {
	parts := parts(folds)
	var bad BadLines
	var e event.Event
	for l, err := range lines {
		if err != nil {
			bad.add(err)
			continue
		}
		e.Header = l.Header
		// A field that cannot be read leaves the rest of its body; a body that cannot be read leaves its header.
		if e.Body, err = l.Part(parts); err != nil {
			bad.add(fmt.Errorf("event %d: %w", l.Seq, err))
		}
		for _, f := range folds {
			if p, ok := f.(inPlace); ok {
				p.apply(&e)
			} else {
				f.Apply(e)
			}
		}
	}
	if bad.Count > 0 {
		return &bad
	}
	return nil
}

// An inPlace is a fold that looks at an event where it lies: those through which gigabytes go.
type inPlace interface{ apply(*event.Event) }

// Apply applies one event to the folds.
func Apply(e event.Event, folds ...Fold) {
	e = e.Stamp()
	for _, f := range folds {
		f.Apply(e)
	}
}

// Wanted says of a header whether any of the folds wants its body. It is for readers that need not keep the others.
func Wanted(folds ...Fold) func(event.Header) bool {
	want := wanted(folds)
	return func(h event.Header) bool { return want[h.Kind] }
}

func wanted(folds []Fold) map[event.Kind]bool {
	want := map[event.Kind]bool{}
	for _, f := range folds {
		for _, b := range f.Wants() {
			want[b.Kind()] = true
		}
	}
	return want
}

// parts returns what the folds together want of each kind.
func parts(folds []Fold) *event.Parts {
	fields := map[event.Kind][]string{}
	whole := map[event.Kind]bool{}
	for _, f := range folds {
		var some map[event.Kind][]string
		if s, ok := f.(Skimmer); ok {
			some = s.Fields()
		}
		for _, b := range f.Wants() {
			k := b.Kind()
			fields[k] = append(fields[k], some[k]...)
			if some[k] == nil {
				whole[k] = true
			}
		}
	}
	for k := range whole {
		fields[k] = nil
	}
	return event.NewParts(fields)
}

// BadLines says that some lines, or some of their bodies, could not be read. All others were applied.
type BadLines struct {
	Count int
	First error
	Last  error // the reader's own end, if it was one: a torn tail, a read error
}

func (b *BadLines) add(err error) {
	if b.Count++; b.Count == 1 {
		b.First = err
	}
	b.Last = err
}

func (b *BadLines) Error() string {
	if b.Count == 1 {
		return fmt.Sprintf("fold: %v", b.First)
	}
	return fmt.Sprintf("fold: %d lines could not be read; the first: %v; the last: %v", b.Count, b.First, b.Last)
}

// Unwrap returns the first and the last error.
func (b *BadLines) Unwrap() []error { return []error{b.First, b.Last} }
