package dialect

import (
	"io"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// A teller is what stands around every encoder. It prints lines that were of this dialect to begin with as they were, and
// skips what was read from them; the encoder sees everything all the same, so that its counters go on. And it reports what
// the dialect has no word for.
type teller struct {
	inner   Encoder
	dialect string
	opt     Options
	losses  *losses // nil: nobody asked

	any     bool       // a line of this dialect was kept
	kept    [64]uint64 // the numbers of the last ones; streams may come in side by side
	next    int
	scratch []byte
}

func (t *teller) Encode(dst []byte, e event.Event) []byte {
	if f, ok := e.Body.(event.Foreign); ok && t.dialect != native.Name {
		if f.Dialect != t.dialect || t.opt.NoOrigin {
			return dst // it is told by what was read from it
		}
		t.any = true
		t.kept[t.next%len(t.kept)] = e.Seq
		t.next++
		return t.line(dst, e.Kind, f)
	}
	if t.any {
		t.scratch = t.inner.Encode(t.scratch[:0], e)
		if t.readFrom(e.Of) || !t.opt.Repair && e.Of == 0 && event.Inferred(e.Body) {
			return dst
		}
		dst = append(dst, t.scratch...)
	} else {
		dst = t.inner.Encode(dst, e)
	}
	if t.losses != nil {
		t.losses.tell(e)
	}
	return dst
}

func (t *teller) readFrom(of uint64) bool {
	if of == 0 {
		return false
	}
	for _, seq := range t.kept {
		if seq == of {
			return true
		}
	}
	return false
}

func (t *teller) line(dst []byte, k event.Kind, f event.Foreign) []byte {
	if t.opt.Repair && !isObject(trim(f.Bytes(), false)) {
		if t.losses != nil {
			t.losses.report(Loss{Kind: k, Fate: Dropped, Why: "the line is not a JSON object"})
		}
		return dst
	}
	if f.Base64 == "" {
		dst = append(dst, f.Line...)
	} else {
		dst = append(dst, f.Bytes()...)
	}
	if f.Torn && !t.opt.Repair {
		return dst
	}
	return append(dst, '\n')
}

func isObject(line []byte) bool {
	var d wire.Doc
	return d.Parse(line) == nil && d.Root().Kind() == wire.Object
}

// A Writer tells events to w: one write per event that the dialect has lines for. It is an [event.Sink].
type Writer struct {
	w   io.Writer
	enc Encoder
	buf []byte
}

// NewWriter tells events in dialect d to w.
func NewWriter(w io.Writer, d *Dialect, o Options) *Writer {
	return &Writer{w: w, enc: d.NewEncoder(o)}
}

// Recall takes an event that was told before, so that what the dialect counts goes on.
func (w *Writer) Recall(e event.Event) { w.buf = w.enc.Encode(w.buf[:0], e) }

// Put tells one event.
func (w *Writer) Put(e event.Event) error {
	w.buf = w.enc.Encode(w.buf[:0], e)
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buf)
	if cap(w.buf) > 4<<20 {
		w.buf = nil
	}
	return err
}
