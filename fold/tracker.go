package fold

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A Tracker follows a run for whoever supervises it. It is the avenor specification's SessionTracker, in any dialect.
//
// The zero Tracker follows the whole run. A loop, a retry and a follow-up begin new sessions; it goes along, and what
// belongs to a session (channel, reports, stop reason) begins anew with it. [NewTracker] follows one session only.
//
// Phase, channel, reports and ends are the top agent's. Calls, questions, turns and tokens are those of sub-agents too.
//
// Those who take part outrank those who only look: after a report, a finish or an end, what a terminal or a transcript
// shows (a status from tmux, pty or transcript) does not change the phase, until the channel speaks again or a prompt
// begins. A stream that has no status is given one by what happens in it: thoughts, calls, questions, ends.
type Tracker struct {
	one    bool // only one session
	s      Snapshot
	change bool

	told   bool   // the stream has status events
	held   bool   // a terminal may not contradict the phase
	shown  bool   // a status says that it waits
	before string // the phase before it waited

	calls  calls
	agents []OpenAgent
	ledger Ledger
	spent  sum // the ledger's total that the snapshot shows
}

// NewTracker returns a tracker of one session; if the name is empty, of the first one that comes. Events that name no
// session count as its own.
func NewTracker(session string) *Tracker {
	return &Tracker{one: true, s: Snapshot{SessionID: session}}
}

// Wants implements [Fold].
func (t *Tracker) Wants() []event.Body {
	return append(t.ledger.Wants(),
		event.Prompt{}, event.ToolCalled{}, event.GateAsked{}, event.GateAllowed{}, event.GateDenied{}, event.AgentStarted{},
		event.Status{}, event.PhaseStarted{}, event.Report{}, event.Answer{}, event.Finished{},
	)
}

// Apply implements [Fold].
func (t *Tracker) Apply(e event.Event) { t.Observe(e) }

// Observe takes the next event and says whether it changed anything that a snapshot shows, but for LastSeq and LastAt: a
// thousand deltas in a row are one change.
func (t *Tracker) Observe(e event.Event) bool {
	e = e.Stamp()
	t.change = false
	if !t.follow(e.Header) {
		return false
	}
	set(t, &t.s.LastEvent, e.Kind)
	if e.Seq > t.s.LastSeq {
		t.s.LastSeq = e.Seq
	}
	if !e.At.IsZero() {
		t.s.LastAt = e.At
	}
	if unread(&e.Header) {
		t.s.LinesUnread++
		t.change = true
	}
	t.ledger.Apply(e)
	t.spans(e)
	if e.Top() {
		t.derive(e.Kind)
		t.top(e)
	}
	t.settle()
	return t.change
}

// set changes what a snapshot shows.
func set[T comparable](t *Tracker, to *T, v T) {
	if *to != v {
		*to = v
		t.change = true
	}
}

// follow says whether the event is of what is followed, and goes along with the run's top agent to a new session.
func (t *Tracker) follow(h event.Header) bool {
	switch {
	case h.Session == "" || h.Session == t.s.SessionID:
		return true
	case t.one:
		if t.s.SessionID != "" {
			return false
		}
	case !h.Top() || !moves(h.Kind):
		return true
	case t.s.SessionID != "":
		t.forget()
		set(t, &t.s.ChannelReady, false)
		set(t, &t.s.PromptQueued, false)
		set(t, &t.s.PromptSubmitted, false)
	}
	set(t, &t.s.SessionID, h.Session)
	return true
}

// moves says whether an event of the top agent shows that it is in another session now. A question or an error may come
// from elsewhere, and an end from before.
func moves(k event.Kind) bool {
	switch k {
	case "run.started", "session.started", "prompt", "turn.started", "text.delta", "text", "thought.delta", "thought",
		"tool.called", "status", "channel.ready", "channel.queued", "channel.submitted", "report", "answer", "finish":
		return true
	}
	return false
}

// renew says that a prompt begins. A prompt may be told after what it led to, so only an end before it is forgotten.
func (t *Tracker) renew() {
	t.held = false
	if t.s.Ended {
		t.forget()
	}
}

// forget drops what was said about the reply before.
func (t *Tracker) forget() {
	t.held, t.shown = false, false
	set(t, &t.s.Ended, false)
	set(t, &t.s.StopReason, "")
	set(t, &t.s.Outcome, "") // a resumed run goes on in the same journal
	set(t, &t.s.FinishStatus, "")
	set(t, &t.s.FinishSummary, "")
	set(t, &t.s.LastReportState, "")
	set(t, &t.s.LastReplyTo, "")
	t.files(nil)
	if t.s.Phase == "done" {
		t.phase("", "")
	}
}

// derive gives a phase to streams that have none of their own.
func (t *Tracker) derive(k event.Kind) {
	if t.told || t.held || t.s.Ended || len(t.s.Pending) > 0 {
		return
	}
	switch k {
	case "turn.started", "thought.delta", "thought":
		t.phase("thinking", "")
	case "tool.called", "tool.started":
		t.phase("working", "")
	}
}

// top takes what the top agent, or who drives it, says of itself.
func (t *Tracker) top(e event.Event) {
	switch e.Kind {
	case "run.started":
		t.over() // the run before may have had no end
		t.renew()
	case "channel.ready":
		set(t, &t.s.ChannelReady, true)
	case "channel.queued":
		t.renew()
		set(t, &t.s.PromptQueued, true)
	case "channel.submitted":
		t.renew()
		set(t, &t.s.PromptSubmitted, true)
	case "phase.ended", "loop.ended":
		set(t, &t.s.LoopPhase, "")
		set(t, &t.s.Iteration, 0)
	case "reply.done", "reply.failed", "reply.cancelled":
		b, _ := event.AsReplyEnd(e.Body)
		set(t, &t.s.StopReason, b.Stop)
		t.end()
	case "run.done", "run.failed", "run.cancelled":
		set(t, &t.s.Outcome, outcome(e))
		t.end()
		t.over()
	}
	switch b := e.Body.(type) {
	case event.RunStarted:
		set(t, &t.s.RunID, b.Run)
		set(t, &t.s.Backend, b.Backend)
	case event.SessionStarted:
		t.renew()
		if b.Backend != "" {
			set(t, &t.s.Backend, b.Backend)
		}
	case event.Prompt:
		if b.Source != event.SourceSteer && b.Source != event.SourceHistory { // which open no reply
			t.renew()
		}
	case event.Status:
		t.status(b)
	case event.PhaseStarted:
		set(t, &t.s.LoopPhase, b.Phase)
		set(t, &t.s.Iteration, b.Iteration)
	case event.Report:
		set(t, &t.s.LastReportState, b.State)
		t.report(b.State)
	case event.Answer:
		set(t, &t.s.LastReplyTo, b.To)
	case event.Finished:
		set(t, &t.s.FinishStatus, b.Status)
		set(t, &t.s.FinishSummary, b.Summary)
		t.files(b.Files)
		t.held = true
	}
}

// outcome is how a run ended; a stream that does not say has it in the kind.
func outcome(e event.Event) event.Outcome {
	if b, _ := event.AsRunEnd(e.Body); b.Outcome != "" {
		return b.Outcome
	}
	switch e.Kind {
	case "run.done":
		return event.Done
	case "run.cancelled":
		return event.Cancelled
	}
	return event.Failed
}

func (t *Tracker) status(b event.Status) {
	t.told = true
	terminal := b.Source == "tmux" || b.Source == "pty" || b.Source == "transcript"
	if terminal && b.Phase != "waiting" {
		// Somebody answered at the terminal: no other event will say so.
		t.answer(func(q Question) bool { return q.Call == "" && q.Agent == "" })
	}
	if terminal && t.held {
		return
	}
	t.shown = b.Phase == "waiting"
	t.phase(b.Phase, b.Label)
}

// report takes the phase from what a guest says of itself; not all its words are one.
func (t *Tracker) report(state string) {
	phase := ""
	switch state {
	case "thinking", "working", "waiting", "done":
		phase = state
	case "started":
		phase = "working"
	case "blocked", "permission_requested":
		phase = "waiting"
	}
	if t.held = phase != ""; t.held {
		t.shown = phase == "waiting"
		t.phase(phase, "")
	}
}

func (t *Tracker) phase(phase, label string) {
	if t.s.Phase != "waiting" {
		t.before = t.s.Phase
	}
	set(t, &t.s.Phase, phase)
	set(t, &t.s.PhaseLabel, label)
}

func (t *Tracker) files(files []string) {
	if !slices.Equal(t.s.FilesChanged, files) {
		t.s.FilesChanged = slices.Clone(files)
		t.change = true
	}
}

// end closes the reply.
func (t *Tracker) end() {
	set(t, &t.s.Ended, true)
	t.answer(func(Question) bool { return true })
	t.shown, t.held = false, true
	t.phase("done", "")
}

// over closes what the run left open.
func (t *Tracker) over() {
	t.change = t.change || t.calls.len()+len(t.agents) > 0
	t.calls, t.agents = calls{}, nil
	t.answer(func(Question) bool { return true })
	set(t, &t.s.LoopPhase, "")
	set(t, &t.s.Iteration, 0)
}

// settle brings the fields in line that follow from others.
func (t *Tracker) settle() {
	waiting := t.shown || len(t.s.Pending) > 0
	if t.s.WaitingPermission && !waiting && t.s.Phase == "waiting" {
		t.phase(cmp.Or(t.before, "working"), "")
	}
	set(t, &t.s.WaitingPermission, waiting)
	if t.spent != t.ledger.total {
		t.spent = t.ledger.total
		t.s.Turns, t.s.Usage, t.s.Cost = t.spent.turns, t.spent.usage(), t.spent.cost()
		t.change = true
	}
}

// Snapshot returns a copy of where the run stands.
func (t *Tracker) Snapshot() Snapshot {
	s := t.s
	s.Pending = slices.Clone(s.Pending)
	s.FilesChanged = slices.Clone(s.FilesChanged)
	s.OpenAgents = slices.Clone(t.agents)
	began := map[OpenCall]uint64{}
	for k, c := range t.calls.all() {
		o := OpenCall{ID: k.id, Name: c.name, Agent: k.agent, Since: c.since}
		s.OpenCalls, began[o] = append(s.OpenCalls, o), c.seq
	}
	slices.SortFunc(s.OpenCalls, func(a, b OpenCall) int {
		return cmp.Or(cmp.Compare(began[a], began[b]), strings.Compare(a.Agent, b.Agent), strings.Compare(a.ID, b.ID))
	})
	return s
}
