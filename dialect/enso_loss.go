package dialect

import (
	"unicode/utf8"

	"github.com/sluice-dev/sluice/event"
)

// ensoLosses is what enso has no word for.
func ensoLosses() []Loss {
	return join(
		[]Loss{
			{Kind: "*", Field: "at", Fate: Dropped, Why: "lines have no time"},
			{Kind: "*", Field: "session", Fate: Dropped, Why: "only the run's own session is named",
				when: func(e event.Event) bool { return !e.Top() && e.Session != "" }},
		},
		numbering, inferences(),
		dropped("there is no word for it", "session.started", "catalog", "gate.asked", "gate.allowed", "tool.output",
			"skill.found", "skill.loaded", "skill.read", "retry", "notice", "diag", "status",
			"loop.started", "loop.ended", "phase.started", "phase.ended", "phase.retry", "plan", "channel.ready", "channel.queued", "channel.submitted",
			"report", "answer", "finish", "custom"),
		dropped("a turn is told by what is said in it, and by its end", "turn.started"),
		[]Loss{
			{Kind: "prompt", Fate: Dropped, Why: "only what the user said to the top agent is told", when: func(e event.Event) bool {
				b, ok := e.Body.(event.Prompt)
				return ok && (b.Text == "" || b.Source == event.SourceHistory || !e.Top())
			}},
			{Kind: "gate.denied", Fate: Dropped, Why: "a denial is told by the call's end, unless nobody was there to be asked", when: func(e event.Event) bool {
				b, ok := e.Body.(event.GateDenied)
				return ok && (b.By != event.ByNobody || b.Inferred || e.Call == "")
			}},
			{Kind: "turn.ended", Fate: Approximated, Why: "an answer that was never completed is told only if something was said", when: func(e event.Event) bool {
				b, ok := e.Body.(event.TurnEnded)
				return ok && b.Finish == event.FinishError
			}},
			{Kind: "reply.done", Fate: Approximated, Why: "the next prompt or the end of the session says it"},
			{Kind: "reply.failed", Fate: Approximated, Why: "the error of the session says it, if it was the last reply"},
			{Kind: "reply.cancelled", Fate: Approximated, Why: "only that it was cancelled is told"},
		},
		[]Loss{ // these are told where there were none
			{Kind: "text.delta", Fate: Synthesised, Why: "text is told in pieces: a block of which none came is one", when: ensoNever},
			{Kind: "thought.delta", Fate: Synthesised, Why: "thoughts are told in pieces: a block of which none came is one", when: ensoNever},
			{Kind: "tool.started", Fate: Synthesised, Why: "a call that never started is told as started, just before its end", when: ensoNever},
			{Kind: "reply.done", Fate: Synthesised, Why: "how the last reply ended is read from session_end", when: ensoNever},
			{Kind: "reply.failed", Fate: Synthesised, Why: "how the last reply ended is read from session_end", when: ensoNever},
			{Kind: "reply.cancelled", Fate: Synthesised, Why: "a run that was cancelled says so before its end", when: ensoNever},
			{Kind: "run.cancelled", Fate: Synthesised, Why: "a run whose last reply was cancelled looks cancelled, however it ended", when: ensoNever},
			{Kind: "turn.ended", Fate: Synthesised, Why: "a block of text that another one follows, or whose attempt was given up, is closed like an answer", when: ensoNever},
		},
		lost("run.started", Dropped, "only session, model and folder are told", "format", "program", "version", "provider", "profile", "mode", "rules", "backend",
			"dangerously_load", "run", "label", "capabilities", "phases"),
		[]Loss{
			{Kind: "run.started", Field: "session", Fate: Dropped, Why: "the id of a session that is not kept is empty", when: func(e event.Event) bool {
				b, ok := e.Body.(event.RunStarted)
				return ok && b.Ephemeral && e.Session != ""
			}},
			{Kind: "run.started", Field: "model", Fate: Synthesised, Why: "it is demanded and not known: empty", when: func(e event.Event) bool {
				b, ok := e.Body.(event.RunStarted)
				return ok && b.Model == ""
			}},
			{Kind: "run.started", Field: "cwd", Fate: Synthesised, Why: "it is demanded and not known: empty", when: func(e event.Event) bool {
				b, ok := e.Body.(event.RunStarted)
				return ok && b.Cwd == ""
			}},
			{Kind: "run.started", Field: "ephemeral", Fate: Synthesised, Why: "an empty id means that the session is not kept, also where it is only not known",
				when: func(e event.Event) bool {
					b, ok := e.Body.(event.RunStarted)
					return ok && !b.Ephemeral && e.Session == ""
				}},
		},
		lost("prompt", Dropped, "only the text is told", "id", "files", "attached", "source", "update"),
		lost("text.delta", Dropped, "only the text is told", "id", "update"),
		lost("text", Dropped, "only the text is told", "id", "start", "end"),
		lost("text", Approximated, "a text that was cut looks whole", "partial"),
		lost("thought.delta", Dropped, "only the text is told", "id", "update"),
		lost("thought", Dropped, "only the text is told", "id", "start", "end", "signature"),
		lost("thought", Approximated, "a thought that was cut looks whole", "partial"),
		lost("turn.ended", Dropped, "only that the answer is complete is told", "number", "provider", "model", "profile", "finish", "said", "usage", "cost", "context"),
		lost("tool.called", Dropped, "only name and arguments are told", "title", "class", "description", "update"),
		[]Loss{{Kind: "tool.called", Field: "input", Fate: Synthesised, Why: "arguments are demanded and none are known: {}", when: func(e event.Event) bool {
			b, ok := e.Body.(event.ToolCalled)
			return ok && len(b.Input) == 0
		}}},
		lost("gate.denied", Dropped, "only the tool is told", "request", "permission", "patterns", "input", "rule", "option", "scope", "reason"),
		ensoEnd("tool.done"), lost("tool.done", Dropped, "the error of a call that worked is null", "error", "exit"),
		ensoEnd("tool.failed"), ensoEnd("tool.denied"), ensoEnd("tool.cancelled"),
		[]Loss{
			{Kind: "tool.failed", Field: "error", Fate: Synthesised, Why: "an error is demanded and none is known: the output, or failed", when: func(e event.Event) bool {
				b, ok := e.Body.(event.ToolFailed)
				return ok && b.Error == "" && b.Exit == nil
			}},
			{Kind: "tool.failed", Field: "exit", Fate: Dropped, Why: "the exit is told where there is no other error", when: func(e event.Event) bool {
				b, ok := e.Body.(event.ToolFailed)
				return ok && b.Error != "" && b.Exit != nil
			}},
		},
		lost("tool.denied", Dropped, "only the reason is told", "exit"),
		lost("tool.cancelled", Dropped, "only the reason is told", "exit"),
		lost("agent.started", Dropped, "only id, parent, depth, role and prompt are told", "title"),
		lost("agent.started", Approximated, "the parent is the agent above, or the session", "parent"),
		lost("agent.ended", Approximated, "the parent is the agent above, or the session", "parent"),
		[]Loss{
			{Kind: "agent.started", Field: "prompt", Fate: Approximated, Why: "it is cut after 80 characters", when: func(e event.Event) bool {
				b, ok := e.Body.(event.AgentStarted)
				return ok && utf8.RuneCountInString(b.Prompt) > 80
			}},
			{Kind: "compacted", Field: "summary", Fate: Approximated, Why: "it is cut to one line", when: func(e event.Event) bool {
				b, ok := e.Body.(event.Compacted)
				return ok && ensoSummary(b.Summary) != b.Summary
			}},
		},
		lost("compacted", Dropped, "only tokens before and after are told, and the summary", "usage", "cost"),
		lost("error", Dropped, "only the message is told", "code", "class", "name", "retryable", "source", "prompt", "type", "stop", "model", "data", "diagnostics"),
		ensoRunEnd("run.done"), lost("run.done", Dropped, "a run that ended well has no error", "reason"),
		ensoRunEnd("run.failed"), lost("run.failed", Approximated, "every failure looks the same but for its message, and like a cancellation after a reply that was cancelled", "outcome"),
		ensoRunEnd("run.cancelled"),
	)
}

func ensoEnd(k event.Kind) []Loss {
	return lost(k, Dropped, "only result and error are told", "start", "end", "type", "truncated", "title", "metadata", "update")
}

func ensoRunEnd(k event.Kind) []Loss {
	return lost(k, Dropped, "only the message of a run that did not end well is told", "class", "code", "detail", "duration_ms", "usage", "cost", "denials", "changes", "killed")
}

// ensoNever is when a table names what the dialect says unasked: no event is lost by it.
func ensoNever(event.Event) bool { return false }
