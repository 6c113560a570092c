package control

import (
	"io"
	"iter"
	"os"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/wire"
)

// A view is where a run stands, by its journal. It is read on when somebody asks, so that it is never older than the question.
type view struct {
	path string

	mu      sync.Mutex
	offset  int64 // of the first line that was not read
	parser  event.Parser
	tracker fold.Tracker
	output  output
}

// now reads what the journal got since the last time, and returns where the run stands.
func (v *view) now() (fold.Snapshot, string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	file, err := os.Open(v.path)
	if err != nil {
		return v.tracker.Snapshot(), v.output.text(), err
	}
	defer file.Close()
	_ = fold.Run(v.rest(file), &v.tracker, &v.output) // a line that cannot be read is skipped: the others count
	return v.tracker.Snapshot(), v.output.text(), nil
}

// rest reads the whole lines that are new. The last one may be half written.
func (v *view) rest(file *os.File) iter.Seq2[event.Line, error] {
	return func(yield func(event.Line, error) bool) {
		if _, err := file.Seek(v.offset, io.SeekStart); err != nil {
			yield(event.Line{}, err)
			return
		}
		lines := wire.NewLines(file)
		start := v.offset
		for {
			raw, err := lines.Next()
			if err == io.EOF || err == nil && lines.Torn() {
				return
			}
			if err != nil {
				yield(event.Line{}, err)
				return
			}
			v.offset = start + lines.Offset()
			if !yield(v.parser.Parse(raw)) {
				return
			}
		}
	}
}

// An output is what the top agent said in its last reply: a [fold.Fold].
type output struct {
	said []byte
	sure int // bytes of it that no retry can make void
}

func (o *output) Wants() []event.Body { return []event.Body{event.Text{}, event.Prompt{}} }

func (o *output) Apply(e event.Event) {
	if !e.Top() {
		return
	}
	switch b := e.Body.(type) {
	case event.Prompt:
		if b.Source != event.SourceSteer && b.Source != event.SourceHistory {
			o.said, o.sure = nil, 0
		}
	case event.Text:
		if n := len(o.said); n > 0 && o.said[n-1] != '\n' {
			o.said = append(o.said, '\n')
		}
		if o.said = append(o.said, b.Text...); !b.Partial {
			o.sure = len(o.said)
		}
	}
	switch e.Kind {
	case "retry", "phase.retry":
		o.said = o.said[:o.sure]
	case "turn.ended":
		o.sure = len(o.said)
	}
}

func (o *output) text() string { return string(o.said) }
