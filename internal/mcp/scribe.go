package mcp

import (
	"bytes"
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// A scribe keeps what a server says besides the protocol, line by line, and not without end.
type scribe struct {
	link *link

	mu    sync.Mutex
	lines int
	last  string
}

const (
	noteLimit = 2000 // bytes of a line
	noteLines = 2000 // of one server
)

func (s *scribe) line(text string) {
	text = oneLine(text, noteLimit)
	if text == "" {
		return
	}
	s.mu.Lock()
	s.lines++
	n := s.lines
	s.last = text
	s.mu.Unlock()
	switch {
	case n < noteLines:
		s.link.hub.emit(event.Diag{Text: text, Source: s.link.server.Name})
	case n == noteLines:
		s.link.hub.emit(event.Diag{Text: "(there is more, which is not kept)", Source: s.link.server.Name})
	}
}

// latest is the last line.
func (s *scribe) latest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// A lineWriter gives on what is written to it line by line. What is too long for one is cut.
type lineWriter struct {
	line func(string)
	buf  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		if room := 2*noteLimit - len(w.buf); room > 0 {
			w.buf = append(w.buf, line[:min(len(line), room)]...)
		}
		if !whole {
			return n, nil
		}
		w.flush()
		p = rest
	}
}

func (w *lineWriter) flush() {
	w.line(string(w.buf))
	w.buf = w.buf[:0]
}
