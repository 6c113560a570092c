package dialect

import "github.com/sluice-dev/sluice/event"

// nativeDecoder gives events as they stand, with their numbers.
type nativeDecoder struct {
	bulk   bulk
	parser event.Parser
	ended  bool // the last run is
}

func (n *nativeDecoder) Decode(line []byte, emit func(event.Event)) {
	l, err := n.parser.Parse(line)
	if err == nil {
		var e event.Event
		if e, err = l.Event(); err != nil && !isSyntax(err) {
			e, err = l.Unread() // a field is not what we expect: better nothing of it read than part of it lost
		}
		if err == nil {
			n.see(e.Kind)
			if n.bulk == noBulk {
				e.Body = lean(e.Body)
			}
			emit(e)
			return
		}
	}
	emit(event.Event{Body: event.NewForeign(native.Name, line)})
	unread(emit, native.Name, "%v", err)
}

func (n *nativeDecoder) see(k event.Kind) {
	switch k {
	case "run.started":
		n.ended = false
	case "run.done", "run.failed", "run.cancelled":
		n.ended = true
	}
}

func (n *nativeDecoder) Ended() bool { return n.ended }

func (n *nativeDecoder) Close(func(event.Event)) {}

// lean leaves out what is bulky.
func lean(b event.Body) event.Body {
	switch b := b.(type) {
	case event.Foreign:
		return event.Foreign{Dialect: b.Dialect, Torn: b.Torn}
	case event.ToolCalled:
		b.Input = nil
		return b
	case event.ToolDone:
		return event.ToolDone(leanEnd(event.ToolEnd(b)))
	case event.ToolFailed:
		return event.ToolFailed(leanEnd(event.ToolEnd(b)))
	case event.ToolDenied:
		return event.ToolDenied(leanEnd(event.ToolEnd(b)))
	case event.ToolCancelled:
		return event.ToolCancelled(leanEnd(event.ToolEnd(b)))
	}
	return b
}

func leanEnd(e event.ToolEnd) event.ToolEnd {
	e.Output, e.Metadata = "", nil
	return e
}

// moved knows the last foreign lines of a native stream by the numbers that they had, so that what was read from them still
// says so when they get others.
type moved struct {
	lines [64]struct{ from, to uint64 }
	next  int
}

// follow lets Of follow the line that it names, if that was moved, and remembers e if it is a line, which had the number own.
func (m *moved) follow(e *event.Event, own uint64) {
	if e.Kind == "foreign" {
		m.next++
		m.lines[m.next%len(m.lines)] = struct{ from, to uint64 }{own, e.Seq}
	}
	if e.Of == 0 {
		return
	}
	for i := range m.lines { // the newest first: numbers may have begun anew
		if l := m.lines[(m.next-i+len(m.lines))%len(m.lines)]; l.from == e.Of {
			e.Of = l.to
			return
		}
	}
}
