package agent

import (
	"fmt"
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// Common is what sessions have together that write one journal: names of calls, prompts, blocks, questions and sub-agents, none
// of which means two things; and the budget, which is the whole run's.
type Common struct {
	mu     sync.Mutex
	last   uint64         // the last number used
	calls  map[string]int // id of a call → how often somebody wanted it
	agents int
	spent  meter
}

// NewCommon makes names that no event has up to the one numbered last: numbers of ids run ahead of those of events.
func NewCommon(last uint64) *Common { return &Common{last: last, calls: map[string]int{}} }

// After makes names that no event has up to the one numbered last: others have emitted meanwhile.
func (c *Common) After(last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, last)
}

// next is a new name.
func (c *Common) next(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return fmt.Sprintf("%s%d", prefix, c.last)
}

// CallID makes a call's id one that no other call of the journal has: some models count anew in every answer.
func (c *Common) CallID(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "" {
		id = "call"
	}
	name := id
	for c.calls[name] > 0 {
		c.calls[id]++
		name = fmt.Sprintf("%s-%d", id, c.calls[id])
	}
	c.calls[name] = 1
	return name
}

// know takes a call's id that was used before.
func (c *Common) know(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call] = max(c.calls[call], 1)
}

// agent is the next sub-agent's name.
func (c *Common) agent() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents++
	return fmt.Sprintf("task-%d", c.agents)
}

// spend counts what an answer cost.
func (c *Common) spend(u event.Usage, cost event.Cost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent.usage, c.spent.cost = c.spent.usage.Add(u), c.spent.cost.Add(cost)
}
