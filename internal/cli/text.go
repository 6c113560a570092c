package cli

import (
	"cmp"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// This file tells a run to a person at a terminal. The rules: what the model says stands at the margin, between empty lines,
// and is never folded; everything else is one line each, indented, and bulk is folded; what an agent wrote is tamed before
// it is written, see tame. What is told is in the journal in full.

// textOptions say what stands behind the writer.
type textOptions struct {
	Colour bool // ANSI colours may be used
	Live   bool // a terminal: text comes as it is said, and the last line may be drawn anew; else whole blocks only
	ASCII  bool // it may not read UTF-8: nothing but ASCII is written
	Width  int  // columns; 0: 80
}

// A textSink writes events as text, in one write each at most. It has no clock: times are those of the events.
type textSink struct {
	w   io.Writer
	o   textOptions
	out []byte   // of the event that is being told
	in  textPart // what was told last

	// What the model is saying, while its deltas come.
	open   textBlock
	said   int  // bytes of open that were told
	mid    bool // the cursor stands after them
	breaks int  // newlines that wait for something to follow them

	calls  map[callKey]*textCall // that have not ended
	status textStatus
	sum    textSum
}

// A textPart is a part of the text, set off from the next by an empty line.
type textPart int

const (
	partNone  textPart = iota
	partWork           // one line after another: the head, prompts, thoughts, calls
	partWords          // what the model says
	partEnd            // the summary
)

// A textBlock names a block of text of the top agent.
type textBlock struct{ session, id string }

func newText(w io.Writer, o textOptions) *textSink {
	if o.Width <= 0 {
		o.Width = 80
	}
	if o.ASCII {
		o.Width -= 8 // marks are words then
	}
	return &textSink{w: w, o: o, calls: map[callKey]*textCall{}}
}

// Put tells an event.
func (s *textSink) Put(e event.Event) error {
	s.out = s.status.erase(s.out[:0])
	before := len(s.out)
	s.sum.see(e)
	s.status.see(e)
	s.tell(e)
	line := s.statusLine()
	if len(s.out) == before && line == s.status.drawn {
		return nil
	}
	s.status.drawn = line
	s.out = append(s.out, line...)
	if s.o.ASCII {
		s.out = ascii(s.out)
	}
	_, err := s.w.Write(s.out)
	return err
}

func (s *textSink) tell(e event.Event) {
	depth := depthOf(e.Agent)
	switch b := e.Body.(type) {
	case event.RunStarted:
		s.line(0, s.paint(dim, headLine(e.Session, b)))
	case event.Prompt:
		if b.Text != "" && b.Source != event.SourceHistory {
			s.line(depth, s.paint(dim, "> "+s.folded(b.Text, depth)))
		}
	case event.TextDelta:
		s.delta(e, b)
	case event.Text:
		s.text(e, b)
	case event.Thought:
		if strings.TrimSpace(b.Text) != "" {
			s.line(depth, s.paint(dim, "∴ "+s.folded(b.Text, depth)+givenUp(b.Partial)))
		}
	case event.TurnEnded:
		switch b.Finish {
		case event.FinishLength:
			s.line(depth, s.paint(yellow, "! the answer was cut by the output limit"))
		case event.FinishRefusal:
			s.line(depth, s.paint(yellow, "! the model refused"))
		}
	case event.ToolCalled:
		s.called(e, b)
	case event.ToolStarted:
		s.started(e, b)
	case event.GateAsked:
		s.line(depth, s.paint(yellow, "? "+tameLine(one(b.Question, b.Tool))))
	case event.GateAllowed:
		if b.Request != "" {
			s.line(depth+1, s.paint(dim, tameLine(pair(b.Tool, ": ", answered("allowed", event.GateAnswer(b))))))
		}
	case event.GateDenied:
		s.denied(e, event.GateAnswer(b))
	case event.AgentStarted:
		s.line(depth-1, s.paint(dim, "▸ ")+tameLine(pair(e.Agent, ": ", one(b.Title, b.Prompt)))+s.paint(dim, bracket(tameLine(b.Role))))
	case event.AgentEnded:
		s.line(depth-1, s.paint(dim, "◂ "+tameLine(e.Agent)+" ended")+s.paint(red, tameLine(pair("", ": ", b.Error))))
	case event.Compacted:
		s.line(depth, s.paint(dim, compacted(b)))
	case event.Retry:
		s.line(depth, s.paint(yellow, "↻ "+retried(b)))
	case event.Error:
		s.line(depth, s.paint(red, "! "+tameLine(b.Message+bracket(strings.TrimSpace(b.Class+" "+b.Code)))))
	case event.Notice:
		s.line(depth, s.paint(yellow, "i ")+tameLine(b.Text))
	case event.Diag:
		s.line(depth, s.paint(dim, tameLine(pair(b.Source, ": ", b.Text))))
	case event.SkillLoaded:
		s.line(depth, s.paint(dim, "· skill "+tameLine(b.Name)))
	case event.PhaseRetry:
		s.line(depth, s.paint(yellow, "↻ trying the phase again · "+nth(b.Attempt, b.Limit)))
	case event.LoopStarted, event.LoopEnded, event.PhaseStarted, event.PhaseEnded, event.Finished:
		s.line(depth, s.paint(dim, "· "+tameLine(excerptOf(e))))
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		s.ended(e)
	case event.RunDone, event.RunFailed, event.RunCancelled:
		s.summary(e)
	}
}

// delta tells a piece of what the top agent says. What others say is told when it is whole: two texts at once are none.
func (s *textSink) delta(e event.Event, b event.TextDelta) {
	if !s.o.Live || !e.Top() {
		return
	}
	if block := (textBlock{e.Session, b.ID}); block != s.open || s.said == 0 {
		s.endLine()
		s.open, s.said = block, 0
	}
	s.said += len(b.Text)
	s.words(b.Text)
}

// text tells a block, or what is left of it after its deltas.
func (s *textSink) text(e event.Event, b event.Text) {
	if depth := depthOf(e.Agent); depth > 0 {
		if strings.TrimSpace(b.Text) != "" {
			s.line(depth, s.folded(b.Text, depth)+s.paint(dim, givenUp(b.Partial)))
		}
		return
	}
	same := s.said > 0 && s.open.session == e.Session && (s.open.id == b.ID || s.open.id == "" || b.ID == "")
	rest := b.Text
	if same {
		rest = rest[min(s.said, len(rest)):]
	} else {
		s.endLine()
	}
	if same || strings.TrimSpace(rest) != "" {
		s.words(rest)
		s.out = append(s.out, s.paint(yellow, givenUp(b.Partial))...)
	}
	s.endLine()
	s.open, s.said = textBlock{}, 0
}

// words writes what the model says. Newlines wait until something follows them: a block neither begins nor ends with an
// empty line.
func (s *textSink) words(text string) {
	text = tame(text)
	body := strings.TrimLeft(text, "\n")
	s.breaks += len(text) - len(body)
	if body == "" {
		return
	}
	if !s.mid {
		s.part(partWords)
		s.mid, s.breaks = true, 0
	}
	for ; s.breaks > 0; s.breaks-- {
		s.out = append(s.out, '\n')
	}
	kept := strings.TrimRight(body, "\n")
	s.out = append(s.out, kept...)
	s.breaks = len(body) - len(kept)
}

// endLine goes to a new line, if the cursor is not on one.
func (s *textSink) endLine() {
	if s.mid {
		s.out = append(s.out, '\n')
	}
	s.mid, s.breaks = false, 0
}

// part begins a part. Each block of words is one of its own.
func (s *textSink) part(p textPart) {
	if s.in != partNone && (s.in != p || p == partWords) {
		s.out = append(s.out, '\n')
	}
	s.in = p
}

// line writes a line of work. What it says has been tamed.
func (s *textSink) line(depth int, text string) {
	s.endLine()
	s.part(partWork)
	s.out = append(s.out, indent(depth)...)
	s.out = append(s.out, text...)
	s.out = append(s.out, '\n')
}

// folded is the first line of a text, and how many more it has.
func (s *textSink) folded(text string, depth int) string {
	text = strings.TrimSpace(text)
	first, rest, more := strings.Cut(text, "\n")
	tail := ""
	if more {
		tail = " … +" + plural(countLines(rest), "line")
	}
	return cut(tameLine(first), s.o.Width-len(indent(depth))-width(tail)-4) + tail
}

// The colours.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (s *textSink) paint(colour, text string) string {
	if !s.o.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// depthOf is how deep a sub-agent is; the top agent is at 0.
func depthOf(agent string) int {
	if agent == "" {
		return 0
	}
	return 1 + strings.Count(agent, "/")
}

// indent sets a line off from the margin, and off from its parent's.
func indent(depth int) string { return strings.Repeat("  ", 1+min(max(depth, 0), 8)) }

func headLine(session string, b event.RunStarted) string {
	model := b.Model
	if b.Provider != "" && b.Model != "" {
		model = b.Provider + "/" + b.Model
	}
	parts := []string{cmp.Or(model, b.Program), pair("", "mode ", b.Mode), b.Cwd, session}
	if b.Backend != "sluice" {
		parts = append(parts, b.Backend)
	}
	parts = append(parts, b.Label)
	if b.Resumed {
		parts = append(parts, "resumed")
	}
	if b.Ephemeral {
		parts = append(parts, "ephemeral")
	}
	return joined(parts)
}

// joined tames the parts that say something and puts them on one line.
func joined(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		if p = tameLine(p); p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" · ")
		}
		b.WriteString(p)
	}
	return b.String()
}

func bracket(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func givenUp(partial bool) string {
	if partial {
		return " … given up"
	}
	return ""
}

func compacted(b event.Compacted) string {
	text := pair("· history shortened", ": ", tameLine(b.Reason))
	if b.Before != nil && b.After != nil {
		text += ", " + humanCount(*b.Before) + " → " + humanCount(*b.After) + " tokens"
	}
	return text
}

func retried(b event.Retry) string {
	text := one(b.Message, b.Class, "the request failed")
	if b.Status != 0 {
		text += bracket(strconv.Itoa(b.Status))
	}
	text = tameLine(text) + " · trying again"
	if b.Wait > 0 {
		text += " in " + humanSpan(time.Duration(b.Wait)*time.Millisecond)
	}
	return text + " · " + nth(b.Attempt, b.Limit)
}
