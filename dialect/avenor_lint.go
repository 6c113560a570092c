package dialect

import (
	"slices"

	"github.com/sluice-dev/sluice/internal/wire"
)

var avenorRules = []Rule{
	{"avenor/end", false, "a run ends with session.end, or in a loop with avenor.loop.end"},
	{"avenor/after-end", false, "nothing of a session follows its session.end, unless a new prompt, session.start, phase or retry opens it again"},
	{"avenor/loop-order", false, "avenor.loop.start comes once, before the phases and avenor.loop.end"},
	{"avenor/loop-end", false, "avenor.loop.end is the last event of its run"},
	{"avenor/phase-pair", false, "each avenor.phase.start is followed by one avenor.phase.end of the same name and iteration, and phases do not overlap"},
	{"avenor/iteration", false, "pre-phases have iteration 0 and loop phases 1 or more, and iterations do not go back"},
	{"avenor/iteration-limit", false, "there are no more iterations than max_iterations, if that is not 0"},
	{"avenor/retry-count", false, "avenor.retry counts its attempts 1, 2, 3 … up to max_retries"},
	{"avenor/call-id", false, "a toolCallId is used for one call of a session"},
	{"avenor/call-order", false, "tool.call_update follows its tool.call, and a call ends once"},
	{"avenor/call-open", true, "every call has ended when its session ends"},
	{"avenor/request-id", false, "a request_id is used for one question of a session"},
	{"avenor/permission-order", false, "permission.response answers a permission.request that is open"},
	{"avenor/permission-option", false, "permission.response names one of the request's options, and its kind"},
	{"avenor/permission-open", false, "every permission.request is answered before its session ends"},
	{"avenor/marker", false, "a phase has one marker, and a label only with it"},
	{"avenor/usage-sum", false, "total_tokens is input_tokens plus output_tokens, and what was cached is part of the input"},
	{"avenor/announced-stop", false, "the stop_reason of an avenor.error is that of the session.end that follows"},
	{"avenor/claude-channel", false, "the backend claude has no channel: no channel_ready, prompt_queued, report, reply or finish"},
	{"avenor/claude-source", false, "the backend claude has its status from transcript, pty or tmux"},
	{"avenor/claude-stop", false, "the backend claude ends with end_turn, cancelled or cancelled_forced, unless an avenor.error says why not"},
	{"avenor/claude-usage", false, "the backend claude tells no usage"},
	{"avenor/claude-events", false, "the backend claude emits only the events that its section lists"},
	{"avenor/claude-start", false, "session.start of the backend claude has dir and dangerously_load"},
	{"avenor/claude-load", true, "the backend claude never sets dangerously_load"},
	{"avenor/channel-backend", true, "channel events come with the backend claude-channel"},
	{"avenor/status-first", true, "agent.status says waiting before a permission.request and done before session.end, where avenor tells its status"},
	{"avenor/run-id", true, "run_id and run_label do not change"},
}

// avenorChecker is the grammar of sessions, phases and questions.
type avenorChecker struct {
	last    string // event before
	ended   map[string]bool
	backend string
	erred   map[string]bool   // sessions with an error
	stop    map[string]string // that an error announced, by session

	calls  map[avenorKey]bool
	called recent
	asks   map[avenorKey][]avenorOption
	asked  recent

	loop      avenorLoop
	phase     string // the open one
	inPhase   bool
	number    int64 // its iteration
	iteration int64
	most      int64 // iterations; 0: no limit
	retries   int64

	status     string // the last phase that was told
	tells      bool   // avenor tells its status
	run, label string
}

// An avenorKey is an id within its session.
type avenorKey struct{ session, id string }

func newAvenorChecker() *avenorChecker {
	return &avenorChecker{
		ended: map[string]bool{}, erred: map[string]bool{}, stop: map[string]string{},
		calls: map[avenorKey]bool{}, asks: map[avenorKey][]avenorOption{},
	}
}

// avenorAround are the events of the run, not of a session.
var avenorAround = []string{"avenor.loop.start", "avenor.loop.end", "avenor.phase.start", "avenor.phase.end", "avenor.retry", "avenor.error"}

// avenorOpeners are the events that open a session again.
var avenorOpeners = []string{"session.start", "user.message_chunk", "agent.prompt_queued", "agent.prompt_submitted"}

func (a *avenorChecker) line(c *check, typ string, n wire.Node) {
	session := n.Get("session_id").Text()
	if a.loop == loopOver && typ != "avenor.loop.end" {
		c.report("avenor/loop-end", n, "%s after avenor.loop.end", typ)
	}
	switch {
	case slices.Contains(avenorOpeners, typ):
		delete(a.ended, session)
	case a.ended[session] && !slices.Contains(avenorAround, typ):
		c.report("avenor/after-end", n, "%s after the session's end", typ)
	}
	a.last = typ
	a.same(c, n, "run_id", &a.run, typ != "agent.channel_ready")
	a.same(c, n, "run_label", &a.label, true)
	a.guest(c, typ, n)
	switch typ {
	case "tool.call", "tool.call_update":
		a.call(c, typ, n, session)
	case "permission.request", "permission.response":
		a.question(c, typ, n, session)
	case "agent.status":
		a.status = n.Get("phase").Text()
		a.tells = a.tells || n.Get("source").Is("avenor")
	case "avenor.error":
		note(a.erred, session, true)
		if s := n.Get("stop_reason").Text(); s != "" {
			note(a.stop, session, s)
		}
	case "session.end":
		a.end(c, n, session)
	case "avenor.loop.start", "avenor.loop.end", "avenor.phase.start", "avenor.phase.end", "avenor.retry":
		a.around(c, typ, n)
	}
}

// unknown takes somebody's own event. It may stand between sessions, but it is not the last one.
func (a *avenorChecker) unknown(c *check, n wire.Node) {
	a.last = clip(n.Get("event").Text())
	if a.loop == loopOver {
		c.report("avenor/loop-end", n, "%s after avenor.loop.end", a.last)
	}
}

// same checks a field that does not change.
func (a *avenorChecker) same(c *check, n wire.Node, field string, was *string, counts bool) {
	now := n.Get(field).Text()
	if now == "" || !counts {
		return
	}
	if *was != "" && *was != now {
		c.report("avenor/run-id", n.Get(field), "%s was %s", field, clip(*was))
	}
	*was = now
}

// guest checks what the backends promise.
func (a *avenorChecker) guest(c *check, typ string, n wire.Node) {
	switch typ {
	case "session.start":
		a.backend = n.Get("backend").Text()
		for _, field := range []string{"dir", "dangerously_load"} {
			if a.backend == "claude" && n.Get(field).Kind() == wire.Absent {
				c.report("avenor/claude-start", n, "%s is missing", field)
			}
		}
		if load, _ := n.Get("dangerously_load").Bool(); load && a.backend == "claude" {
			c.report("avenor/claude-load", n.Get("dangerously_load"), "dangerously_load is set")
		}
	case "agent.channel_ready", "agent.prompt_queued", "agent.report", "agent.reply", "agent.finish":
		switch a.backend {
		case "claude":
			c.report("avenor/claude-channel", n, "%s with the backend claude", typ)
		case "", "claude-channel":
		default:
			c.report("avenor/channel-backend", n, "%s with the backend %s", typ, clip(a.backend))
		}
	}
	if a.backend != "claude" {
		return
	}
	switch typ {
	case "agent.status":
		if s := n.Get("source"); s.Kind() == wire.String && !slices.ContainsFunc(claudeSources, s.Is) {
			c.report("avenor/claude-source", s, "the source is %s", clip(s.Text()))
		}
	case "session.end":
		if u := n.Get("usage"); u.Kind() != wire.Absent {
			c.report("avenor/claude-usage", u, "there is a usage")
		}
		if s := n.Get("stop_reason").Text(); s != "end_turn" && !isCancelled(s) && !a.erred[n.Get("session_id").Text()] && !a.erred[""] {
			c.report("avenor/claude-stop", n.Get("stop_reason"), "the stop reason is %q", clip(s))
		}
	case "agent.message_chunk", "agent.thought_chunk", "user.message_chunk", "tool.call", "tool.call_update", "session.plan":
		c.report("avenor/claude-events", n, "%s with the backend claude", typ)
	}
}

func (a *avenorChecker) call(c *check, typ string, n wire.Node, session string) {
	id := n.Get("toolCallId")
	if id.Kind() != wire.String {
		return
	}
	key := avenorKey{session, id.Text()}
	if typ == "tool.call" {
		if a.called.add(key.session + "\x00" + key.id) {
			c.report("avenor/call-id", id, "%q was used before", clip(key.id))
		}
		a.calls[key] = true
		return
	}
	if !a.calls[key] {
		c.report("avenor/call-order", id, "no call %q is open", clip(key.id))
	}
	if s := n.Get("status"); s.Is("completed") || s.Is("failed") {
		delete(a.calls, key)
	}
}

func (a *avenorChecker) question(c *check, typ string, n wire.Node, session string) {
	id := n.Get("request_id")
	if id.Kind() != wire.String {
		return
	}
	key := avenorKey{session, id.Text()}
	if typ == "permission.request" {
		if a.asked.add(key.session + "\x00" + key.id) {
			c.report("avenor/request-id", id, "%q was used before", clip(key.id))
		}
		options := []avenorOption{}
		for _, o := range n.Get("options").All() {
			options = append(options, avenorOption{OptionID: o.Get("optionId").Text(), Kind: o.Get("kind").Text()})
		}
		a.asks[key] = options
		if a.tells && a.status != "waiting" {
			c.report("avenor/status-first", n, "the status is %s", clip(a.status))
		}
		return
	}
	options, open := a.asks[key]
	if !open {
		c.report("avenor/permission-order", id, "no question %q is open", clip(key.id))
		return
	}
	delete(a.asks, key)
	chosen, kind := n.Get("option_id"), n.Get("kind").Text()
	i := slices.IndexFunc(options, func(o avenorOption) bool { return chosen.Is(o.OptionID) && side(o.Kind) == side(kind) })
	if i < 0 && len(options) > 0 {
		c.report("avenor/permission-option", chosen, "the request has no option %q to %s", clip(chosen.Text()), clip(kind))
	}
}

// end checks a session's end.
func (a *avenorChecker) end(c *check, n wire.Node, session string) {
	if a.tells && a.status != "done" {
		c.report("avenor/status-first", n, "the status is %s", clip(a.status))
	}
	if s := a.stop[session]; s != "" && !n.Get("stop_reason").Is(s) {
		c.report("avenor/announced-stop", n.Get("stop_reason"), "an error announced %s", clip(s))
	}
	usage := n.Get("usage")
	sum(c, "avenor/usage-sum", usage, "total_tokens", "input_tokens", "output_tokens")
	cached, ok1 := usage.Get("cached_read_tokens").Float()
	input, ok2 := usage.Get("input_tokens").Float()
	if ok1 && ok2 && cached > input {
		c.report("avenor/usage-sum", usage, "%.0f of %.0f input tokens were cached", cached, input)
	}
	for key := range a.calls {
		if key.session == session {
			c.report("avenor/call-open", n, "the call %q has not ended", clip(key.id))
			delete(a.calls, key)
		}
	}
	a.unanswered(c, func(key avenorKey) bool { return key.session == session })
	if n.Get("stop_reason").Is("end_turn") || n.Get("stop_reason").Is("stop_sequence") {
		a.retries = 0
	}
	note(a.ended, session, true)
	delete(a.erred, session)
	delete(a.erred, "")
	delete(a.stop, session)
	a.status = ""
}

// unanswered tells open questions. The backend claude has a person before its terminal who may answer there.
func (a *avenorChecker) unanswered(c *check, which func(avenorKey) bool) {
	for key := range a.asks {
		if which(key) {
			if a.backend != "claude" {
				c.stream("avenor/permission-open", "nobody answered the question %q", clip(key.id))
			}
			delete(a.asks, key)
		}
	}
}

// around checks what stands around the sessions.
func (a *avenorChecker) around(c *check, typ string, n wire.Node) {
	if typ == "avenor.retry" {
		a.retries++
		clear(a.ended)
		clear(a.stop)
		attempt, ok1 := n.Get("attempt").Int()
		most, ok2 := n.Get("max_retries").Int()
		if ok1 && (attempt != a.retries || ok2 && attempt > most) {
			c.report("avenor/retry-count", n.Get("attempt"), "attempt %d of %d is the retry number %d", attempt, most, a.retries)
		}
		if ok1 {
			a.retries = attempt
		}
		return
	}
	if typ == "avenor.loop.start" {
		if a.loop == inLoop {
			c.report("avenor/loop-order", n, "there is a loop already")
		}
		a.loop = max(a.loop, inLoop)
		a.most, _ = n.Get("max_iterations").Int()
		return
	}
	switch a.loop {
	case noLoop:
		c.report("avenor/loop-order", n, "%s without avenor.loop.start", typ)
		a.loop = inLoop
	case loopOver:
		if typ == "avenor.loop.end" {
			c.report("avenor/loop-end", n, "avenor.loop.end was there before")
		}
	}
	name := n.Get("phase").Text()
	iteration, _ := n.Get("iteration").Int()
	switch typ {
	case "avenor.phase.start":
		if a.inPhase {
			c.report("avenor/phase-pair", n, "the phase %s is open", clip(a.phase))
		}
		a.phase, a.number, a.inPhase = name, iteration, true
		a.retries = 0
		clear(a.erred)
		clear(a.stop)
		clear(a.ended)
		a.counts(c, n, iteration)
		a.within(c, n.Get("iteration"))
	case "avenor.phase.end":
		switch {
		case !a.inPhase:
			c.report("avenor/phase-pair", n, "no phase is open")
		case a.phase != name || a.number != iteration:
			c.report("avenor/phase-pair", n, "the open phase is %s, iteration %d", clip(a.phase), a.number)
		}
		a.inPhase = false
		clear(a.stop)
		marker(c, n)
	case "avenor.loop.end":
		a.closePhase(c)
		a.within(c, n.Get("iterations_completed"))
		a.loop = loopOver
	}
}

func (a *avenorChecker) counts(c *check, n wire.Node, iteration int64) {
	at := n.Get("iteration")
	if at.Kind() != wire.Number {
		return
	}
	switch kind := n.Get("kind"); {
	case kind.Is("pre") && iteration != 0:
		c.report("avenor/iteration", at, "a pre-phase in iteration %d", iteration)
	case kind.Is("loop") && iteration < 1:
		c.report("avenor/iteration", at, "a loop phase in iteration %d", iteration)
	case kind.Is("loop") && iteration < a.iteration:
		c.report("avenor/iteration", at, "iteration %d after %d", iteration, a.iteration)
	case kind.Is("loop"):
		a.iteration = iteration
	}
}

func (a *avenorChecker) within(c *check, at wire.Node) {
	if n, ok := at.Int(); ok && a.most > 0 && n > a.most {
		c.report("avenor/iteration-limit", at, "iteration %d of %d", n, a.most)
	}
}

func marker(c *check, n wire.Node) {
	abort, _ := n.Get("abort_marker").Bool()
	exit, _ := n.Get("exit_marker").Bool()
	switch {
	case abort && exit:
		c.report("avenor/marker", n, "there are two markers")
	case !abort && n.Get("abort_marker_label").Kind() != wire.Absent:
		c.report("avenor/marker", n.Get("abort_marker_label"), "abort_marker_label without abort_marker")
	case !exit && n.Get("exit_marker_label").Kind() != wire.Absent:
		c.report("avenor/marker", n.Get("exit_marker_label"), "exit_marker_label without exit_marker")
	}
}

func (a *avenorChecker) closePhase(c *check) {
	if a.inPhase {
		c.stream("avenor/phase-pair", "the phase %s has not ended", clip(a.phase))
		a.inPhase = false
	}
}

func (a *avenorChecker) close(c *check) {
	a.unanswered(c, func(avenorKey) bool { return true })
	switch {
	case a.loop == inLoop:
		a.closePhase(c)
		c.stream("avenor/end", "the loop has no avenor.loop.end")
	case a.loop == noLoop && a.last != "session.end":
		c.stream("avenor/end", "the last event is %s, not session.end", first(a.last, "not one of the specification's"))
	}
}
