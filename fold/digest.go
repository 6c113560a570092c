package fold

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// A Digest says what happened in a run, for a person. The zero Digest is ready.
//
// It is made to be fast: it lives on headers and small bodies, and never opens a call's end, a delta or a foreign line. So
// the errors of failed tools are counted and not shown.
type Digest struct {
	sum    Summary // what is counted directly; the rest is below
	others Summary // of other journals
	ledger Ledger

	tools  table[string, ToolSummary]
	agents table[string, AgentSummary]
	phases table[string, PhaseSummary]
	calls  calls

	session  string   // of the line before
	last     modelKey // that was noted
	sessions map[string]bool
	running  bool
	begun    time.Time // of this run
	phase    string    // that goes on
	phaseAt  time.Time
	turns    bool // somebody tells them
}

// Wants implements [Fold].
func (d *Digest) Wants() []event.Body {
	return append(d.ledger.Wants(),
		event.Text{}, event.ToolCalled{}, event.GateAllowed{}, event.GateDenied{}, event.AgentStarted{}, event.AgentEnded{},
		event.Retry{}, event.Error{}, event.LoopStarted{}, event.LoopEnded{}, event.PhaseStarted{}, event.PhaseEnded{},
	)
}

// Fields implements [Skimmer]: what is common is read in part.
func (d *Digest) Fields() map[event.Kind][]string {
	return map[event.Kind][]string{
		"turn.ended":   {"provider", "model", "usage", "cost", "inferred"},
		"text":         {"text", "inferred"},
		"tool.called":  {"name", "inferred"},
		"gate.allowed": {"by", "inferred"},
		"gate.denied":  {"by", "inferred"},
	}
}

// Apply implements [Fold].
func (d *Digest) Apply(e event.Event) { d.apply(&e) }

func (d *Digest) apply(e *event.Event) {
	if e.Kind == "run.started" {
		d.finish() // by the time of the event before
	}
	d.header(&e.Header)
	switch e.Kind {
	case "text.delta", "thought.delta", "tool.output": // most of a journal
		return
	case "foreign": // and half of what was read from another program
		d.sum.Foreign++
		return
	}
	d.ledger.apply(e)
	switch e.Kind {
	case "run.started":
		d.sum.Runs++
		d.running, d.begun = true, e.At
	case "run.done", "run.failed", "run.cancelled":
		d.runEnd(e)
	case "tool.called":
		b, _ := e.Body.(event.ToolCalled)
		d.tool(b.Name).Calls++
		if c, open := d.calls.end(&e.Header); open { // called again under the same id
			d.tool(c.name).Open++
		}
		d.calls.open(&e.Header, b.Name)
	case "tool.started":
		d.calls.start(&e.Header)
	case "tool.done", "tool.failed", "tool.denied", "tool.cancelled":
		d.toolEnd(&e.Header)
	case "gate.asked":
		d.sum.Gate.Asked++
	case "gate.allowed":
		b, _ := event.AsGateAnswer(e.Body)
		count(&d.sum.Gate.Allowed, b.By)
	case "gate.denied":
		b, _ := event.AsGateAnswer(e.Body)
		count(&d.sum.Gate.Denied, b.By)
	case "agent.started", "agent.ended":
		d.agent(e)
	case "compacted":
		d.sum.Compactions++
	case "phase.retry":
		d.sum.PhaseRetries++
	case "reply.done":
		d.sum.Replies.Done++
	case "reply.failed":
		d.sum.Replies.Failed++
	case "reply.cancelled":
		d.sum.Replies.Cancelled++
	case "loop.started", "loop.ended", "phase.started", "phase.ended":
		d.loop(e)
	case "turn.started", "turn.ended", "text", "thought", "prompt": // common, and known
	default:
		if !known[e.Kind] {
			count(&d.sum.Unknown, e.Kind)
		}
	}
	d.body(e)
}

// known are the kinds of this version.
var known = func() map[event.Kind]bool {
	kinds := map[event.Kind]bool{}
	for _, b := range event.Kinds() {
		kinds[b.Kind()] = true
	}
	return kinds
}()

// header takes what every event has.
func (d *Digest) header(h *event.Header) {
	d.sum.Events++
	if unread(h) {
		d.sum.Unread++
	}
	if !h.At.IsZero() {
		if d.sum.Started.IsZero() {
			d.sum.Started = h.At
		}
		if h.At.After(d.sum.Ended) {
			d.sum.Ended = h.At
		}
		if d.begun.IsZero() {
			d.begun = h.At
		}
	}
	if h.Session != d.session && h.Session != "" {
		d.session = h.Session
		if !d.sessions[h.Session] {
			if d.sessions == nil {
				d.sessions = map[string]bool{}
			}
			d.sessions[h.Session] = true
			d.sum.Sessions = append(d.sum.Sessions, h.Session)
		}
	}
}

// body takes what small bodies say beyond their kind.
func (d *Digest) body(e *event.Event) {
	switch b := e.Body.(type) {
	case event.RunStarted:
		once(&d.sum.Programs, strings.TrimSpace(b.Program+" "+b.Version))
		once(&d.sum.Backends, b.Backend)
		d.model(b.Provider, b.Model)
		d.repair(e.Kind, b.Inferred)
	case event.SessionStarted:
		once(&d.sum.Backends, b.Backend)
		if !slices.ContainsFunc(d.sum.Models, func(m string) bool {
			provider, ok := strings.CutSuffix(m, b.Model)
			return ok && strings.HasSuffix(provider, "/")
		}) {
			once(&d.sum.Models, b.Model)
		}
	case event.TurnEnded:
		d.turns = d.turns || !b.Inferred
		d.model(b.Provider, b.Model)
		d.repair(e.Kind, b.Inferred)
	case event.Text:
		if n, at := firstFinding(b.Text); n > 0 {
			d.sum.Findings += n
			if len(d.sum.Excerpts) < maxFirst {
				d.sum.Excerpts = append(d.sum.Excerpts, Excerpt{e.Seq, e.Agent, lineAt(b.Text, at)})
			}
		}
		d.repair(e.Kind, b.Inferred)
	case event.ToolCalled:
		d.repair(e.Kind, b.Inferred)
	case event.GateAllowed:
		d.repair(e.Kind, b.Inferred)
	case event.GateDenied:
		d.repair(e.Kind, b.Inferred)
	case event.Retry:
		d.sum.Retries.add(b.Class, 1)
	case event.Error:
		d.sum.Errors.add(oneLine(cmp.Or(b.Message, b.Name, b.Code)), 1)
	case event.ReplyDone:
		d.repair(e.Kind, b.Inferred)
	case event.ReplyFailed:
		d.repair(e.Kind, b.Inferred)
	case event.ReplyCancelled:
		d.repair(e.Kind, b.Inferred)
	}
}

func (d *Digest) repair(k event.Kind, inferred bool) {
	if inferred {
		count(&d.sum.Inferred, k)
	}
}

func (d *Digest) tool(name string) *ToolSummary {
	return d.tools.row(name, ToolSummary{Name: name})
}

func (d *Digest) toolEnd(h *event.Header) {
	c, open := d.calls.end(h)
	t := d.tool(c.name)
	if !open { // never called: nobody named it in a body that is opened
		t.Calls++
	}
	switch h.Kind {
	case "tool.failed":
		t.Failed++
	case "tool.denied":
		t.Denied++
	case "tool.cancelled":
		t.Cancelled++
	}
	if ms := between(c.since, h.At); h.Kind != "tool.denied" { // it never ran
		t.Total += ms
		t.Longest = max(t.Longest, ms)
	}
}

func (d *Digest) agent(e *event.Event) {
	a := d.agents.row(e.Agent, AgentSummary{Agent: e.Agent, Depth: strings.Count(e.Agent, "/") + 1})
	a.Session = cmp.Or(e.Session, a.Session)
	a.Open = e.Kind == "agent.started"
	switch b := e.Body.(type) {
	case event.AgentStarted:
		a.Title, a.Role, a.Depth = cmp.Or(b.Title, a.Title), cmp.Or(b.Role, a.Role), cmp.Or(b.Depth, a.Depth)
		d.repair(e.Kind, b.Inferred)
	case event.AgentEnded:
		a.Error = oneLine(b.Error)
		d.repair(e.Kind, b.Inferred)
	}
}

func (d *Digest) loop(e *event.Event) {
	switch b := e.Body.(type) {
	case event.LoopStarted:
		d.sum.Loops = append(d.sum.Loops, LoopSummary{Max: b.MaxIterations, Open: true})
	case event.LoopEnded:
		n := len(d.sum.Loops)
		if n == 0 || !d.sum.Loops[n-1].Open {
			d.sum.Loops = append(d.sum.Loops, LoopSummary{})
			n++
		}
		l := &d.sum.Loops[n-1]
		l.Iterations, l.Reason, l.Label, l.Open = b.Iterations, b.Reason, b.Label, false
		d.repair(e.Kind, b.Inferred)
	case event.PhaseStarted:
		d.phases.row(b.Phase, PhaseSummary{Phase: b.Phase}).Runs++
		d.phase, d.phaseAt = b.Phase, e.At
	case event.PhaseEnded:
		if d.phase == b.Phase {
			d.phases.row(b.Phase, PhaseSummary{Phase: b.Phase}).Total += between(d.phaseAt, e.At)
			d.phase = ""
		}
		d.repair(e.Kind, b.Inferred)
	}
}

func (d *Digest) runEnd(e *event.Event) {
	b, _ := event.AsRunEnd(e.Body)
	if !d.running {
		d.sum.Runs++
	}
	ms := between(d.begun, e.At)
	if b.Duration != nil {
		ms = *b.Duration
	}
	d.sum.Duration += ms
	d.sum.Outcome, d.sum.End = outcome(*e), b
	d.running, d.begun = false, time.Time{}
	d.leave()
	d.repair(e.Kind, b.Inferred)
}

// finish closes a run that another one follows without an end.
func (d *Digest) finish() {
	if !d.running {
		return
	}
	d.sum.Unended++
	d.sum.Duration += between(d.begun, d.sum.Ended)
	d.running = false
	d.leave()
}

// leave counts the calls that a run left open.
func (d *Digest) leave() {
	for _, c := range d.calls.all() {
		d.tool(c.name).Open++
	}
	d.calls = calls{}
}

// Merge adds what the digest of another journal counted. Of several journals the outcome is that of the first which is
// not done.
func (d *Digest) Merge(o *Digest) { d.others.merge(o.Summary()) }

// Summary returns what happened so far. A run that has not ended has no outcome.
func (d *Digest) Summary() Summary {
	var s Summary
	if d.sum.Events > 0 {
		s = d.own()
	}
	s.merge(d.others)
	return s
}

// own is the summary of this journal.
func (d *Digest) own() Summary {
	s := d.sum.clone()
	s.Journals = 1
	if d.running || s.Runs == 0 {
		s.Runs = max(s.Runs, 1)
		s.Unended++
		s.Duration += between(d.begun, s.Ended)
		s.Outcome, s.End = "", event.RunEnd{}
	}
	tools := table[string, ToolSummary]{rows: slices.Clone(d.tools.rows), at: maps.Clone(d.tools.at)}
	for _, c := range d.calls.all() {
		tools.row(c.name, ToolSummary{Name: c.name}).Open++
	}
	s.Tools = tools.rows
	s.Agents = slices.Clone(d.agents.rows)
	s.Phases = slices.Clone(d.phases.rows)
	s.Spent = d.ledger.Accounts()
	d.untold(&s)
	return s
}

// untold lists what the stream never said.
func (d *Digest) untold(s *Summary) {
	for what, told := range map[string]bool{
		"times":   !s.Started.IsZero(),
		"session": len(s.Sessions) > 0,
		"model":   len(s.Models) > 0,
		"turns":   d.turns,
		"usage":   s.Spent.Total.Usage != event.Usage{},
		"cost":    s.Spent.Total.Cost != event.Cost{},
	} {
		if !told {
			count(&s.Untold, what)
		}
	}
}

func count[K comparable](m *map[K]int, key K) {
	if *m == nil {
		*m = map[K]int{}
	}
	(*m)[key]++
}

func once(list *[]string, s string) {
	if s != "" && !slices.Contains(*list, s) {
		*list = append(*list, s)
	}
}

// model notes who was talked to.
func (d *Digest) model(provider, name string) {
	m := modelKey{provider, name}
	if m == d.last {
		return // as in most turns
	}
	d.last = m
	once(&d.sum.Models, model(provider, name))
}

func model(provider, name string) string {
	if provider == "" || name == "" {
		return name
	}
	return provider + "/" + name
}

// between is the time from a to b in milliseconds, or 0 if it is not known.
func between(a, b time.Time) int64 {
	if a.IsZero() || b.IsZero() || b.Before(a) {
		return 0
	}
	return b.Sub(a).Milliseconds()
}
