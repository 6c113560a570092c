package agent

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// emit tells what happened, and keeps it if the model is to know.
func (s *Session) emit(b event.Body) { s.emitOf("", b) }

func (s *Session) emitOf(call string, b event.Body) {
	e, err := s.src.Emit(event.Event{Header: event.Header{Session: s.name, Agent: s.path, Call: call}, Body: b})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(e)
}

// Recall tells the session what happened before it was resumed.
func (s *Session) Recall(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch b := e.Body.(type) {
	case event.TurnStarted:
		if e.Agent == s.path {
			s.turn = max(s.turn, b.Number)
		}
	case event.ToolCalled:
		s.Common.know(e.Call)
	case event.AgentStarted:
		s.Common.agent()
	}
	s.remember(e)
}

// remember keeps what belongs to the history, outputs cut to what a model is shown.
func (s *Session) remember(e event.Event) {
	if _, thought := e.Body.(event.Thought); thought && s.cfg.Forget {
		return
	}
	if end, ok := event.AsToolEnd(e.Body); ok && end.Type != "image" {
		end.Output = tool.Cut(end.Output, s.cfg.Clip)
		switch e.Body.(type) {
		case event.ToolDone:
			e.Body = event.ToolDone(end)
		case event.ToolFailed:
			e.Body = event.ToolFailed(end)
		case event.ToolCancelled:
			e.Body = event.ToolCancelled(end)
		}
	}
	fold.Apply(e, &s.history)
}

// request is what the model is told now.
func (s *Session) request(tools []provider.Tool) provider.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return provider.Request{
		System: s.cfg.System, History: s.history.Events(), Tools: tools,
		MaxTokens: s.cfg.MaxTokens, Thinking: s.cfg.Thinking,
	}
}

// toolNames lists the tools there are.
func (s *Session) toolNames() []string {
	names := make([]string, 0, len(s.specs))
	for _, t := range s.specs {
		names = append(names, t.Name)
	}
	return names
}
