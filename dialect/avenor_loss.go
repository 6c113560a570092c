package dialect

import (
	"slices"

	"github.com/sluice-dev/sluice/event"
)

// avenorLosses is what avenor has no word for. What depends on where an event stands, the encoder reports itself.
func avenorLosses() []Loss {
	return join(
		[]Loss{
			{Kind: "*", Fate: Dropped, Why: "of a sub-agent only calls, questions and errors are told", when: func(e event.Event) bool {
				return !e.Top() && !slices.Contains(avenorBelow, e.Kind)
			}},
			noTime("ts"),
		},
		avenorSessions(), numbering, inferences(),
		avenorMade("a block without pieces is told as one", "text.delta", "thought.delta"),
		avenorMade("a session that failed has an error before its end", "error"),
		dropped("there is no word for it", "catalog", "turn.started", "skill.found", "skill.loaded", "skill.read", "agent.started", "agent.ended",
			"compacted", "retry", "notice", "diag"),
		dropped("a call is told when it begins and when it ends", "tool.started", "tool.output"),
		dropped("only the reply's tokens are told", "turn.ended"),
		dropped("the last session.end, or avenor.loop.end, says it", "run.done", "run.failed", "run.cancelled"),

		losing("run.started", "", Dropped, "a session has an id", func(e event.Event, b event.RunStarted) bool { return b.Inferred || e.Session == "" }),
		when("run.started", "", Dropped, "each phase has a session.start of its own", func(b event.RunStarted) bool { return b.Phases }),
		losing("run.started", "program", Dropped, "only backend and directory are told", avenorAlways[event.RunStarted]),
		lost("run.started", Dropped, "only backend and directory are told", "version", "provider", "model", "profile", "mode", "rules", "resumed", "ephemeral", "capabilities"),
		losing("run.started", "dangerously_load", Synthesised, "it is demanded and not known: false is written", func(_ event.Event, b event.RunStarted) bool {
			return b.DangerouslyLoad == nil && b.Backend == "claude"
		}),
		lost("session.started", Dropped, "only backend and directory are told", "model", "resumed"),
		losing("session.started", "dangerously_load", Synthesised, "it is demanded and not known: false is written", func(_ event.Event, b event.SessionStarted) bool {
			return b.DangerouslyLoad == nil && b.Backend == "claude"
		}),
		losing("prompt", "", Dropped, "only what the user said is told", func(_ event.Event, b event.Prompt) bool { return b.Text == "" || b.Source == event.SourceHistory }),
		lost("prompt", Dropped, "only what the user said is told", "files", "attached", "source"),

		losing("text.delta", "id", Synthesised, "a message has an id", func(_ event.Event, b event.TextDelta) bool { return b.ID == "" }),
		losing("thought.delta", "id", Synthesised, "a message has an id", func(_ event.Event, b event.ThoughtDelta) bool { return b.ID == "" }),
		losing("text", "", Dropped, "there is nothing to tell", func(_ event.Event, b event.Text) bool { return b.Text == "" }),
		losing("thought", "", Dropped, "there is nothing to tell", func(_ event.Event, b event.Thought) bool { return b.Text == "" }),
		losing("text", "id", Synthesised, "a message has an id", func(_ event.Event, b event.Text) bool { return b.ID == "" }),
		losing("thought", "id", Synthesised, "a message has an id", func(_ event.Event, b event.Thought) bool { return b.ID == "" }),
		avenorBlocks[event.Text]("text"), avenorBlocks[event.Thought]("thought"),
		lost("thought", Dropped, "only the text is told", "signature"),

		losing("tool.called", "title", Approximated, "a call has a title: the description, or the tool's name", func(_ event.Event, b event.ToolCalled) bool {
			return b.Title == b.Name || b.Title == "" && b.Description != ""
		}),
		lost("tool.called", Dropped, "only title, tool and arguments are told", "class", "description"),
		losing("tool.called", "input", Approximated, "the arguments are an object", func(_ event.Event, b event.ToolCalled) bool {
			return len(b.Input) > 0 && b.Input[0] != '{'
		}),
		avenorToolEnd("tool.done"), avenorToolEnd("tool.failed"),
		[]Loss{
			{Kind: "tool.denied", Fate: Approximated, Why: "it looks like a call that failed; only an answer before it tells"},
			{Kind: "tool.cancelled", Fate: Approximated, Why: "it looks like a call that failed"},
		},

		lost("gate.asked", Dropped, "only tool, question and options are told", "permission", "patterns", "input", "deadline"),
		losing("gate.asked", "request", Synthesised, "a question has an id", func(_ event.Event, b event.GateAsked) bool { return b.Request == "" }),
		losing("gate.asked", "options", Synthesised, "a question can be answered with yes and with no", func(_ event.Event, b event.GateAsked) bool {
			return len(avenorOptions(b.Options)) > len(b.Options) || slices.ContainsFunc(b.Options, func(o event.Option) bool { return o.Kind == "" })
		}),
		avenorAnswer[event.GateAllowed]("gate.allowed"), avenorAnswer[event.GateDenied]("gate.denied"),

		avenorReplyEnd[event.ReplyDone]("reply.done"), avenorReplyEnd[event.ReplyFailed]("reply.failed"), avenorReplyEnd[event.ReplyCancelled]("reply.cancelled"),

		losing("status", "phase", Approximated, "there are four phases: working is written", func(_ event.Event, b event.Status) bool { return !slices.Contains(avenorPhases, b.Phase) }),
		losing("status", "source", Synthesised, "a status has a source", func(_ event.Event, b event.Status) bool { return b.Source == "" }),
		losing("phase.started", "part", Synthesised, "the iteration tells", func(_ event.Event, b event.PhaseStarted) bool { return b.Part == "" }),
		losing("phase.ended", "stop", Synthesised, "it is demanded: that of the last session", func(_ event.Event, b event.PhaseEnded) bool { return b.Stop == "" }),
		losing("phase.ended", "label", Dropped, "a label belongs to a marker", func(_ event.Event, b event.PhaseEnded) bool { return b.Marker == "" }),
		losing("loop.ended", "reason", Approximated, "there are seven reasons", func(_ event.Event, b event.LoopEnded) bool { return !slices.Contains(avenorExits, b.Reason) }),
		lost("error", Dropped, "only source and message are told, and what a detector saw", "code", "class", "name", "retryable", "prompt", "data"),
		losing("error", "source", Synthesised, "an error has a source: backend", func(_ event.Event, b event.Error) bool { return b.Source == "" }),
		losing("channel.ready", "source", Synthesised, "it is demanded: channel", func(_ event.Event, b event.ChannelReady) bool { return b.Source == "" }),
		losing("channel.queued", "type", Synthesised, "it is demanded: continue", func(_ event.Event, b event.ChannelQueued) bool { return b.Type == "" }),
		losing("channel.queued", "delivery", Synthesised, "it is demanded: channel", func(_ event.Event, b event.ChannelQueued) bool { return b.Delivery == "" }),
		losing("channel.submitted", "delivery", Approximated, "it is tmux or pty", func(_ event.Event, b event.ChannelSubmitted) bool { return b.Delivery != "tmux" && b.Delivery != "pty" }),
		losing("report", "source", Synthesised, "it is demanded: channel", func(_ event.Event, b event.Report) bool { return b.Source == "" }),
		losing("answer", "source", Synthesised, "it is demanded: channel", func(_ event.Event, b event.Answer) bool { return b.Source == "" }),
		losing("finish", "source", Synthesised, "it is demanded: channel", func(_ event.Event, b event.Finished) bool { return b.Source == "" }),
	)
}

// avenorBelow are the kinds that are told of sub-agents too.
var avenorBelow = []event.Kind{
	"tool.called", "tool.done", "tool.failed", "tool.denied", "tool.cancelled", "gate.asked", "gate.allowed", "gate.denied", "error", "custom",
}

func avenorSessions() (list []Loss) {
	for _, k := range avenorBelow {
		list = append(list, Loss{Kind: k, Fate: Approximated, Why: "a sub-agent is told as a session", when: func(e event.Event) bool { return !e.Top() }})
	}
	return list
}

// avenorMade lists kinds that are told where nobody said them. No event is lost by that.
func avenorMade(why string, kinds ...event.Kind) (list []Loss) {
	for _, k := range kinds {
		list = append(list, Loss{Kind: k, Fate: Synthesised, Why: why, when: never})
	}
	return list
}

// losing is the loss of a field, or of the event, where when says so.
func losing[B event.Body](k event.Kind, field string, fate Fate, why string, when func(event.Event, B) bool) []Loss {
	return []Loss{{Kind: k, Field: field, Fate: fate, Why: why, when: func(e event.Event) bool {
		b, ok := e.Body.(B)
		return ok && when(e, b)
	}}}
}

func avenorAlways[B event.Body](event.Event, B) bool { return true }

func avenorBlocks[B event.Body](k event.Kind) []Loss {
	return join(
		losing(k, "start", Approximated, "its first and last piece have times", avenorAlways[B]),
		losing(k, "end", Approximated, "its first and last piece have times", avenorAlways[B]),
		lost(k, Dropped, "a block that was cut looks whole", "partial"),
	)
}

func avenorToolEnd(k event.Kind) []Loss {
	return lost(k, Dropped, "only the outcome is told", "exit", "start", "end", "type", "error", "truncated", "title", "output", "metadata")
}

func avenorAnswer[B event.Body](k event.Kind) []Loss {
	answer := func(b B) event.GateAnswer { a, _ := event.AsGateAnswer(b); return a }
	return join(
		losing(k, "", Dropped, "only the answer to a question is told", func(e event.Event, b B) bool { return answer(b).Request == "" && e.Call == "" }),
		losing(k, "request", Synthesised, "a question has an id", func(_ event.Event, b B) bool { return answer(b).Request == "" }),
		losing(k, "tool", Approximated, "it is the question's", avenorAlways[B]),
		losing(k, "option", Synthesised, "an answer is one of the options", func(_ event.Event, b B) bool { return answer(b).Option == "" }),
		losing(k, "by", Approximated, "an answer comes from avenor, control or a file", func(_ event.Event, b B) bool {
			switch answer(b).By {
			case event.ByControl, event.ByFile:
				return false
			case event.ByAuto:
				return k != "gate.allowed"
			case event.ByNobody:
				return k != "gate.denied"
			}
			return true
		}),
		lost(k, Dropped, "only option and source are told", "permission", "patterns", "input", "rule", "scope", "reason"),
	)
}

func avenorReplyEnd[B event.Body](k event.Kind) []Loss {
	end := func(b B) event.ReplyEnd { r, _ := event.AsReplyEnd(b); return r }
	return join(
		losing(k, "", Approximated, "the stop reason says another outcome", func(_ event.Event, b B) bool {
			stop := end(b).Stop
			return stop != "" && stop != "error" && replyEnd(event.ReplyEnd{Stop: stop}).Kind() != k
		}),
		losing(k, "stop", Synthesised, "there is always a stop reason", func(_ event.Event, b B) bool { return end(b).Stop == "" }),
		losing(k, "stop", Approximated, "where none of the document's words fits, it is error", func(_ event.Event, b B) bool { return !slices.Contains(avenorStops, end(b).Stop) }),
		losing(k, "prompt", Approximated, "it is the prompt before it", avenorAlways[B]),
		lost(k, Dropped, "there is no word for it", "cost"),
		losing(k, "usage", Approximated, "it is the sum of the turns' tokens", func(_ event.Event, b B) bool { return end(b).Usage == (event.Usage{}) }),
		lost(k, Approximated, "tokens that were put into the cache count as input", "usage.cache_write"),
		lost(k, Approximated, "reasoning counts as output", "usage.reasoning"),
		losing(k, "usage.input", Approximated, "tokens that were put into the cache count as input", func(_ event.Event, b B) bool {
			return end(b).Usage.CacheWrite != nil || end(b).Usage.Input == nil
		}),
		losing(k, "usage.output", Approximated, "reasoning counts as output", func(_ event.Event, b B) bool {
			return end(b).Usage.Reasoning != nil || end(b).Usage.Output == nil
		}),
	)
}
