package dialect

import "github.com/sluice-dev/sluice/internal/wire"

func grokShapes() *shapes {
	step := count("stepNumber")
	return &shapes{
		key:  "type",
		time: "timestamp",
		base: []field{count("timestamp"), may("sessionID", isString)},
		lines: []shape{
			{name: "step_start", doc: "a turn begins", fields: []field{step}},
			{name: "text", doc: "the whole text of the step", fields: []field{step, must("text", isString)}},
			{name: "tool_use", doc: "a call and its result", fields: []field{
				step,
				must("toolCall", isMap).of(must("id", isString), must("name", isString), must("args", isMap)),
				must("toolResult", isMap).of(must("id", isString), must("success", isBool), must("output", isString)),
				may("timing", isMap).of(count("startedAt"), count("finishedAt"), count("durationMs")),
			}},
			{name: "step_finish", doc: "the turn is over", fields: []field{
				step,
				must("finishReason", isString).like("stop", "tool_calls", "length", "content_filter", "error"),
				may("usage", isMap).of(count("inputTokens"), count("outputTokens"), count("totalTokens"), count("costUsdTicks").optional()),
			}},
			{name: "error", doc: "the run failed", fields: []field{must("message", isString)}},
		},
	}
}

var grokRules = []Rule{
	{"grok/step-number", false, "steps are numbered 1, 2, 3 …"},
	{"grok/step-order", false, "a step is step_start, at most one text, any tool_use, step_finish, and steps do not interleave"},
	{"grok/step-open", false, "every step is finished"},
	{"grok/result-id", false, "toolResult.id is toolCall.id"},
	{"grok/call-id", false, "a call is told once: no two calls of a step have the same id"},
	{"grok/timing", false, "durationMs is finishedAt minus startedAt"},
	{"grok/usage-sum", false, "totalTokens is inputTokens plus outputTokens"},
	{"grok/after-error", false, "an error is the last line"},
	{"grok/session", false, "the session's id does not change"},
	{"grok/call-untold", false, "a step that wants tools has a tool_use for each"},
	{"grok/tool-calls-last", true, "a run does not end on a step that wants tools"},
}

// grokChecker is the grammar of steps.
type grokChecker struct {
	step    int64
	open    bool
	stage   int // in the step: 1 started, 2 text, 3 tools
	failed  bool
	wants   bool // the last step finished with tool_calls
	session string
	calls   recent
}

func (g *grokChecker) line(c *check, typ string, n wire.Node) {
	if g.failed {
		c.report("grok/after-error", n, "%s after an error", typ)
	}
	if s := n.Get("sessionID").Text(); s != "" {
		if g.session != "" && s != g.session {
			c.report("grok/session", n.Get("sessionID"), "the session was %s", clip(g.session))
		}
		g.session = s
	}
	if typ == "error" {
		g.failed = true
		return
	}
	step, ok := n.Get("stepNumber").Int()
	if typ == "step_start" {
		if g.open {
			c.report("grok/step-open", n, "step %d is not finished", g.step)
		}
		if ok && step != g.step+1 {
			c.report("grok/step-number", n.Get("stepNumber"), "step %d after step %d", step, g.step)
		}
		if ok {
			g.step = step
		}
		g.open, g.stage, g.wants, g.calls = true, 1, false, recent{}
		return
	}
	if !g.open {
		c.report("grok/step-order", n, "%s outside a step", typ)
	} else if ok && step != g.step {
		c.report("grok/step-number", n.Get("stepNumber"), "step %d inside step %d", step, g.step)
	}
	switch typ {
	case "text":
		if g.stage >= 2 && g.open {
			c.report("grok/step-order", n, "a step has one text, before its calls")
		}
		g.stage = max(g.stage, 2)
	case "tool_use":
		g.stage = 3
		g.toolUse(c, n)
	case "step_finish":
		why := n.Get("finishReason")
		if (why.Is("tool_calls") || why.Is("tool-calls")) && g.stage != 3 {
			c.report("grok/call-untold", why, "the step wants tools, and has no tool_use")
		}
		g.open, g.stage = false, 0
		g.wants = why.Is("tool_calls")
		sum(c, "grok/usage-sum", n.Get("usage"), "totalTokens", "inputTokens", "outputTokens")
	}
}

func (g *grokChecker) toolUse(c *check, n wire.Node) {
	id := n.Get("toolCall").Get("id")
	if result := n.Get("toolResult").Get("id"); result.Kind() == wire.String && !result.Is(id.Text()) {
		c.report("grok/result-id", result, "the result is of %q, the call is %q", clip(result.Text()), clip(id.Text()))
	}
	if g.calls.add(id.Text()) {
		c.report("grok/call-id", id, "%q was told before in this step", clip(id.Text()))
	}
	t := n.Get("timing")
	s, ok1 := t.Get("startedAt").Float()
	f, ok2 := t.Get("finishedAt").Float()
	d, ok3 := t.Get("durationMs").Float()
	if ok1 && ok2 && ok3 && d != f-s {
		c.report("grok/timing", t.Get("durationMs"), "durationMs is %.0f, finishedAt - startedAt is %.0f", d, f-s)
	}
}

func (g *grokChecker) close(c *check) {
	switch {
	case g.open:
		c.stream("grok/step-open", "step %d is not finished", g.step)
	case g.wants && !g.failed:
		c.stream("grok/tool-calls-last", "the last step wants tools, and no step and no error follows")
	}
}

// sum checks that a total is the sum of its parts, where all are there.
func sum(c *check, rule string, n wire.Node, total string, parts ...string) {
	want, ok := n.Get(total).Float()
	if !ok {
		return
	}
	var got float64
	for _, p := range parts {
		v, ok := n.Get(p).Float()
		if !ok {
			return
		}
		got += v
	}
	if got != want {
		c.report(rule, n.Get(total), "%s is %.0f, its parts add up to %.0f", total, want, got)
	}
}
