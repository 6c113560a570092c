package dialect

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aictrlLosses is what aictrl has no word for.
func aictrlLosses() []Loss {
	return join(
		[]Loss{
			{Kind: "*", Fate: Dropped, Why: "of a sub-agent only its calls, decisions, errors and sub-agents are told", when: aictrlUntold},
			{Kind: "*", Fate: Approximated, Why: "a sub-agent is named by its session", when: aictrlRenamed},
			{Kind: "*", Field: "session", Fate: Approximated, Why: "all of the top agent is told under one session"},
			noTime("timestamp"),
		},
		numbering, inferences(),
		[]Loss{{Kind: "*", Field: "agent", Fate: Approximated, Why: "a sub-agent is named by its session"}},
		dropped("there is no word for it", "session.started", "prompt", "gate.asked", "compacted", "retry", "notice", "diag", "status",
			"loop.started", "loop.ended", "phase.started", "phase.ended", "phase.retry", "plan", "channel.ready", "channel.queued", "channel.submitted",
			"report", "answer", "finish", "custom"),
		dropped("the whole block follows", "text.delta", "thought.delta"),
		dropped("the call is told when it has ended", "tool.started", "tool.output"),
		dropped("the last message, and the end of the session, say it", "reply.done", "reply.failed", "reply.cancelled"),
		aictrlStartLosses(), aictrlTurnLosses(), aictrlToolLosses(),
		lost("skill.found", Dropped, "only the catalogue has versions", "version"),
		lost("agent.started", Dropped, "only the title is told", "role", "prompt"),
		lost("agent.ended", Dropped, "how a sub-agent ended is not told", "error"),
		aictrlSome("agent.started", Approximated, "the parent is named by its session", aictrlAlways, "parent", "depth"),
		aictrlSome("agent.ended", Approximated, "the parent is named by its session", aictrlAlways, "parent"),
		aictrlSome("error", Approximated, "code, class and whether to try again are told as far as data says them", aictrlAlways, "code", "class", "retryable"),
		lost("error", Dropped, "only name, message and data are told", "source", "prompt", "type", "stop", "model", "diagnostics"),
		aictrlSome("error", Synthesised, "a name is demanded: Unknown is written", func(e event.Event) bool { return e.Body.(event.Error).Name == "" }, "name"),
		aictrlSome("error", Approximated, "data is an object with the message in it", aictrlDataLost, "data", "message"),
		aictrlEndLosses("run.done"), aictrlEndLosses("run.failed"), aictrlEndLosses("run.cancelled"),
		lost("run.done", Dropped, "only a failed run has a reason", "reason", "class", "code"),
		aictrlSome("run.failed", Dropped, "a run that was denied or unverified has only session_complete.error", func(e event.Event) bool {
			return aictrlQuiet(event.RunEnd(e.Body.(event.RunFailed)).Outcome)
		}, "class", "code", "detail"),
	)
}

// aictrlSome is a table of fields of one kind that have one fate in some events.
func aictrlSome(k event.Kind, fate Fate, why string, when func(event.Event) bool, fields ...string) []Loss {
	list := lost(k, fate, why, fields...)
	for i := range list {
		list[i].when = when
	}
	return list
}

func aictrlAlways(event.Event) bool { return true }

func aictrlUntold(e event.Event) bool {
	switch e.Body.(type) {
	case event.ToolCalled, event.GateAllowed, event.GateDenied, event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled,
		event.AgentStarted, event.AgentEnded, event.Error:
		return false
	}
	return !e.Top()
}

func aictrlRenamed(e event.Event) bool {
	_, name := aictrlPath(e.Agent)
	return !e.Top() && name != e.Session
}

func aictrlStartLosses() []Loss {
	return join(
		lost("run.started", Dropped, "only model, profile and rules are told", "program", "version", "cwd", "mode", "backend", "dangerously_load", "run", "label",
			"resumed", "ephemeral", "capabilities", "phases"),
		aictrlSome("run.started", Synthesised, "an agent is demanded: default is written", func(e event.Event) bool {
			return e.Body.(event.RunStarted).Profile == ""
		}, "profile"),
		aictrlSome("run.started", Synthesised, "a model is demanded: an empty one is written", func(e event.Event) bool {
			b := e.Body.(event.RunStarted)
			return b.Provider == "" && b.Model == ""
		}, "model"),
		aictrlSome("run.started", Approximated, "what stands before the first slash is the provider", func(e event.Event) bool {
			b := e.Body.(event.RunStarted)
			return b.Provider == "" && strings.Contains(b.Model, "/") || strings.Contains(b.Provider, "/")
		}, "provider", "model"),
		aictrlSome("run.started", Approximated, "a rule allows, asks or denies", func(e event.Event) bool {
			return slices.ContainsFunc(e.Body.(event.RunStarted).Rules, func(r event.Rule) bool { return r != aictrlRule(r) })
		}, "rules"),
		[]Loss{{Kind: "catalog", Fate: Approximated, Why: "an empty catalogue looks like one that nobody told", when: func(e event.Event) bool {
			b := e.Body.(event.Catalog)
			return len(b.Tools)+len(b.Skills) == 0
		}}},
		aictrlSome("catalog", Approximated, "a tool is builtin or an MCP server's", func(e event.Event) bool {
			return slices.ContainsFunc(e.Body.(event.Catalog).Tools, func(t event.CatalogTool) bool { return t != aictrlTool(t) })
		}, "tools"),
	)
}

// aictrlTurn limits a loss to the ends of turns that f says.
func aictrlTurn(f func(event.TurnEnded) bool) func(event.Event) bool {
	return func(e event.Event) bool { return f(e.Body.(event.TurnEnded)) }
}

func aictrlUnfinished(b event.TurnEnded) bool {
	return b.Finish == event.FinishError || b.Finish == ""
}

func aictrlTurnLosses() []Loss {
	return join(
		aictrlSome("turn.started", Approximated, "steps are not numbered", aictrlAlways, "number"),
		aictrlSome("turn.ended", Approximated, "steps are not numbered", aictrlAlways, "number"),
		aictrlBlockLosses("text"), aictrlBlockLosses("thought"), lost("thought", Dropped, "there is no word for it", "signature"),
		[]Loss{
			{Kind: "text", Fate: Approximated, Why: "a text that was cut looks whole; one of an attempt that was given up is left out",
				when: func(e event.Event) bool { return e.Body.(event.Text).Partial }},
			{Kind: "thought", Fate: Approximated, Why: "a thought that was cut looks whole; one of an attempt that was given up is left out",
				when: func(e event.Event) bool { return e.Body.(event.Thought).Partial }},
		},
		lost("turn.ended", Dropped, "the model's own word is not told", "said"),
		aictrlSome("turn.ended", Approximated, "there are three words: end_turn, tool-calls, max_tokens", aictrlTurn(func(b event.TurnEnded) bool {
			return b.Finish == event.FinishRefusal || b.Finish == event.FinishSequence || b.Finish == event.FinishOther || b.Finish == ""
		}), "finish"),
		aictrlSome("turn.ended", Dropped, "a turn that the model did not finish has no message", aictrlTurn(aictrlUnfinished),
			"provider", "model", "profile", "usage", "cost", "context"),
		aictrlSome("turn.ended", Synthesised, "a provider is demanded: the run's is written", aictrlTurn(func(b event.TurnEnded) bool { return b.Provider == "" }), "provider"),
		aictrlSome("turn.ended", Synthesised, "a model is demanded: the run's is written", aictrlTurn(func(b event.TurnEnded) bool { return b.Model == "" }), "model"),
		aictrlSome("turn.ended", Synthesised, "an agent is demanded: the run's, or default, is written", aictrlTurn(func(b event.TurnEnded) bool { return b.Profile == "" }), "profile"),
		aictrlZero("usage.input", func(b event.TurnEnded) bool { return b.Usage.Input == nil }),
		aictrlZero("usage.output", func(b event.TurnEnded) bool { return b.Usage.Output == nil }),
		aictrlZero("usage.reasoning", func(b event.TurnEnded) bool { return b.Usage.Reasoning == nil }),
		aictrlZero("usage.cache_read", func(b event.TurnEnded) bool { return b.Usage.CacheRead == nil }),
		aictrlZero("usage.cache_write", func(b event.TurnEnded) bool { return b.Usage.CacheWrite == nil }),
		aictrlZero("cost.input", func(b event.TurnEnded) bool { return b.Cost.Input == nil }),
		aictrlZero("cost.output", func(b event.TurnEnded) bool { return b.Cost.Output == nil }),
		aictrlZero("cost.cache_read", func(b event.TurnEnded) bool { return b.Cost.CacheRead == nil }),
		aictrlZero("cost.cache_write", func(b event.TurnEnded) bool { return b.Cost.CacheWrite == nil }),
		aictrlSome("turn.ended", Approximated, "the document has only the parts of the cost: the sum is told in a field of our own", aictrlTurn(func(b event.TurnEnded) bool {
			return b.Cost.Total != nil
		}), "cost.total"),
		aictrlSome("turn.ended", Approximated, "what is used is the sum of the input", aictrlTurn(func(b event.TurnEnded) bool {
			all, _ := b.Usage.InputAll()
			return b.Context.Used != all && b.Context != event.Context{}
		}), "context.used"),
		aictrlSome("turn.ended", Dropped, "how full the window is is told where its size and the input are known", aictrlTurn(func(b event.TurnEnded) bool {
			_, known := b.Usage.InputAll()
			return b.Context != event.Context{} && (!known || b.Context.Limit <= 0)
		}), "context"),
	)
}

func aictrlZero(field string, unknown func(event.TurnEnded) bool) []Loss {
	return aictrlSome("turn.ended", Synthesised, "a number is demanded: 0 is written", aictrlTurn(func(b event.TurnEnded) bool {
		return unknown(b) && !aictrlUnfinished(b)
	}), field)
}

func aictrlBlockLosses(k event.Kind) []Loss {
	return join(
		lost(k, Dropped, "blocks have no id", "id"),
		aictrlSome(k, Synthesised, "times are demanded: the line's is written", func(e event.Event) bool {
			switch b := e.Body.(type) {
			case event.Text:
				return b.Start.IsZero() || b.End.IsZero()
			case event.Thought:
				return b.Start.IsZero() || b.End.IsZero()
			}
			return false
		}, "start", "end"),
	)
}

func aictrlToolLosses() []Loss {
	return join(
		lost("tool.called", Dropped, "only name and arguments are told", "title", "class", "description", "update"),
		aictrlSome("tool.called", Approximated, "arguments are an object", func(e event.Event) bool {
			in := e.Body.(event.ToolCalled).Input
			return len(in) == 0 || in[0] != '{' && in[0] != '"'
		}, "input"),
		aictrlGate("gate.allowed", event.ByRule), aictrlGate("gate.denied", event.ByNobody),
		aictrlCallEnd("tool.done"), aictrlCallEnd("tool.failed"), aictrlCallEnd("tool.denied"), aictrlCallEnd("tool.cancelled"),
		lost("tool.done", Dropped, "only a failed call has an error", "error"),
		[]Loss{{Kind: "tool.done", Fate: Approximated, Why: "an exit code that is not 0 is a failure", when: func(e event.Event) bool {
			exit := e.Body.(event.ToolDone).Exit
			return exit != nil && *exit != 0
		}}},
		aictrlSome("tool.failed", Synthesised, "an error is demanded", func(e event.Event) bool {
			b := e.Body.(event.ToolFailed)
			return b.Error == "" && b.Output == "" && (b.Exit == nil || *b.Exit == 0)
		}, "error"),
		aictrlSome("tool.failed", Dropped, "the exit code says it", func(e event.Event) bool {
			b := e.Body.(event.ToolFailed)
			return b.Error != "" && aictrlExited(event.ToolEnd(b))
		}, "error"),
	)
}

func aictrlGate(k event.Kind, by event.By) []Loss {
	is := func(f func(event.GateAnswer) bool) func(event.Event) bool {
		return func(e event.Event) bool { a, _ := event.AsGateAnswer(e.Body); return f(a) }
	}
	return join(
		lost(k, Dropped, "only tool, permission, patterns and input are told", "request", "rule", "option", "scope", "reason"),
		aictrlSome(k, Approximated, "who decided is not told", is(func(a event.GateAnswer) bool { return a.By != by }), "by"),
		aictrlSome(k, Synthesised, "a tool is demanded: the call's, or the permission, is written", is(func(a event.GateAnswer) bool { return a.Tool == "" }), "tool"),
		aictrlSome(k, Synthesised, "a permission is demanded: the tool is written", is(func(a event.GateAnswer) bool { return a.Permission == "" }), "permission"),
		aictrlSome(k, Synthesised, "an input is demanded: the call's, or null, is written", is(func(a event.GateAnswer) bool { return len(a.Input) == 0 }), "input"),
	)
}

func aictrlCallEnd(k event.Kind) []Loss {
	return join(
		lost(k, Dropped, "there is no word for it", "type", "update"),
		aictrlSome(k, Approximated, "metadata is an object, and exit, output and truncated are ours", func(e event.Event) bool {
			end, _ := event.AsToolEnd(e.Body)
			return len(end.Metadata) > 0 && string(aictrlRest(wire.Span(end.Metadata))) != string(end.Metadata)
		}, "metadata"),
	)
}

func aictrlDataLost(e event.Event) bool {
	b := e.Body.(event.Error)
	if len(b.Data) == 0 {
		return false
	}
	var d wire.Doc
	return d.Parse(b.Data) != nil || d.Root().Kind() != wire.Object || d.Root().Len() < 2 || d.Root().Get("message").Text() != b.Message
}

func aictrlEndLosses(k event.Kind) []Loss {
	is := func(f func(event.RunEnd) bool) func(event.Event) bool {
		return func(e event.Event) bool { end, _ := event.AsRunEnd(e.Body); return f(end) }
	}
	return join(
		lost(k, Dropped, "the end of the session has no word for it", "usage", "cost", "denials", "changes", "killed"),
		aictrlSome(k, Synthesised, "a duration is demanded: that from the first line to the last is written", is(func(end event.RunEnd) bool { return end.Duration == nil }), "duration_ms"),
		aictrlSome(k, Synthesised, "a message is demanded: that of the last error, or the outcome, is written", is(func(end event.RunEnd) bool {
			return k != "run.done" && end.Reason == "" && !aictrlQuiet(end.Outcome)
		}), "reason"),
		aictrlSome(k, Approximated, "outcome and class are told as one of six reasons", func(e event.Event) bool {
			end, _ := event.AsRunEnd(e.Body)
			outcome, class := aictrlOutcome(aictrlReason(end), end.Code)
			switch e.Body.(type) {
			case event.RunDone:
				return end.Outcome != event.Done
			case event.RunCancelled:
				return end.Outcome != event.Cancelled || end.Class != ""
			}
			return !aictrlQuiet(end.Outcome) && (outcome != end.Outcome || class != end.Class)
		}, "outcome", "class"),
		aictrlSome(k, Approximated, "a run that was stopped has the code of the signal, or none", func(e event.Event) bool {
			b, ok := e.Body.(event.RunCancelled)
			return ok && b.Code != "" && !aictrlSignal(b.Code)
		}, "code"),
	)
}
