package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-dev/sluice/internal/wire"
)

// An sse reads server-sent events. Lines end with LF or CRLF; comments, ids and retry times are passed over.
type sse struct {
	lines *wire.Lines
	name  []byte
	data  []byte
	some  bool // data has a line, if only an empty one
	begun bool // a line was read
	long  bool // an event was longer than eventLimit
}

// eventLimit bounds one event, so that a server cannot fill the memory.
const eventLimit = 64 << 20

var (
	errNotSSE = errors.New("the answer is not a stream of events")
	errLong   = fmt.Errorf("an event of the answer is longer than %d MB", eventLimit>>20)
)

func newSSE(r io.Reader) *sse {
	s := &sse{}
	s.lines = wire.NewLines(readerFunc(func(p []byte) (int, error) {
		if s.long {
			return 0, errLong
		}
		return r.Read(p)
	}))
	s.lines.Keep = func(head []byte) bool {
		s.long = len(head) > eventLimit
		return !s.long
	}
	return s
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// next returns the next event that has data: its name, empty if it has none, and its data. Both are good until the next call.
// At the end the error is io.EOF; the last event counts also without the empty line that should follow it, unless it was cut
// in a line. The error is [errNotSSE] when a line is none of a stream of events.
func (s *sse) next() (name, data []byte, err error) {
	s.name, s.data, s.some = s.name[:0], s.data[:0], false
	for {
		line, err := s.lines.Next()
		if err != nil {
			if err == io.EOF && s.some {
				return s.name, s.data, nil
			}
			return nil, nil, err
		}
		if s.lines.Torn() {
			return nil, nil, io.EOF
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			if s.some {
				return s.name, s.data, nil
			}
			s.name = s.name[:0]
			continue
		}
		if err := s.field(line); err != nil {
			return nil, nil, err
		}
	}
}

func (s *sse) field(line []byte) error {
	field, value, colon := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		s.name = append(s.name[:0], value...)
	case "data":
		if s.some {
			s.data = append(s.data, '\n')
		}
		s.data, s.some = append(s.data, value...), true
		if len(s.data) > eventLimit {
			return errLong
		}
	case "", "id", "retry":
	default:
		// The standard passes over fields that it does not know. What does not even look like one is an error page, or a
		// JSON text that was meant for somebody else.
		if !colon || bytes.ContainsFunc(field, func(r rune) bool { return r != '-' && r != '_' && (r < 'a' || r > 'z') }) {
			return errNotSSE
		}
	}
	return nil
}
