package journal

import (
	"bytes"
	"fmt"
	"io"
	"iter"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// Scan reads the events of a journal. A [event.Line] is good until the next one.
//
// A line that is not an event is yielded as a [*LineError], and scanning goes on. A torn tail, a [*TornError], and an
// error of the reader end it.
//
// Lines may be of any length. A long one whose header is not wanted is yielded without its body, so that memory does not grow
// with it; a nil want wants every one. Want is asked about long lines only, and may be asked twice.
func Scan(r io.Reader, want func(event.Header) bool) iter.Seq2[event.Line, error] {
	return func(yield func(event.Line, error) bool) {
		s := scanner{want: want}
		if n, ok := r.(interface{ Name() string }); ok {
			s.path = n.Name()
		}
		s.begin(r, 0)
		s.scan(yield)
	}
}

// A scanner reads events from a stream, or from the rest of one.
type scanner struct {
	path   string
	want   func(event.Header) bool
	lines  *wire.Lines
	base   int64 // where lines begins
	number int   // lines so far
	parser event.Parser
}

// begin goes on with what r has, which stands at offset.
func (s *scanner) begin(r io.Reader, offset int64) {
	s.base = offset
	s.lines = wire.NewLines(r)
	if s.want != nil {
		s.lines.Keep = func(head []byte) bool {
			l, ok := s.parser.Head(head)
			return !ok || s.want(l.Header)
		}
	}
}

// offset is where the next line begins.
func (s *scanner) offset() int64 { return s.base + s.lines.Offset() }

// scan yields lines until the stream ends.
func (s *scanner) scan(yield func(event.Line, error) bool) {
	var held *LineError // not JSON: it is torn if nothing follows
	var line event.Line
	for {
		at := s.offset()
		raw, err := s.lines.Next()
		if held != nil {
			if err == io.EOF {
				s.number--
				yield(event.Line{}, &TornError{s.path, held.Offset})
				return
			}
			if !yield(event.Line{}, held) {
				return
			}
			held = nil
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			yield(event.Line{}, fmt.Errorf("journal: %w", err))
			return
		case s.lines.Torn():
			yield(event.Line{}, &TornError{s.path, at})
			return
		}
		s.number++
		if err := s.parse(&line, raw); err != nil {
			bad := &LineError{s.number, at, bytes.Clone(raw), err}
			if !wire.Valid(raw) {
				held = bad
			} else if !yield(event.Line{}, bad) {
				return
			}
			continue
		}
		if !yield(line, nil) {
			return
		}
	}
}

func (s *scanner) parse(line *event.Line, raw []byte) error {
	if s.lines.Cut() {
		*line, _ = s.parser.Head(raw) // it was read when want was asked
		return nil
	}
	return s.parser.ParseTo(line, raw)
}
