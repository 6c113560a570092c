package dialect

import "github.com/sluice-dev/sluice/event"

// aionrsLosses is what aionrs has no word for.
func aionrsLosses() []Loss {
	return join(
		[]Loss{
			{Kind: "*", Fate: Dropped, Why: "of a sub-agent only calls, errors and notices are told", when: aionrsSilent},
			{Kind: "*", Field: "at", Fate: Dropped, Why: "lines have no times"},
			{Kind: "*", Field: "agent", Fate: Dropped, Why: "lines do not say which agent they are of"},
			{Kind: "*", Field: "call", Fate: Approximated, Why: "an id that comes a second time gets a number"},
			{Kind: "*", Field: "session", Fate: Approximated, Why: "only the run's first session is told"},
		},
		numbering, inferences(),
		dropped("there is no word for it", "session.started", "catalog", "turn.started", "tool.output", "skill.found", "skill.loaded", "skill.read",
			"agent.started", "agent.ended", "diag", "status", "loop.started", "loop.ended", "phase.started", "phase.ended", "phase.retry", "plan",
			"channel.ready", "channel.queued", "channel.submitted", "report", "answer", "finish"),
		when("custom", "", Dropped, "there is no word for it", func(b event.Custom) bool { return aionrsGrown[b.Name] == "" }),
		when("custom", "", Approximated, "it is told as a line that the document does not have", func(b event.Custom) bool { return aionrsGrown[b.Name] != "" }),
		approximated("only what it used is told, as part of its reply", "turn.ended"),
		approximated("it is told as an info", "compacted", "retry"),

		lost("run.started", Dropped, "only the session and the capabilities are told", "cwd", "provider", "model", "profile", "mode", "rules", "backend",
			"dangerously_load", "run", "label", "resumed", "phases"),
		when("run.started", "program", Dropped, "ready does not name the program", func(b event.RunStarted) bool { return b.Program != "aionrs" }),
		when("run.started", "version", Dropped, "ready has the version of the protocol", func(b event.RunStarted) bool { return b.Version != aionrsVersion }),
		when("run.started", "capabilities", Synthesised, "nobody knows them: none is promised", func(b event.RunStarted) bool { return b.Capabilities == nil }),
		[]Loss{{Kind: "run.started", Field: "ephemeral", Fate: Approximated, Why: "a session without an id looks like one that is not kept",
			when: func(e event.Event) bool { return e.Session == "" }}},

		approximated("only its id is told, or one is made, and nothing of one that goes on, steers or gives context: the client knows what it said", "prompt"),
		lost("text.delta", Dropped, "only the text is told", "id", "update"),
		lost("thought.delta", Dropped, "only the text is told", "id", "update"),
		approximated("only its pieces are told, not where it ends", "text", "thought"),

		approximated("it is told when it runs, with more than its name when somebody is asked about it, and by its id alone when neither happens", "tool.called"),
		[]Loss{{Kind: "gate.asked", Fate: Dropped, Why: "a request is about a call", when: func(e event.Event) bool { return e.Call == "" }}},
		lost("gate.asked", Dropped, "the call is told, not the question", "permission", "patterns", "question", "options", "deadline"),
		aionrsGate("gate.asked"), aionrsGate("gate.allowed"), aionrsGate("gate.denied"),
		aionrsAnswer("gate.allowed"), aionrsAnswer("gate.denied"),
		lost("gate.allowed", Dropped, "the answer shows only in what becomes of the call", "reason"),
		filled("gate.denied", Approximated, "the end of the call says it", "reason"),

		aionrsEnd("tool.done"), lost("tool.done", Dropped, "the output is told", "error"),
		aionrsEnd("tool.failed"), lost("tool.failed", Approximated, "the error is told as the end of the output", "error"),
		when("tool.failed", "output", Approximated, "the error is told as the end of the output", func(b event.ToolFailed) bool { return b.Error != "" }),
		approximated("denied and cancelled calls have one word, and only a reason", "tool.denied", "tool.cancelled"),

		lost("error", Dropped, "only code, message and whether to try again are told", "class", "name", "source", "type", "stop", "model", "data", "diagnostics"),
		when("error", "code", Approximated, "there are five codes", func(b event.Error) bool { return aionrsCode(b.Code, "", "") != b.Code }),
		when("error", "retryable", Synthesised, "it is not known: false is written", func(b event.Error) bool { return b.Retryable == nil }),
		[]Loss{{Kind: "error", Field: "prompt", Fate: Synthesised, Why: "a sub-agent's error is told of the open stream", when: func(e event.Event) bool { return !e.Top() }}},
		when("notice", "prompt", Synthesised, "it is told of the open stream", func(b event.Notice) bool { return b.Prompt == "" }),

		aionrsReply("reply.done"), aionrsReply("reply.failed"),
		approximated("a reply that was stopped ends like any other", "reply.cancelled"),

		aionrsRun("run.done"), lost("run.done", Dropped, "a conversation just ends", "reason", "class"),
		when("run.done", "outcome", Dropped, "a conversation just ends", func(b event.RunDone) bool { return b.Outcome != event.Done }),
		when("run.failed", "", Approximated, "the process just ends, after what its replies tell", func(b event.RunFailed) bool {
			return b.Outcome != event.Misuse && b.Outcome != event.Internal && b.Outcome != event.Failed
		}),
		aionrsRun("run.failed"),
		filled("run.failed", Approximated, "an error tells it, unless one has told why the reply failed; its code is one of five", "outcome", "reason", "class"),
		approximated("a conversation just ends", "run.cancelled"),

		made("what is told whole is told as one piece", "text.delta", "thought.delta"),
		made("a call that has ended was running", "tool.started"),
		made("a reply or a run that failed needs an error", "error"),
		made("what has no word of its own is told so", "notice", "reply.done", "run.done", "tool.denied", "tool.cancelled", "gate.denied"),
	)
}

// aionrsSilent says whether an event is one of a sub-agent that is not told.
func aionrsSilent(e event.Event) bool {
	if e.Top() {
		return false
	}
	switch e.Body.(type) {
	case event.ToolCalled, event.GateAsked, event.GateAllowed, event.GateDenied, event.ToolStarted, event.ToolDone, event.ToolFailed, event.ToolDenied,
		event.ToolCancelled, event.Error, event.Notice, event.Retry, event.Compacted:
		return false
	}
	return true
}

func aionrsGate(k event.Kind) []Loss {
	return []Loss{
		{Kind: k, Field: "request", Fate: Approximated, Why: "a question has the id of its call", when: func(e event.Event) bool {
			q, _ := e.Body.(event.GateAsked)
			a, _ := event.AsGateAnswer(e.Body)
			return first(q.Request, a.Request) != e.Call
		}},
		{Kind: k, Field: "tool", Fate: Approximated, Why: "the call's name is told", when: anyEvent},
		{Kind: k, Field: "input", Fate: Approximated, Why: "the call's arguments are told", when: anyEvent},
	}
}

func aionrsAnswer(k event.Kind) []Loss {
	return join([]Loss{
		{Kind: k, Fate: Dropped, Why: "an answer that nobody asked for shows only in what becomes of the call", when: func(e event.Event) bool {
			a, _ := event.AsGateAnswer(e.Body)
			return a.Request == "" || e.Call == ""
		}},
		{Kind: k, Field: "by", Fate: Approximated, Why: "it looks like the client's", when: func(e event.Event) bool {
			a, _ := event.AsGateAnswer(e.Body)
			return a.By != event.ByClient
		}},
	}, lost(k, Dropped, "the answer shows only in what becomes of the call", "permission", "patterns", "rule", "option", "scope"))
}

func aionrsEnd(k event.Kind) []Loss {
	end := func(f func(event.ToolEnd) bool) func(event.Event) bool {
		return func(e event.Event) bool { t, _ := event.AsToolEnd(e.Body); return f(t) }
	}
	return join(
		lost(k, Dropped, "there is no word for it", "exit", "start", "end", "truncated", "title", "update"),
		[]Loss{
			{Kind: k, Field: "type", Fate: Approximated, Why: "what is no image, and no diff of a file that is named, is text", when: end(func(t event.ToolEnd) bool {
				return t.Type != "text" && t.Type != "image" && !(t.Type == "diff" && hasPath(t.Metadata))
			})},
			{Kind: k, Field: "metadata", Fate: Approximated, Why: "it is an object; that of a diff names the file", when: end(func(t event.ToolEnd) bool {
				return len(t.Metadata) > 0 && t.Metadata[0] != '{' || t.Type == "diff" && len(t.Metadata) == 0
			})},
		})
}

func aionrsReply(k event.Kind) []Loss {
	reply := func(f func(event.ReplyEnd) bool) func(event.Event) bool {
		return func(e event.Event) bool { r, _ := event.AsReplyEnd(e.Body); return f(r) }
	}
	const unknown = "it is the sum of the turns', or 0 where nobody knows"
	return join(lost(k, Dropped, "there is no word for it", "stop", "cost"), []Loss{
		{Kind: k, Field: "prompt", Fate: Synthesised, Why: "a stream needs an id", when: reply(func(r event.ReplyEnd) bool { return r.Prompt == "" })},
		{Kind: k, Field: "usage.reasoning", Fate: Approximated, Why: "reasoning counts as output", when: reply(func(r event.ReplyEnd) bool { return r.Usage.Reasoning != nil })},
		{Kind: k, Field: "usage.input", Fate: Synthesised, Why: unknown, when: reply(func(r event.ReplyEnd) bool { return r.Usage.Input == nil })},
		{Kind: k, Field: "usage.output", Fate: Approximated, Why: "reasoning counts as output; " + unknown,
			when: reply(func(r event.ReplyEnd) bool { return r.Usage.Output == nil || r.Usage.Reasoning != nil })},
		{Kind: k, Field: "usage.cache_read", Fate: Synthesised, Why: unknown, when: reply(func(r event.ReplyEnd) bool { return r.Usage.CacheRead == nil })},
		{Kind: k, Field: "usage.cache_write", Fate: Synthesised, Why: unknown, when: reply(func(r event.ReplyEnd) bool { return r.Usage.CacheWrite == nil })},
	})
}

func aionrsRun(k event.Kind) []Loss {
	return lost(k, Dropped, "a conversation just ends", "code", "detail", "duration_ms", "usage", "cost", "denials", "changes", "killed")
}

func anyEvent(event.Event) bool { return true }

// filled is lost, for fields that come back with something in them also where nothing was.
func filled(k event.Kind, fate Fate, why string, fields ...string) []Loss {
	list := lost(k, fate, why, fields...)
	for i := range list {
		list[i].when = anyEvent
	}
	return list
}

// when is a loss that depends on the body.
func when[B event.Body](k event.Kind, field string, fate Fate, why string, f func(B) bool) []Loss {
	return []Loss{{Kind: k, Field: field, Fate: fate, Why: why, when: func(e event.Event) bool {
		b, ok := e.Body.(B)
		return ok && f(b)
	}}}
}

// approximated is a table of kinds that a dialect tells in the words of others.
func approximated(why string, kinds ...event.Kind) []Loss {
	list := dropped(why, kinds...)
	for i := range list {
		list[i].Fate = Approximated
	}
	return list
}

// made is a table of kinds that a reader will find though nobody said them: the dialect demands them. No event loses them.
func made(why string, kinds ...event.Kind) []Loss {
	list := dropped(why, kinds...)
	for i := range list {
		list[i].Fate, list[i].when = Synthesised, func(event.Event) bool { return false }
	}
	return list
}
