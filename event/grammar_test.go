package event

import (
	"fmt"
	"slices"
	"strings"
)

// grammar is the order that a [Mender] promises, said a second time: as what may come, not as what to do about it.
type grammar struct {
	run, over bool
	loop      bool
	phase     *PhaseStarted
	reply     bool
	prompt    string
	implied   bool
	fresh     bool
	agents    map[string]*spans
	order     []string // in which they began
}

// spans is what is open in one agent.
type spans struct {
	turn, spoke bool
	block       Kind
	text        string
	calls       []string
	asks        []ask
}

// checkGrammar says where a stream is not whole.
func checkGrammar(events []Event) error {
	var g grammar
	for i, e := range events {
		if err := g.next(e); err != nil {
			return fmt.Errorf("event %d, %s: %w", i+1, Append(nil, e), err)
		}
	}
	if !g.over {
		return fmt.Errorf("the run has no end")
	}
	return nil
}

func (g *grammar) next(e Event) error {
	if e.Kind != e.Body.Kind() {
		return fmt.Errorf("its header says %s", e.Kind)
	}
	if Inferred(e.Body) && e.Of != 0 {
		return fmt.Errorf("inferred, and read from line %d", e.Of)
	}
	body := readable(e.Body)
	switch body.(type) {
	case Foreign, Diag, Unknown:
		if g.over {
			return fmt.Errorf("after the end")
		}
		return nil
	case RunStarted:
		if g.run && !g.over {
			return fmt.Errorf("a run is open")
		}
		*g = grammar{run: true, agents: map[string]*spans{"": {}}, order: []string{""}}
		return nil
	}
	if !g.run || g.over {
		return fmt.Errorf("outside a run")
	}
	switch b := body.(type) {
	case RunDone, RunFailed, RunCancelled:
		g.over = true
		if g.reply || g.loop || g.phase != nil {
			return fmt.Errorf("open: reply %v, loop %v, phase %v", g.reply, g.loop, g.phase)
		}
		return g.closed("")
	case LoopStarted:
		if g.reply || g.loop || g.phase != nil {
			return fmt.Errorf("open: reply %v, loop %v, phase %v", g.reply, g.loop, g.phase)
		}
		g.loop = true
		return nil
	case LoopEnded:
		if g.reply || !g.loop || g.phase != nil {
			return fmt.Errorf("open: reply %v, loop %v, phase %v", g.reply, g.loop, g.phase)
		}
		g.loop = false
		return nil
	case PhaseStarted:
		if g.reply || g.phase != nil {
			return fmt.Errorf("open: reply %v, phase %v", g.reply, g.phase)
		}
		g.phase = &b
		return nil
	case PhaseEnded:
		if g.reply || g.phase == nil || g.phase.Phase != b.Phase {
			return fmt.Errorf("open: reply %v, phase %v", g.reply, g.phase)
		}
		g.phase = nil
		return nil
	case AgentStarted:
		if e.Agent == "" {
			return nil
		}
		parent := ""
		if i := strings.LastIndexByte(e.Agent, '/'); i > 0 {
			parent = e.Agent[:i]
		}
		if g.agents[e.Agent] != nil || g.agents[parent] == nil && strings.Count(e.Agent, "/") < maxDepth || !g.reply {
			return fmt.Errorf("open: it %v, its parent %v, reply %v", g.agents[e.Agent] != nil, g.agents[parent] != nil, g.reply)
		}
		g.agents[e.Agent] = &spans{}
		g.order = append(slices.DeleteFunc(g.order, func(p string) bool { return p == e.Agent }), e.Agent)
		return nil
	}
	s := g.agents[e.Agent]
	if s == nil {
		return fmt.Errorf("its agent is not open")
	}
	if _, ok := body.(AgentEnded); ok && e.Agent != "" {
		delete(g.agents, e.Agent)
		for path := range g.agents {
			if strings.HasPrefix(path, e.Agent+"/") {
				return fmt.Errorf("%s is open", path)
			}
		}
		return s.closed()
	}
	return g.inAgent(s, e, body)
}

func (g *grammar) inAgent(s *spans, e Event, body Body) error {
	switch b := body.(type) {
	case Prompt:
		switch {
		case e.Agent != "" || b.Source == SourceHistory || g.reply && b.Source == SourceSteer:
		case g.reply && !(g.fresh && (g.implied || g.prompt == b.ID)):
			return fmt.Errorf("a reply is open")
		default:
			g.reply, g.fresh, g.prompt, g.implied = true, true, b.ID, b.Inferred
		}
	case ReplyDone, ReplyFailed, ReplyCancelled:
		if e.Agent != "" {
			return s.closed()
		}
		if !g.reply {
			return fmt.Errorf("no reply is open")
		}
		g.reply, g.fresh, s.spoke = false, false, false
		if len(g.agents) > 1 {
			return fmt.Errorf("sub-agents are open")
		}
		return g.closed("")
	case TurnStarted:
		if s.turn || !g.reply {
			return fmt.Errorf("open: turn %v, reply %v", s.turn, g.reply)
		}
		s.turn, s.spoke, g.fresh = true, true, false
	case TurnEnded:
		if !s.turn || s.block != "" {
			return fmt.Errorf("open: turn %v, block %s", s.turn, s.block)
		}
		s.turn = false
	case TextDelta:
		return s.delta("text", b.Text)
	case ThoughtDelta:
		return s.delta("thought", b.Text)
	case Text:
		return s.whole("text", b.Text)
	case Thought:
		return s.whole("thought", b.Text)
	case Retry:
		if s.block != "" {
			return fmt.Errorf("a block is open")
		}
	case ToolCalled:
		if slices.Contains(s.calls, e.Call) || s.block != "" || !g.reply || !s.spoke {
			return fmt.Errorf("open: calls %q, block %q, reply %v, it spoke %v", s.calls, s.block, g.reply, s.spoke)
		}
		s.calls = append(s.calls, e.Call)
	case ToolStarted, ToolOutput:
		if !slices.Contains(s.calls, e.Call) {
			return fmt.Errorf("its call is not open")
		}
	case ToolDone, ToolFailed, ToolDenied, ToolCancelled:
		i := slices.Index(s.calls, e.Call)
		if i < 0 {
			return fmt.Errorf("its call is not open")
		}
		s.calls = slices.Delete(s.calls, i, i+1)
		for _, a := range s.asks {
			if e.Call != "" && a.call == e.Call {
				return fmt.Errorf("nobody answered %q", a.request)
			}
		}
	case GateAsked:
		a := ask{b.Request, e.Call, ""}
		if !b.Inferred && e.Call != "" && !slices.Contains(s.calls, e.Call) {
			return fmt.Errorf("its call is not open")
		}
		if !slices.Contains(s.asks, a) {
			s.asks = append(s.asks, a)
		}
	case GateAllowed, GateDenied:
		return g.answered(s, e, b)
	}
	return nil
}

func (g *grammar) answered(s *spans, e Event, b Body) error {
	answer, _ := AsGateAnswer(b)
	answers := []func(path string, a ask) bool{ // the best first
		func(path string, a ask) bool { return path == e.Agent && a == ask{answer.Request, e.Call, ""} },
		func(path string, a ask) bool {
			if answer.Request != "" {
				return path == e.Agent && a.request == answer.Request
			}
			return path == e.Agent && e.Call != "" && a.call == e.Call
		},
		func(path string, a ask) bool { return answer.Request != "" && a.request == answer.Request },
	}
	for _, match := range answers {
		for _, path := range g.order {
			if s := g.agents[path]; s != nil {
				if i := slices.IndexFunc(s.asks, func(a ask) bool { return match(path, a) }); i >= 0 {
					s.asks = slices.Delete(s.asks, i, i+1)
					return nil
				}
			}
		}
	}
	if answer.Request != "" {
		return fmt.Errorf("nobody asked %q", answer.Request)
	}
	if e.Call != "" && !slices.Contains(s.calls, e.Call) {
		return fmt.Errorf("its call is not open")
	}
	return nil
}

func (g *grammar) closed(agent string) error { return g.agents[agent].closed() }

func (s *spans) closed() error {
	if s.turn || s.block != "" || len(s.calls) > 0 || len(s.asks) > 0 {
		return fmt.Errorf("open: turn %v, block %q, calls %q, questions %q", s.turn, s.block, s.calls, s.asks)
	}
	return nil
}

func (s *spans) delta(k Kind, text string) error {
	if !s.turn || s.block != "" && s.block != k {
		return fmt.Errorf("open: turn %v, block %q", s.turn, s.block)
	}
	s.block = k
	s.text += text
	return nil
}

func (s *spans) whole(k Kind, text string) error {
	if !s.turn || s.block != "" && s.block != k {
		return fmt.Errorf("open: turn %v, block %q", s.turn, s.block)
	}
	if s.block != "" && s.text != text {
		return fmt.Errorf("its deltas add up to %q", s.text)
	}
	s.block, s.text = "", ""
	return nil
}
