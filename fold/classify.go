package fold

import (
	"slices"

	"github.com/sluice-dev/sluice/event"
)

// A Class says how much an event matters to somebody who does not watch.
type Class string

// The classes.
const (
	Milestone Class = "MILESTONE" // a decision or a boundary
	Finding   Class = "FINDING"   // the agent says that something is wrong
	Activity  Class = "ACTIVITY"  // everything else
)

// A Classifier gives events their class, by the avenor specification, in whatever dialect they were told. The zero
// Classifier is ready; it takes the events of one stream, in order.
//
// A finding in text that comes as deltas is reported once: at the delta that says it or decides it (see [Matcher]), or else at the
// whole block. Where no whole block follows, what the end of the text decided is reported at the next event of that agent
// that ends the block. A block without deltas is a finding itself. Thoughts and prompts never are.
type Classifier struct {
	Milestones map[string]bool // names of custom events that are milestones
	Findings   map[string]bool // and of those that are findings

	blocks []block // that are open, oldest first
}

// A block is text whose deltas come.
type block struct {
	agent, id string
	match     Matcher
	reported  int
	ahead     bool // one was reported that is not decided yet
}

// maxBlocks bounds what is remembered of streams that never close a block.
const maxBlocks = 16

// Wants returns one body of each kind that Class looks into; without its body such an event is an activity.
func (c *Classifier) Wants() []event.Body {
	return []event.Body{event.TextDelta{}, event.Text{}, event.Status{}, event.Custom{}}
}

// Class returns the class of the next event.
func (c *Classifier) Class(e event.Event) Class {
	e = e.Stamp()
	late := c.endBlocks(e.Header)
	if c.milestone(e) {
		return Milestone
	}
	if late || c.finding(e) {
		return Finding
	}
	return Activity
}

func (c *Classifier) milestone(e event.Event) bool {
	switch e.Kind {
	case "loop.started", "loop.ended", "phase.ended", "phase.retry", "gate.asked", "error",
		"reply.done", "reply.failed", "reply.cancelled", "run.done", "run.failed", "run.cancelled":
		return true
	}
	switch b := e.Body.(type) {
	case event.Status:
		return b.Phase == "waiting" || b.Phase == "done"
	case event.Custom:
		return c.Milestones[b.Name]
	}
	return false
}

func (c *Classifier) finding(e event.Event) bool {
	switch b := e.Body.(type) {
	case event.TextDelta:
		return c.open(e.Agent, b.ID).take(b.Text)
	case event.Text:
		// Counted anew, so that a reader who came in the middle of the deltas misses nothing.
		return CountFindings(b.Text) > c.close(e.Agent, b.ID)
	case event.Custom:
		return c.Findings[b.Name]
	}
	return false
}

// take reads a piece and says whether a finding is in it. One that only the next piece could take back is told now: it belongs
// to the line that says it.
func (b *block) take(text string) bool {
	n := b.match.Write(text)
	if b.ahead && n > 0 {
		n--
	}
	b.ahead = b.match.likely()
	if b.ahead {
		n++
	}
	b.reported += n
	return n > 0
}

// open returns the block that a delta belongs to.
func (c *Classifier) open(agent, id string) *block {
	for i := range c.blocks {
		if b := &c.blocks[i]; b.agent == agent && b.id == id {
			return b
		}
	}
	if len(c.blocks) == maxBlocks {
		c.blocks = slices.Delete(c.blocks, 0, 1)
	}
	c.blocks = append(c.blocks, block{agent: agent, id: id})
	return &c.blocks[len(c.blocks)-1]
}

// close forgets the block that a whole text ends, and returns how many of its findings were reported. A text without an id
// ends the agent's newest block.
func (c *Classifier) close(agent, id string) (reported int) {
	for i := len(c.blocks) - 1; i >= 0; i-- {
		if b := c.blocks[i]; b.agent == agent && (id == "" || b.id == id) {
			c.blocks = slices.Delete(c.blocks, i, i+1)
			return b.reported
		}
	}
	return 0
}

// endBlocks ends the agent's blocks if the event can only stand after them, and says whether that decided a finding.
func (c *Classifier) endBlocks(h event.Header) (found bool) {
	if len(c.blocks) == 0 {
		return false
	}
	switch h.Kind {
	case "prompt", "turn.started", "turn.ended", "tool.called", "agent.ended",
		"reply.done", "reply.failed", "reply.cancelled", "run.done", "run.failed", "run.cancelled":
	default:
		return false
	}
	c.blocks = slices.DeleteFunc(c.blocks, func(b block) bool {
		if b.agent != h.Agent {
			return false
		}
		found = b.match.Close() > 0 && !b.ahead || found
		return true
	})
	return found
}
