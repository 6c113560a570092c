package journal

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A Report says what [Repair] did.
type Report struct {
	Cut      int64          // bytes of a torn tail
	Appended []event.Header // of the events that were missing
	Bad      int            // lines that cannot be read, and were left; counted only where something was missing
	Last     uint64         // number of the last event now
}

// Whole says whether there was nothing to do.
func (r Report) Whole() bool { return r.Cut == 0 && len(r.Appended) == 0 }

// String says it in one line.
func (r Report) String() string {
	var parts []string
	if r.Cut > 0 {
		parts = append(parts, fmt.Sprintf("cut off %d bytes of a torn line", r.Cut))
	}
	if n := len(r.Appended); n > 0 {
		kinds := make([]string, n)
		for i, h := range r.Appended {
			kinds[i] = string(h.Kind)
		}
		parts = append(parts, "appended "+strings.Join(kinds, ", "))
	}
	if len(parts) == 0 {
		parts = append(parts, "it is whole")
	}
	if r.Bad > 0 {
		parts = append(parts, fmt.Sprintf("left %d lines that cannot be read", r.Bad))
	}
	return strings.Join(parts, "; ")
}

// Repair makes a journal whole whose writer died: a torn tail is cut off, and what the run left open is ended, and the run,
// by events that say they are inferred. A journal that is whole is not touched.
func Repair(path string) (r Report, err error) {
	w, e, err := resume(path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	r.Cut, r.Last = e.torn(), w.last
	if runEnd(e.line.Kind) {
		return r, nil
	}
	missing, bad, err := w.missing()
	if err != nil {
		return r, err
	}
	r.Bad = bad
	for _, e := range missing {
		e.Seq = w.last + 1
		if err := w.Put(e); err != nil {
			return r, err
		}
		r.Appended, r.Last = append(r.Appended, e.Header), e.Seq
	}
	return r, nil
}

// missing reads the journal and returns what it lacks at its end. A journal may hold several runs, one after the other; only
// the last can be open.
func (w *Writer) missing() (events []event.Event, bad int, err error) {
	var m event.Mender
	ended := false // the last run is, and at most noise followed
	for line, err := range Scan(io.NewSectionReader(w.file, 0, w.size), nil) {
		if err != nil {
			if lineErr := (*LineError)(nil); errors.As(err, &lineErr) {
				bad++
				continue
			}
			return nil, bad, err
		}
		e, _ := line.Event() // a field of a type that we do not expect is left empty: the rest is there
		if e.Body == nil {
			bad++
			continue
		}
		switch e.Body.(type) {
		case event.RunDone, event.RunFailed, event.RunCancelled:
			m, ended = event.Mender{}, true
			continue
		case event.Foreign, event.Unknown, event.Diag:
		default:
			ended = false
		}
		m.Put(e, func(event.Event) {})
	}
	if !ended {
		m.Close(func(e event.Event) { events = append(events, e) })
	}
	return events, bad, nil
}

func runEnd(k event.Kind) bool {
	return k == "run.done" || k == "run.failed" || k == "run.cancelled"
}
