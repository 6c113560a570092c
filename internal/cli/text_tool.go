package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// This file tells calls: one line each, when they end.

// A callKey names a call: each agent counts its own.
type callKey struct{ session, agent, call string }

// A textCall is a call that has not ended.
type textCall struct {
	name, title string
	order       uint64    // seq of its start
	began       time.Time // zero: it has not begun
	denied      *event.GateAnswer
}

// what is the call in a few words, tame.
func (c *textCall) what() string {
	name, title := tameLine(c.name), tameLine(c.title)
	if title == name || strings.HasPrefix(title, name+" ") {
		return title
	}
	return strings.TrimSpace(name + " " + title)
}

func keyOf(h event.Header) callKey { return callKey{h.Session, h.Agent, h.Call} }

// call returns what is known of an event's call.
func (s *textSink) call(h event.Header) *textCall {
	c := s.calls[keyOf(h)]
	if c == nil {
		c = &textCall{}
		s.calls[keyOf(h)] = c
	}
	return c
}

func (s *textSink) called(e event.Event, b event.ToolCalled) {
	c := s.call(e.Header)
	c.name, c.title = b.Name, one(b.Title, b.Description, string(b.Input[:min(len(b.Input), 4*s.o.Width)]))
	s.sum.calls++
}

func (s *textSink) started(e event.Event, b event.ToolStarted) {
	c := s.call(e.Header)
	c.name, c.order, c.began = one(c.name, b.Name), e.Seq, e.At
}

// newest returns the call that began last, and how many run.
func (s *textSink) newest() (call *textCall, running int) {
	for _, c := range s.calls {
		if c.order == 0 {
			continue
		}
		if running++; call == nil || c.order > call.order {
			call = c
		}
	}
	return call, running
}

// denied keeps a refusal for the line that ends the call. One that is about no call is told at once.
func (s *textSink) denied(e event.Event, a event.GateAnswer) {
	if c := s.calls[keyOf(e.Header)]; c != nil {
		c.denied = &a
		return
	}
	s.line(depthOf(e.Agent), s.paint(yellow, "⊘ ")+joined([]string{one(a.Tool, a.Permission), answered("denied", a)}))
	s.advise(depthOf(e.Agent), a)
}

func (s *textSink) ended(e event.Event) {
	end, _ := event.AsToolEnd(e.Body)
	c := s.call(e.Header)
	delete(s.calls, keyOf(e.Header))
	c.name, c.title = one(end.Name, c.name), one(end.Title, c.title)
	mark, colour := "✓", green
	var details []string
	if took := c.took(end, e.At); took > 0 {
		details = append(details, humanSpan(took))
	}
	switch e.Body.(type) {
	case event.ToolFailed:
		mark, colour = "✗", red
	case event.ToolCancelled:
		mark, colour = "■", yellow
	case event.ToolDenied:
		mark, colour = "⊘", yellow
		if c.denied == nil {
			c.denied = &event.GateAnswer{Reason: end.Error}
		}
		details = []string{answered("denied", *c.denied)}
	}
	if mark != "⊘" {
		details = append(details, s.cameOf(end)...)
	}
	depth := depthOf(e.Agent)
	rest := joined(details)
	if rest != "" {
		rest = " · " + rest
	}
	name, title, _ := strings.Cut(cut(c.what(), s.o.Width-len(indent(depth))-len("✓ ")-width(rest)), " ")
	s.line(depth, s.paint(colour, mark)+" "+s.paint(bold, name)+strings.TrimRight(" "+title, " ")+s.paint(dim, rest))
	switch {
	case mark == "⊘":
		s.advise(depth, *c.denied)
	case mark == "✓" && end.Type == "diff":
		s.diff(depth, end.Output)
	}
}

// took is how long a call ran, as far as anybody said.
func (c *textCall) took(end event.ToolEnd, at time.Time) time.Duration {
	switch {
	case !end.Start.IsZero() && !end.End.IsZero():
		return end.End.Sub(end.Start)
	case !c.began.IsZero() && !at.IsZero():
		return at.Sub(c.began)
	}
	return 0
}

// cameOf says what came of a call: exit code or error, and how much it said.
func (s *textSink) cameOf(end event.ToolEnd) (parts []string) {
	code := ""
	if end.Exit != nil && *end.Exit > 0 {
		code = strconv.Itoa(*end.Exit)
		parts = append(parts, "exit "+code)
	}
	if end.Error != "" && (code == "" || !strings.HasSuffix(end.Error, " "+code)) {
		first, _, _ := strings.Cut(strings.TrimSpace(end.Error), "\n")
		parts = append(parts, cut(tameLine(first), s.o.Width))
	}
	switch {
	case end.Type == "diff":
		added, removed := diffCounts(end)
		parts = append(parts, fmt.Sprintf("+%d −%d", added, removed))
	case end.Type == "image":
		parts = append(parts, "image")
	case end.Output != "":
		count := plural(countLines(end.Output), "line")
		if end.Truncated {
			count += ", cut"
		}
		parts = append(parts, count)
	}
	return parts
}

// answered says who decided, in words that have yet to be tamed.
func answered(word string, a event.GateAnswer) string {
	if a.Scope == "always" {
		word += " from now on"
	}
	switch a.By {
	case event.ByRule:
		if a.Rule != nil {
			return word + " by the rule " + gate.RuleText(*a.Rule)
		}
		return word + " by a rule"
	case event.ByMode:
		return word + " by the mode"
	case event.ByAlways:
		return word + " by an earlier answer"
	case event.ByClient:
		return word + " by the client"
	case event.ByFile:
		return word + " by an answer file"
	case event.ByControl:
		return word + " over the control socket"
	case event.ByAuto:
		return word + " automatically"
	case event.ByNobody:
		return word + ": nobody was there to ask"
	}
	return word + bracket(string(a.By))
}

// advise says why a call was denied, and what to type so that the next one passes.
func (s *textSink) advise(depth int, a event.GateAnswer) {
	why := a.Reason
	if a.By == event.ByNobody && a.Permission != "" && !strings.Contains(why, "to let it pass") {
		pattern := "*"
		if len(a.Patterns) == 1 {
			pattern = a.Patterns[0]
		}
		rule := strings.ReplaceAll(gate.RuleText(event.Rule{Permission: a.Permission, Pattern: pattern}), "'", `'\''`)
		if why != "" {
			why += "; "
		}
		why += "to let it pass: --allow '" + rule + "'"
	}
	if why = tameLine(why); why != "" {
		s.line(depth+1, s.paint(dim, why))
	}
}

// maxDiff is how many lines of a diff are shown.
const maxDiff = 12

// diff shows the beginning of what was changed.
func (s *textSink) diff(depth int, text string) {
	shown, left := 0, 0
	for d := range diffLines(text) {
		if d.kind == diffHeader {
			continue
		}
		if shown == maxDiff {
			left++
			continue
		}
		shown++
		colour := map[diffKind]string{diffAdded: green, diffRemoved: red, diffOther: dim}[d.kind]
		line := strings.ReplaceAll(tame(d.text), "\t", "    ")
		s.line(depth+1, s.paint(colour, cut(line, s.o.Width-len(indent(depth+1)))))
	}
	if left > 0 {
		s.line(depth+1, s.paint(dim, "… +"+plural(left, "line")))
	}
}

// diffCounts counts what a diff adds and removes. The tool knows better, if it said so: the diff may have been cut.
func diffCounts(end event.ToolEnd) (added, removed int) {
	var said struct{ Added, Removed *int }
	if json.Unmarshal(end.Metadata, &said) == nil && said.Added != nil && said.Removed != nil {
		return *said.Added, *said.Removed
	}
	for d := range diffLines(end.Output) {
		switch d.kind {
		case diffAdded:
			added++
		case diffRemoved:
			removed++
		}
	}
	return added, removed
}

type diffKind int

const (
	diffOther diffKind = iota
	diffAdded
	diffRemoved
	diffHeader // which file it is
)

type diffLine struct {
	kind diffKind
	text string
}

// diffLines goes through the lines of a diff. A line that begins with --- may be a removed one: it is a header only if +++
// follows it and a hunk follows that.
func diffLines(text string) func(func(diffLine) bool) {
	return func(yield func(diffLine) bool) {
		inHeader := false
		for rest := text; rest != ""; {
			var line string
			line, rest, _ = strings.Cut(rest, "\n")
			d := diffLine{diffOther, line}
			switch {
			case inHeader:
				d.kind, inHeader = diffHeader, false
			case strings.HasPrefix(line, "--- ") && strings.HasPrefix(rest, "+++ ") && strings.Contains(rest, "\n@@ "):
				d.kind, inHeader = diffHeader, true
			case strings.HasPrefix(line, "+"):
				d.kind = diffAdded
			case strings.HasPrefix(line, "-"):
				d.kind = diffRemoved
			}
			if !yield(d) {
				return
			}
		}
	}
}
