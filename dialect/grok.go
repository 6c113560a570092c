package dialect

import (
	"math"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// grok tells a run as steps: step_start, at most one text, the tool calls with their results, step_finish. It knows one agent.
var grok = Dialect{
	Name:    "grok",
	Doc:     "step blocks: step_start, one text, tool_use for each call, step_finish; error as the last line of a failed run",
	encoder: func(o Options) Encoder { return &grokEncoder{opt: o} },
	decoder: func(b bulk) Decoder { return &grokDecoder{bulk: b, lines: wire.NewReader[grokIn](b.care())} },
	shapes:  sync.OnceValue(grokShapes),
	checker: func() checker { return &grokChecker{} },
	rules:   grokRules,
	losses:  grokLosses,
	score:   grokScore,
}

func grokScore(n wire.Node) int {
	switch n.Get("type").Text() {
	case "step_start", "text", "tool_use", "step_finish":
		if n.Get("stepNumber").Kind() == wire.Number {
			return 3
		}
	case "error":
		if n.Get("message").Kind() == wire.String && n.Get("timestamp").Kind() == wire.Number {
			return 2
		}
	}
	return 0
}

// grokEncoder remembers the step that is open.
type grokEncoder struct {
	opt     Options
	session string
	clock   clock
	step    int
	turn    turn
	texts   []event.Event  // of this step, not yet told
	ids     map[string]int // how often an id was used in this step
	calls   []*grokCall    // of this step, in the order they were called, not yet told
	below   grokSpent      // by sub-agents that this step's calls started
	last    string         // why the last step finished
	failed  bool           // the reply failed
	message string         // of the last error
}

// grokSpent is what was used and paid. Who totals up the steps of a run wants to have it all.
type grokSpent struct {
	usage    event.Usage
	cost     event.Cost
	unpriced bool // a part of it has no price that is known
}

func (s *grokSpent) add(b event.TurnEnded) {
	s.usage = s.usage.Add(b.Usage)
	s.cost = s.cost.Add(b.Cost)
	_, priced := b.Cost.Sum()
	s.unpriced = s.unpriced || !priced && b.Usage != (event.Usage{})
}

type grokCall struct {
	id     string
	told   string // the id that it has in its step
	called event.ToolCalled
	end    *event.Event
}

type grokLine struct {
	Type         string          `json:"type"`
	SessionID    string          `json:"sessionID,omitempty"`
	StepNumber   int             `json:"stepNumber,omitempty"`
	Timestamp    int64           `json:"timestamp"`
	Text         *string         `json:"text,omitempty"`
	ToolCall     *grokToolCall   `json:"toolCall,omitempty"`
	ToolResult   *grokToolResult `json:"toolResult,omitempty"`
	Timing       *grokTiming     `json:"timing,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
	Usage        *grokUsage      `json:"usage,omitempty"`
	Message      *string         `json:"message,omitempty"`
}

type grokToolCall struct {
	ID   string    `json:"id"`
	Name string    `json:"name"`
	Args event.Raw `json:"args"`
}

type grokToolResult struct {
	ID      string `json:"id"`
	Success bool   `json:"success"`
	Output  string `json:"output"`
}

type grokTiming struct {
	StartedAt  int64 `json:"startedAt"`
	FinishedAt int64 `json:"finishedAt"`
	DurationMs int64 `json:"durationMs"`
}

type grokUsage struct {
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
	CostUsdTicks *int64 `json:"costUsdTicks,omitempty"`
}

func (g *grokEncoder) Encode(dst []byte, e event.Event) []byte {
	if !e.Top() {
		if b, ok := e.Body.(event.TurnEnded); ok && g.turn.open {
			g.below.add(b)
		}
		return dst
	}
	g.session = first(g.session, e.Session)
	switch b := e.Body.(type) {
	case event.RunStarted: // steps are counted within a run
		*g = grokEncoder{opt: g.opt, clock: g.clock, session: e.Session}
	case event.TurnStarted:
		dst = g.finish(dst, e)
		g.step++
		g.turn.start()
		dst = g.line(dst, e, grokLine{Type: "step_start"})
	case event.TextDelta:
		if g.opt.Deltas && g.turn.open {
			dst = g.line(dst, e, grokLine{Type: "text_delta", Text: &b.Text})
		}
	case event.Text:
		g.heard(e, b)
	case event.Retry: // they belong to the attempt that was given up
		for _, t := range g.texts {
			g.opt.lose(t, "", Dropped, "the text belongs to an attempt that was given up")
		}
		g.texts = nil
	case event.ToolCalled:
		g.turn.called()
		g.calls = append(g.calls, &grokCall{id: e.Call, told: g.unique(e.Call), called: b})
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		g.turn.done()
		for _, c := range g.calls {
			if c.id == e.Call && c.end == nil {
				end := e
				c.end = &end
				break
			}
		}
		dst = g.told(dst)
		if g.turn.ready() {
			dst = g.finish(dst, e)
		}
	case event.TurnEnded:
		g.turn.end(e)
		dst = g.told(dst)
		if g.turn.ready() {
			dst = g.finish(dst, e)
		}
	case event.Error:
		g.message = b.Message
	case event.Prompt:
		g.failed = false
	case event.ReplyDone, event.ReplyCancelled:
		g.turn.stop(e.Header)
		dst = g.finish(dst, e)
	case event.ReplyFailed:
		g.failed = true
		dst = g.finish(dst, e)
	case event.RunDone:
		dst = g.finish(dst, e)
		if g.step == 0 || g.last == string(event.FinishToolCalls) { // the last line of a run that is done does not want more
			g.step++
			g.turn.start()
			dst = g.line(dst, e, grokLine{Type: "step_start"})
			dst = g.finish(dst, e)
		}
	case event.RunFailed, event.RunCancelled:
		g.failed = true
		dst = g.finish(dst, e)
		end, _ := event.AsRunEnd(b)
		message := first(end.Reason, g.message, string(end.Outcome), "the run failed")
		l := grokLine{Type: "error", Message: &message, Timestamp: g.clock.millis(e.Header), SessionID: g.session}
		dst = appendLine(dst, l)
	}
	return dst
}

// line appends a line of the open step, made of e.
func (g *grokEncoder) line(dst []byte, e event.Event, l grokLine) []byte {
	if g.opt.told(e.Header) {
		return dst
	}
	l.SessionID, l.StepNumber, l.Timestamp = g.session, g.step, g.clock.millis(e.Header)
	return appendLine(dst, l)
}

// unique makes an id that no other call of the step has.
func (g *grokEncoder) unique(id string) string {
	if g.ids == nil || g.turn.calls == 1 {
		g.ids = map[string]int{}
	}
	told := id
	for n := 1; told == "" || g.ids[told] > 0; n++ {
		told = numbered(first(id, "call"), n)
	}
	g.ids[told]++
	return told
}

// told tells the calls that are over, in the order they were called, once the answer is complete: until then there may be
// more text, which stands before them.
func (g *grokEncoder) told(dst []byte) []byte {
	for g.turn.ended != nil && len(g.calls) > 0 && g.calls[0].end != nil {
		dst = g.toolUse(dst, g.calls[0])
		g.calls = g.calls[1:]
	}
	return dst
}

// heard keeps a text until the step's is complete.
func (g *grokEncoder) heard(e event.Event, b event.Text) {
	switch {
	case b.Text == "" || !g.turn.open:
		g.opt.lose(e, "", Dropped, "empty texts are not told")
		return
	case len(g.texts) == 1:
		g.opt.lose(g.texts[0], "text", Approximated, "a step has one text: those of a turn are joined")
		g.opt.lose(g.texts[0], "at", Approximated, "a step has one text, with the time of the last one")
		fallthrough
	case len(g.texts) > 1:
		g.opt.lose(e, "", Approximated, "a step has one text: it is joined to the one before")
	}
	g.texts = append(g.texts, e)
}

// text tells the step's text, before its calls and its end.
func (g *grokEncoder) text(dst []byte) []byte {
	if len(g.texts) == 0 {
		return dst
	}
	var all strings.Builder
	for i, t := range g.texts {
		if i > 0 {
			all.WriteByte('\n')
		}
		all.WriteString(t.Body.(event.Text).Text)
	}
	last := g.texts[len(g.texts)-1]
	g.texts = nil
	return g.line(dst, last, grokLine{Type: "text", Text: new(all.String())})
}

func (g *grokEncoder) toolUse(dst []byte, c *grokCall) []byte {
	if !g.turn.open {
		return dst
	}
	dst = g.text(dst)
	end, _ := event.AsToolEnd(c.end.Body)
	_, done := c.end.Body.(event.ToolDone)
	l := grokLine{
		Type:       "tool_use",
		ToolCall:   &grokToolCall{ID: c.told, Name: first(c.called.Name, end.Name), Args: arguments(c.called.Input)},
		ToolResult: &grokToolResult{ID: c.told, Success: done, Output: grokOutput(end)},
	}
	if !end.Start.IsZero() && !end.End.Before(end.Start) {
		s, f := end.Start.UnixMilli(), end.End.UnixMilli()
		l.Timing = &grokTiming{s, f, f - s}
	}
	return g.line(dst, *c.end, l)
}

// grokOutput is what a call said, and behind it why it failed: there is no other field for that.
func grokOutput(end event.ToolEnd) string {
	if end.Output == "" || end.Error == "" || end.Error == end.Output {
		return first(end.Output, end.Error)
	}
	return end.Output + "\n" + end.Error
}

// finish closes the open step, if there is one.
func (g *grokEncoder) finish(dst []byte, e event.Event) []byte {
	if !g.turn.open {
		return dst
	}
	for _, c := range g.calls {
		if c.end == nil {
			c.end = &event.Event{Header: e.Header, Body: event.ToolCancelled{Name: c.called.Name, Error: "the call did not end"}}
		}
		dst = g.toolUse(dst, c)
	}
	g.calls = nil
	dst = g.text(dst)
	l := grokLine{Type: "step_finish"}
	at := e
	var ended event.TurnEnded
	if g.turn.ended != nil {
		at = *g.turn.ended
		ended = at.Body.(event.TurnEnded)
	}
	l.FinishReason = grokFinish(g.turn.finish(g.failed), ended.Said)
	if l.FinishReason == string(event.FinishToolCalls) && g.turn.calls == 0 {
		l.FinishReason = "other" // it wanted tools, and none was called
		g.opt.lose(at, "finish", Approximated, "a step that wants tools has calls, and nobody told any")
	}
	g.last = l.FinishReason
	if g.below != (grokSpent{}) {
		for _, field := range []string{"usage.input", "usage.output", "cost.total"} {
			g.opt.lose(at, field, Approximated, "a step has what its sub-agents used, too")
		}
	}
	g.below.add(ended)
	in, known := g.below.usage.InputAll()
	out, also := g.below.usage.OutputAll()
	if known || also {
		l.Usage = &grokUsage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
		if c, ok := g.below.cost.Sum(); ok && !g.below.unpriced {
			l.Usage.CostUsdTicks = new(int64(math.Round(c * 1e6)))
		}
	}
	g.below = grokSpent{}
	g.turn.open = false
	return g.line(dst, at, l)
}

func grokFinish(f event.Finish, said string) string {
	switch f {
	case event.FinishRefusal:
		return "content_filter"
	case event.FinishSequence:
		return "stop"
	case event.FinishOther:
		return first(said, "other")
	}
	return string(f)
}

// grokLosses is what grok has no word for.
func grokLosses() []Loss {
	return join(
		[]Loss{
			{Kind: "*", Fate: Dropped, Why: "the dialect knows one agent", when: func(e event.Event) bool { return !e.Top() }},
			noTime("timestamp"),
			{Kind: "*", Field: "session", Fate: Approximated, Why: "a stream has one session, the first"},
		},
		numbering, inferences(),
		dropped("there is no word for it", "session.started", "catalog", "prompt", "thought.delta", "thought", "gate.asked", "gate.allowed", "gate.denied",
			"skill.found", "skill.loaded", "skill.read", "agent.started", "agent.ended", "compacted", "retry", "notice", "diag", "status",
			"loop.started", "loop.ended", "phase.started", "phase.ended", "phase.retry", "plan", "channel.ready", "channel.queued", "channel.submitted",
			"report", "answer", "finish", "custom"),
		dropped("the whole block follows", "text.delta"),
		dropped("the call is told when it has ended", "tool.started", "tool.output"),
		dropped("the last step_finish, or the error after it, says it", "reply.done", "reply.failed", "reply.cancelled"),
		dropped("the last line of a failed run says it", "error"),
		[]Loss{{Kind: "run.started", Fate: Approximated, Why: "only the session's id is told, with each line"}},
		[]Loss{
			{Kind: "turn.started", Field: "number", Fate: Approximated, Why: "steps are counted from 1", when: always},
			{Kind: "turn.ended", Field: "number", Fate: Approximated, Why: "steps are counted from 1", when: always},
			{Kind: "tool.called", Field: "input", Fate: Synthesised, Why: "arguments are an object, empty if none are known", when: func(e event.Event) bool {
				return len(e.Body.(event.ToolCalled).Input) == 0
			}},
		},
		lost("text", Dropped, "only the text is told", "id", "start", "end"),
		lost("text", Approximated, "a text that was cut looks whole; one of an attempt that was given up is left out", "partial"),
		lost("tool.called", Dropped, "only name and arguments are told", "title", "class", "description", "update"),
		lost("turn.ended", Dropped, "only the reason, the tokens and the cost are told", "provider", "model", "profile", "context"),
		lost("turn.ended", Approximated, "the model's own word is told only where there is no other", "said"),
		lost("turn.ended", Approximated, "cached input counts as input, reasoning as output", "usage.reasoning", "usage.cache_read", "usage.cache_write"),
		[]Loss{
			{Kind: "turn.ended", Field: "usage.input", Fate: Approximated, Why: "cached input counts as input; 0 if it is not known", when: grokUsageDiffers},
			{Kind: "turn.ended", Field: "usage.output", Fate: Approximated, Why: "reasoning counts as output; 0 if it is not known", when: grokUsageDiffers},
			{Kind: "turn.ended", Field: "cost.total", Fate: Approximated, Why: "the cost is told in millionths of a dollar, and only beside tokens", when: grokCostDiffers},
			{Kind: "turn.ended", Field: "finish", Fate: Synthesised, Why: "a reason is demanded: what happened tells", when: func(e event.Event) bool {
				return e.Body.(event.TurnEnded).Finish == ""
			}},
			{Kind: "turn.ended", Field: "finish", Fate: Approximated, Why: "a stop sequence is a stop", when: func(e event.Event) bool {
				return e.Body.(event.TurnEnded).Finish == event.FinishSequence
			}},
			{Kind: "turn.ended", Field: "at", Fate: Approximated, Why: "a step ends after its calls"},
			{Kind: "tool.called", Field: "at", Fate: Approximated, Why: "a call is told when it has ended"},
			{Kind: "tool.denied", Fate: Approximated, Why: "a denied call looks like one that failed"},
			{Kind: "tool.cancelled", Fate: Approximated, Why: "a cancelled call looks like one that failed"},
			{Kind: "run.cancelled", Fate: Approximated, Why: "a run that was stopped looks like one that failed"},
			{Kind: "turn.started", Fate: Synthesised, Why: "a run in which nothing was said has one empty step", when: never},
			{Kind: "turn.ended", Fate: Synthesised, Why: "a run in which nothing was said has one empty step", when: never},
		},
		lost("turn.ended", Approximated, "only the whole cost is told, in millionths of a dollar", "cost.input", "cost.output", "cost.cache_read", "cost.cache_write"),
		grokEnd("tool.done"), grokEnd("tool.failed"),
		grokRunEnd("run.done"), lost("run.done", Dropped, "only the message of a failed run is told", "reason"), grokRunEnd("run.failed"),
	)
}

// grokUsageDiffers says whether tokens are told in other buckets than they were counted in.
func grokUsageDiffers(e event.Event) bool {
	u := e.Body.(event.TurnEnded).Usage
	return u != (event.Usage{}) && (u.Input == nil || u.Output == nil || u.Reasoning != nil || u.CacheRead != nil || u.CacheWrite != nil)
}

func grokCostDiffers(e event.Event) bool {
	b := e.Body.(event.TurnEnded)
	c, known := b.Cost.Sum()
	return known && (b.Cost.Total == nil || b.Usage == (event.Usage{}) || c*1e6 != math.Round(c*1e6))
}

func grokEnd(k event.Kind) []Loss {
	return join(
		lost(k, Approximated, "the error stands behind the output", "error"),
		[]Loss{{Kind: k, Field: "output", Fate: Approximated, Why: "the error stands behind the output", when: func(e event.Event) bool {
			end, _ := event.AsToolEnd(e.Body)
			return end.Error != ""
		}}, {Kind: k, Field: "at", Fate: Approximated, Why: "calls are told in the order they were made"}},
		lost(k, Approximated, "times are told in milliseconds, and only both", "start", "end"),
		lost(k, Dropped, "only success, output and times are told", "exit", "type", "metadata", "truncated", "title", "update"),
	)
}

func grokRunEnd(k event.Kind) []Loss {
	return lost(k, Dropped, "only the message of a failed run is told", "outcome", "class", "code", "detail", "duration_ms", "usage", "cost", "denials", "changes", "killed")
}
