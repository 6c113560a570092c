package agent

import (
	"fmt"
	"hash/maphash"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A Budget bounds what a session and its sub-agents may spend, and all other sessions of its run. What is zero does not bind. What is counted after an answer, tokens
// and money, is overspent by at most that answer.
type Budget struct {
	Calls  int
	Tokens int64 // in and out
	Cost   float64
}

// A meter counts what was spent.
type meter struct {
	calls int
	usage event.Usage
	cost  event.Cost
}

// reached says whether so much of the tokens or the money of a budget is spent, and of which.
func (m *meter) reached(b Budget, share float64) (what string, yes bool) {
	in, _ := m.usage.InputAll()
	out, _ := m.usage.OutputAll()
	cost, _ := m.cost.Sum()
	switch {
	case b.Tokens > 0 && float64(in+out) >= share*float64(b.Tokens):
		return limitReached("tokens", b.Tokens), true
	case b.Cost > 0 && cost >= share*b.Cost:
		return fmt.Sprintf("the limit of $%g is reached", b.Cost), true
	}
	return "", false
}

func limitReached[N int | int64](what string, n N) string {
	return fmt.Sprintf("the limit of %d %s is reached", n, what)
}

func overBudget(why string) outcome.Verdict {
	return outcome.Verdict{Outcome: event.Budget, Stop: "error", Reason: why, Class: "budget"}
}

// afford says which of the calls may be made, and why the others may not.
func (r *reply) afford(calls []*call) (allowed []*call, why string) {
	r.Common.mu.Lock()
	defer r.Common.mu.Unlock()
	if why, over := r.spent.reached(r.cfg.Budget, 1); over {
		return nil, why
	}
	if b := r.cfg.Budget.Calls; b > 0 && r.spent.calls+len(calls) > b {
		calls, why = calls[:max(0, b-r.spent.calls)], limitReached("tool calls", b)
	}
	r.spent.calls += len(calls)
	return calls, why
}

// budget says which of tokens and money are spent, or whether they nearly are.
func (r *reply) budget() (spent string, near bool) {
	r.Common.mu.Lock()
	defer r.Common.mu.Unlock()
	spent, _ = r.spent.reached(r.cfg.Budget, 1)
	_, near = r.spent.reached(r.cfg.Budget, 0.9)
	return spent, near
}

// A loop remembers the last rounds of calls, to see whether they repeat.
type loop struct {
	rounds []uint64
	warned bool
}

// What a row of calls may be.
const (
	moving   = iota
	circling // it begins to repeat itself; said once
	looping  // it does nothing else
)

const (
	longestCycle = 4
	circles      = 3 // times the same is suspicious
	loops        = 5 // times the same is a loop
)

var loopSeed = maphash.MakeSeed()

// after takes a round of calls that has ended.
func (l *loop) after(calls []*call) int {
	var h maphash.Hash
	h.SetSeed(loopSeed)
	for _, c := range calls {
		h.WriteString(c.told.Name)
		h.Write(c.told.Input)
		h.WriteString(c.result)
		h.WriteByte(0)
	}
	l.rounds = append(l.rounds, h.Sum64())
	if most := longestCycle * loops; len(l.rounds) > most {
		l.rounds = l.rounds[len(l.rounds)-most:]
	}
	switch n := l.repeats(); {
	case n >= loops:
		return looping
	case n >= circles && !l.warned:
		l.warned = true
		return circling
	case n < circles:
		l.warned = false
	}
	return moving
}

// repeats is how often the last rounds repeat, whichever cycle repeats most often.
func (l *loop) repeats() (most int) {
	for cycle := 1; cycle <= longestCycle; cycle++ {
		n := 1
		for at := len(l.rounds) - 1; at-cycle >= 0 && l.rounds[at] == l.rounds[at-cycle]; at-- {
			n++
		}
		most = max(most, (n+cycle-1)/cycle)
	}
	return most
}
