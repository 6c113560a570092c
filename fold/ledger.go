package fold

import (
	"math"

	"github.com/sluice-dev/sluice/event"
)

// A Ledger counts tokens and money, each once. The zero Ledger is ready.
//
// Turns are what is summed. Where the turns of a reply gave no usage, or no cost, the reply's own is taken; where nothing in
// a run did, the run's. A run whose own total is not what was counted is told as a [Gap]. An event that is applied again
// (its number does not rise) is not counted again; for a second journal use a second Ledger, and Merge.
type Ledger struct {
	total  sum
	models table[modelKey, modelSum]
	agents table[string, agentSum]
	gap    *Gap

	last  uint64
	model modelKey // what the top agent talks to
	reply purse    // since the reply began, without what the reply itself said
	run   purse    // since the run began, with what replies said
}

// An Account is what was spent. Unknown is absent, never 0.
type Account struct {
	Turns     int         `json:"turns,omitempty"`
	Unmetered int         `json:"unmetered,omitempty"` // turns that gave no usage
	Unpriced  int         `json:"unpriced,omitempty"`  // turns that gave no cost
	Usage     event.Usage `json:"usage,omitzero"`
	Cost      event.Cost  `json:"cost,omitzero"`
}

// A ModelAccount is what one model was asked for.
type ModelAccount struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"` // empty where the stream does not say
	Account
}

// An AgentAccount is what one agent asked for.
type AgentAccount struct {
	Agent string `json:"agent,omitempty"` // path; empty for the top agent
	Account
}

// A Gap is between what runs say that they used and what was counted.
type Gap struct {
	Runs    int     `json:"runs"`    // that differ
	Said    Account `json:"said"`    // by those runs
	Counted Account `json:"counted"` // in them
}

// Accounts are a ledger's result. What only a run's total told is in Total, and belongs to no model and no agent.
type Accounts struct {
	Total  Account        `json:"total,omitzero"`
	Models []ModelAccount `json:"models,omitempty"`
	Agents []AgentAccount `json:"agents,omitempty"`
	Gap    *Gap           `json:"gap,omitempty"`
}

type modelKey struct{ provider, name string }

type modelSum struct {
	modelKey
	sum
}

type agentSum struct {
	agent string
	sum
}

// Wants implements [Fold].
func (l *Ledger) Wants() []event.Body {
	return []event.Body{
		event.RunStarted{}, event.SessionStarted{}, event.TurnEnded{},
		event.ReplyDone{}, event.ReplyFailed{}, event.ReplyCancelled{},
		event.RunDone{}, event.RunFailed{}, event.RunCancelled{},
	}
}

// Apply implements [Fold].
func (l *Ledger) Apply(e event.Event) { l.apply(&e) }

func (l *Ledger) apply(e *event.Event) {
	if e.Seq != 0 {
		if e.Seq <= l.last {
			return
		}
		l.last = e.Seq
	}
	switch e.Kind {
	case "run.started":
		l.reply, l.run = purse{}, purse{} // the run before may have had no end
	case "turn.ended":
		b, _ := e.Body.(event.TurnEnded)
		l.turn(&e.Header, &b)
	case "reply.done", "reply.failed", "reply.cancelled":
		b, _ := event.AsReplyEnd(e.Body)
		l.replyEnd(b)
	case "run.done", "run.failed", "run.cancelled":
		b, _ := event.AsRunEnd(e.Body)
		l.runEnd(b)
	}
	switch b := e.Body.(type) {
	case event.RunStarted:
		l.model = modelKey{b.Provider, b.Model}
	case event.SessionStarted:
		if b.Model != "" && b.Model != l.model.name && e.Top() {
			l.model = modelKey{"", b.Model}
		}
	}
}

func (l *Ledger) turn(h *event.Header, b *event.TurnEnded) {
	m := modelKey{b.Provider, b.Model}
	if h.Top() {
		if m.name == "" || m.provider == "" && m.name == l.model.name {
			m = l.model
		}
		l.model = m
	}
	a := Account{Turns: 1, Usage: b.Usage, Cost: b.Cost}
	if b.Usage == (event.Usage{}) {
		a.Unmetered = 1
	}
	if b.Cost == (event.Cost{}) {
		a.Unpriced = 1
	}
	l.reply.add(b.Usage, b.Cost)
	l.run.add(b.Usage, b.Cost)
	l.book(m, h.Agent, &a)
}

func (l *Ledger) book(m modelKey, agent string, a *Account) {
	l.total.add(a)
	l.models.row(m, modelSum{modelKey: m}).add(a)
	l.agents.row(agent, agentSum{agent: agent}).add(a)
}

func (l *Ledger) replyEnd(b event.ReplyEnd) {
	a := l.reply.missing(b.Usage, b.Cost)
	l.reply = purse{}
	if a != (Account{}) {
		l.run.add(a.Usage, a.Cost)
		l.book(l.model, "", &a)
	}
}

func (l *Ledger) runEnd(b event.RunEnd) {
	a := l.run.missing(b.Usage, b.Cost)
	l.total.add(&a)
	l.run.add(a.Usage, a.Cost)
	if !l.run.matches(b.Usage, b.Cost) {
		l.gap = l.gap.add(&Gap{Runs: 1, Said: Account{Usage: b.Usage, Cost: b.Cost}, Counted: Account{Usage: l.run.usage(), Cost: l.run.cost()}})
	}
	l.reply, l.run = purse{}, purse{}
}

// matches says whether what was counted is what was said; what was not said does not differ.
func (p *purse) matches(u event.Usage, c event.Cost) bool {
	for i, n := range [...]*int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite} {
		if n != nil && *n != p.tokens[i].n {
			return false
		}
	}
	said, ok := c.Sum()
	counted, _ := p.cost().Sum()
	const millionth = 1e-6 // of a dollar: rounding, not a difference
	return !ok || math.Abs(said-counted) <= millionth
}

func (a *Account) add(b Account) {
	a.Turns += b.Turns
	a.Unmetered += b.Unmetered
	a.Unpriced += b.Unpriced
	a.Usage = a.Usage.Add(b.Usage)
	a.Cost = a.Cost.Add(b.Cost)
}

func (g *Gap) add(h *Gap) *Gap {
	if g == nil || h == nil {
		if g == nil {
			g = h
		}
		return g
	}
	sum := *g
	sum.Runs += h.Runs
	sum.Said.add(h.Said)
	sum.Counted.add(h.Counted)
	return &sum
}

// Accounts returns what was counted so far.
func (l *Ledger) Accounts() Accounts {
	a := Accounts{Total: l.total.account(), Gap: l.gap}
	for _, m := range l.models.rows {
		a.Models = append(a.Models, ModelAccount{m.provider, m.name, m.account()})
	}
	for _, g := range l.agents.rows {
		a.Agents = append(a.Agents, AgentAccount{g.agent, g.account()})
	}
	return a
}

// Merge adds what another ledger counted.
func (l *Ledger) Merge(o *Ledger) {
	other := o.Accounts()
	l.total.add(&other.Total)
	for _, m := range other.Models {
		key := modelKey{m.Provider, m.Model}
		l.models.row(key, modelSum{modelKey: key}).add(&m.Account)
	}
	for _, a := range other.Agents {
		l.agents.row(a.Agent, agentSum{agent: a.Agent}).add(&a.Account)
	}
	l.gap = l.gap.add(o.gap)
}

// add returns the sum of both.
func (a Accounts) add(b Accounts) Accounts {
	a.Total.add(b.Total)
	a.Models = unite(a.Models, b.Models, func(m ModelAccount) modelKey { return modelKey{m.Provider, m.Model} },
		func(m *ModelAccount, o ModelAccount) { m.Account.add(o.Account) })
	a.Agents = unite(a.Agents, b.Agents, func(m AgentAccount) string { return m.Agent },
		func(m *AgentAccount, o AgentAccount) { m.Account.add(o.Account) })
	a.Gap = a.Gap.add(b.Gap)
	return a
}
