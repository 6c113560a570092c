package dialect

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// nativeSpans is what is open in a journal: the order that [event.Mender] makes, as rules.
type nativeSpans struct {
	begun, over bool // a run did; it is

	loop   bool
	phase  *string // its name
	reply  bool
	prompt string
	open   bool // the reply's prompt may go on: no turn began
	hinted bool // and was inferred

	agents []*nativeAgent // the top one first
}

// nativeAgent is what is open in one agent.
type nativeAgent struct {
	path           string
	turn, spoke    bool // a turn is open; one began in this reply
	block, blockID string
	deltas         maphash.Hash
	calls          []string
	asks           []nativeAsk
}

type nativeAsk struct{ request, call string }

func (k *nativeSpans) next(c *check, typ string, n wire.Node) {
	switch typ {
	case "foreign", "diag":
		return // anywhere
	case "run.started":
		k.runStarted(c, n)
		return
	}
	if !k.begun {
		c.report("native/run-started", n, "%s before run.started", typ)
		*k = nativeSpans{begun: true}
	}
	if k.over {
		c.report("native/run-end", n, "%s after the end of the run", typ)
		return
	}
	body := n.Get("body")
	switch typ {
	case "run.done", "run.failed", "run.cancelled":
		k.over = true
		k.endRun(c, n, typ)
	case "loop.started":
		k.endReply(c, n)
		k.endPhase(c, n)
		if k.loop {
			c.report("native/loop", n, "a loop is open")
		}
		k.loop = true
	case "loop.ended":
		k.endReply(c, n)
		k.endPhase(c, n)
		if !k.loop {
			c.report("native/loop", n, "no loop is open")
		}
		k.loop = false
	case "phase.started":
		k.endReply(c, n)
		k.endPhase(c, n)
		k.phase = new(body.Get("phase").Text())
	case "phase.ended":
		k.endReply(c, n)
		if k.phase == nil || !body.Get("phase").Is(*k.phase) {
			c.report("native/phase", n, "phase %q is not open", clip(body.Get("phase").Text()))
		}
		k.phase = nil
	case "agent.started":
		k.agentStarted(c, n)
	case "agent.ended":
		k.agentEnded(c, n)
	default:
		k.inAgent(c, typ, n, k.agent(c, n))
	}
}

func (k *nativeSpans) runStarted(c *check, n wire.Node) {
	if k.begun && !k.over {
		c.report("native/run-started", n, "a run is open")
		return
	}
	if v := n.Get("body").Get("format"); v.Kind() == wire.Number {
		if f, ok := v.Int(); !ok || f < 1 || f > event.Format {
			c.report("native/format", v, "format %s is not known; %d is", v.Raw(), event.Format)
		}
	}
	*k = nativeSpans{begun: true}
}

func (k *nativeSpans) endRun(c *check, n wire.Node, typ string) {
	outcome := n.Get("body").Get("outcome")
	if outcome.Kind() == wire.String && (outcome.Is("done") != (typ == "run.done") || outcome.Is("cancelled") && typ != "run.cancelled") {
		c.report("native/outcome", outcome, "%s has the outcome %s", typ, clip(outcome.Text()))
	}
	k.endReply(c, n)
	k.top().close(c, n)
	k.endPhase(c, n)
	if k.loop {
		c.report("native/loop", n, "a loop is open")
	}
}

// finish checks that the last run ended.
func (k *nativeSpans) finish(c *check) {
	switch {
	case !k.begun:
		c.stream("native/run-started", "there is no run.started")
	case !k.over:
		c.stream("native/run-end", "the run has no end")
	}
}

// endReply checks that no reply is open.
func (k *nativeSpans) endReply(c *check, n wire.Node) {
	if k.reply {
		c.report("native/reply-end", n, "a reply is open")
		k.closeReply(c, n)
	}
}

func (k *nativeSpans) endPhase(c *check, n wire.Node) {
	if k.phase != nil {
		c.report("native/phase", n, "phase %q is open", clip(*k.phase))
		k.phase = nil
	}
}

// closeReply ends the reply; nothing in it may be open.
func (k *nativeSpans) closeReply(c *check, n wire.Node) {
	top := k.top()
	for _, a := range k.agents[1:] {
		c.report("native/agent-end", n, "sub-agent %q is open", clip(a.path))
	}
	k.agents = k.agents[:1]
	top.close(c, n)
	top.spoke = false
	k.reply, k.open = false, false
}

func (k *nativeSpans) top() *nativeAgent {
	if len(k.agents) == 0 {
		k.agents = []*nativeAgent{{}}
	}
	return k.agents[0]
}

func (k *nativeSpans) find(path string) *nativeAgent {
	k.top()
	if i := slices.IndexFunc(k.agents, func(a *nativeAgent) bool { return a.path == path }); i >= 0 {
		return k.agents[i]
	}
	return nil
}

// agent returns the agent of a line. One that was not announced is told once.
func (k *nativeSpans) agent(c *check, n wire.Node) *nativeAgent {
	path := n.Get("agent").Text()
	a := k.find(path)
	if a == nil {
		c.report("native/agent", n.Get("agent"), "sub-agent %q was not announced, or is over", clip(path))
		a = &nativeAgent{path: path}
		k.agents = append(k.agents, a)
	}
	return a
}

func (k *nativeSpans) agentStarted(c *check, n wire.Node) {
	path := n.Get("agent").Text()
	if path == "" {
		return
	}
	parent := path[:max(0, strings.LastIndexByte(path, '/'))]
	switch {
	case k.find(path) != nil:
		c.report("native/agent", n.Get("agent"), "sub-agent %q is open", clip(path))
		return
	case k.find(parent) == nil && strings.Count(path, "/") < 16:
		c.report("native/agent", n.Get("agent"), "its parent %q is not open", clip(parent))
	case !k.reply:
		c.report("native/agent", n, "no reply is open")
	}
	k.agents = append(k.agents, &nativeAgent{path: path})
}

func (k *nativeSpans) agentEnded(c *check, n wire.Node) {
	a := k.agent(c, n)
	if a.path == "" {
		return
	}
	a.close(c, n)
	k.agents = slices.DeleteFunc(k.agents, func(o *nativeAgent) bool {
		child := strings.HasPrefix(o.path, a.path+"/")
		if child {
			c.report("native/agent-end", n, "sub-agent %q is open", clip(o.path))
		}
		return child || o == a
	})
}

func (k *nativeSpans) inAgent(c *check, typ string, n wire.Node, a *nativeAgent) {
	body, call := n.Get("body"), n.Get("call").Text()
	switch typ {
	case "prompt":
		k.prompted(c, n, a)
	case "reply.done", "reply.failed", "reply.cancelled":
		switch {
		case a.path != "":
			a.close(c, n)
		case !k.reply:
			c.report("native/reply", n, "no reply is open")
		default:
			k.closeReply(c, n)
		}
	case "turn.started":
		if !k.reply {
			c.report("native/turn", n, "no reply is open")
		}
		a.endTurn(c, n)
		a.turn, a.spoke, k.open = true, true, false
	case "turn.ended":
		if !a.turn {
			c.report("native/turn", n, "no turn is open")
		}
		a.endBlock(c, n)
		a.turn = false
	case "text.delta", "thought.delta":
		a.delta(c, n, strings.TrimSuffix(typ, ".delta"), body)
	case "text", "thought":
		a.whole(c, n, typ, body)
	case "retry":
		a.endBlock(c, n)
	case "tool.called":
		a.called(c, n, call)
	case "tool.started", "tool.output", "gate.asked":
		inferred, _ := body.Get("inferred").Bool()
		if about := typ != "gate.asked" || call != "" && !inferred; about && !slices.Contains(a.calls, call) {
			c.report("native/call", n, "%s of call %q, which is not open", typ, clip(call))
		}
		if q := (nativeAsk{body.Get("request").Text(), call}); typ == "gate.asked" && !slices.Contains(a.asks, q) {
			a.asks = append(a.asks, q)
		}
	case "gate.allowed", "gate.denied":
		k.answered(c, n, a, body.Get("request"), call)
	case "tool.done", "tool.failed", "tool.denied", "tool.cancelled":
		a.ended(c, n, typ, call)
	}
}

func (k *nativeSpans) prompted(c *check, n wire.Node, a *nativeAgent) {
	body := n.Get("body")
	source := body.Get("source")
	if a.path != "" || source.Is(event.SourceHistory) || k.reply && source.Is(event.SourceSteer) {
		return
	}
	if k.reply && !(k.open && (k.hinted || body.Get("id").Text() == k.prompt)) {
		c.report("native/reply", n, "a reply is open")
		k.closeReply(c, n)
	}
	k.reply, k.open, k.prompt = true, true, body.Get("id").Text()
	k.hinted, _ = body.Get("inferred").Bool()
}

// answered removes the question that is answered: the one about this call, or one of this name, also of another agent.
func (k *nativeSpans) answered(c *check, n wire.Node, a *nativeAgent, request wire.Node, call string) {
	name := request.Text()
	take := func(o *nativeAgent, match func(nativeAsk) bool) bool {
		i := slices.IndexFunc(o.asks, match)
		if i >= 0 {
			o.asks = slices.Delete(o.asks, i, i+1)
		}
		return i >= 0
	}
	if take(a, func(q nativeAsk) bool { return q == nativeAsk{name, call} }) {
		return
	}
	if name == "" {
		if call != "" && !take(a, func(q nativeAsk) bool { return q.call == call }) && !slices.Contains(a.calls, call) {
			c.report("native/call", n, "a decision about call %q, which is not open", clip(call))
		}
		return
	}
	for _, o := range append([]*nativeAgent{a}, k.agents...) {
		if take(o, func(q nativeAsk) bool { return q.request == name }) {
			return
		}
	}
	c.report("native/question", request, "question %q is not open", clip(name))
}

// close ends everything in an agent; nothing may be open.
func (a *nativeAgent) close(c *check, n wire.Node) {
	a.endTurn(c, n)
	for _, id := range a.calls {
		c.report("native/call-end", n, "call %q is open", clip(id))
	}
	for _, q := range a.asks {
		c.report("native/answer", n, "question %q is not answered", clip(q.request))
	}
	a.calls, a.asks = nil, nil
}

func (a *nativeAgent) endTurn(c *check, n wire.Node) {
	a.endBlock(c, n)
	if a.turn {
		c.report("native/turn-end", n, "a turn is open")
		a.turn = false
	}
}

func (a *nativeAgent) endBlock(c *check, n wire.Node) {
	if a.block != "" {
		c.report("native/block-open", n, "the %s whose deltas came does not follow them", a.block)
		a.block = ""
	}
}

func (a *nativeAgent) delta(c *check, n wire.Node, block string, body wire.Node) {
	a.speaks(c, n)
	if id := body.Get("id").Text(); a.block != block || a.blockID != id {
		a.endBlock(c, n)
		a.block, a.blockID = block, id
		a.deltas.Reset()
	}
	a.deltas.WriteString(body.Get("text").Text())
}

func (a *nativeAgent) whole(c *check, n wire.Node, block string, body wire.Node) {
	a.speaks(c, n)
	id := body.Get("id").Text()
	if a.block != block || id != "" && a.blockID != "" && id != a.blockID {
		a.endBlock(c, n)
		return
	}
	a.block = ""
	if maphash.String(a.deltas.Seed(), body.Get("text").Text()) != a.deltas.Sum64() {
		c.report("native/block", body.Get("text"), "its deltas do not add up to it")
	}
}

func (a *nativeAgent) speaks(c *check, n wire.Node) {
	if !a.turn {
		c.report("native/turn", n, "no turn is open")
	}
}

func (a *nativeAgent) called(c *check, n wire.Node, call string) {
	a.endBlock(c, n)
	if !a.spoke {
		c.report("native/turn", n, "no turn has begun that could have made the call")
	}
	if slices.Contains(a.calls, call) {
		c.report("native/call-end", n, "call %q is open", clip(call))
		return
	}
	a.calls = append(a.calls, call)
}

func (a *nativeAgent) ended(c *check, n wire.Node, typ, call string) {
	i := slices.Index(a.calls, call)
	if i < 0 {
		c.report("native/call", n, "%s of call %q, which is not open", typ, clip(call))
		return
	}
	a.calls = slices.Delete(a.calls, i, i+1)
	a.asks = slices.DeleteFunc(a.asks, func(q nativeAsk) bool {
		about := q.call == call && call != ""
		if about {
			c.report("native/answer", n, "question %q is not answered", clip(q.request))
		}
		return about
	})
}
