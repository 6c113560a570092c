package script

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"iter"
	"regexp"
	"sort"
	"sync"
	"time"
	"unicode/utf8"
)

// A Player answers requests from a script. It is safe for concurrent use.
type Player struct {
	script *Script
	plots  []plot // those of the conversations, then that of the script's own steps

	mu    sync.Mutex
	taken map[int]int     // plot → requests so far, where each takes a step
	met   map[meeting]int // how often a fault was met
}

// A plot is a list of steps and who gets it.
type plot struct {
	when  []condition
	steps []Step
	parts [][]Part // of each step, ids of calls as the script names them
	ends  []int    // of each step, how many answers there are up to its last repetition
}

type condition struct {
	expr *regexp.Regexp
	of   func(Seen) string
}

// A meeting is a fault at one answer to one who asked.
type meeting struct {
	plot, answer int
	prompt       [sha256.Size]byte
}

// Seen is what a request shows of itself.
type Seen struct {
	Answers int    // of the model, in the request's history
	System  string // prompt
	Prompt  string // the first user message
	Last    string // the last user message or tool result
	Model   string // that the request names
}

// A Kind is a kind of block.
type Kind string

const (
	Thinking Kind = "thinking"
	Text     Kind = "text"
	ToolCall Kind = "call"
)

// A Part is one block of an answer.
type Part struct {
	Kind Kind
	Text string // what is said; of a call its arguments: JSON, unless the script wants them otherwise
	ID   string // of a call
	Tool string // of a call
}

// A Turn is an answer, ready to be said.
type Turn struct {
	Number int    // the running number of the answer in its conversation, from 1
	Model  string // the name to go by
	Parts  []Part
	Finish string // one of the words of [Step], never empty
	Usage  *Usage // nil: say nothing of tokens
	Chunk  int    // runes in a delta; 0: a block is one
	Delay  time.Duration
	Fault  *Fault // nil: all goes well
}

// NewPlayer returns a player of a script that [Script.Check] finds nothing wrong with.
func NewPlayer(s *Script) *Player {
	p := &Player{script: s, taken: map[int]int{}, met: map[meeting]int{}}
	for _, c := range s.Conversations {
		l := newPlot(c.Steps)
		for _, w := range []struct {
			expr string
			of   func(Seen) string
		}{
			{c.When.System, func(s Seen) string { return s.System }},
			{c.When.Prompt, func(s Seen) string { return s.Prompt }},
			{c.When.Last, func(s Seen) string { return s.Last }},
			{c.When.Model, func(s Seen) string { return s.Model }},
		} {
			if w.expr != "" {
				l.when = append(l.when, condition{regexp.MustCompile(w.expr), w.of})
			}
		}
		p.plots = append(p.plots, l)
	}
	p.plots = append(p.plots, newPlot(s.Steps))
	return p
}

func newPlot(steps []Step) plot {
	l := plot{steps: steps}
	n := 0
	for _, s := range steps {
		n += max(s.Repeat, 1)
		l.ends = append(l.ends, n)
		l.parts = append(l.parts, s.resolve())
	}
	return l
}

func (l *plot) takes(s Seen) bool {
	for _, c := range l.when {
		if !c.expr.MatchString(c.of(s)) {
			return false
		}
	}
	return true
}

// Next returns the answer to a request. A request that the script has no answer for gets a turn with a fault of status 400.
func (p *Player) Next(s Seen) Turn {
	own := len(p.plots) - 1
	at := own
	for i := range p.plots[:own] {
		if p.plots[i].takes(s) {
			at = i
			break
		}
	}
	l := &p.plots[at]
	number := s.Answers + 1
	if p.script.Advance == "request" {
		p.mu.Lock()
		p.taken[at]++
		number = p.taken[at]
		p.mu.Unlock()
	}
	t := Turn{Number: number, Model: p.script.Model, Finish: "stop"}
	if t.Model == "" {
		t.Model = s.Model
	}
	i, ok := l.step(number, p.script.Loop)
	if !ok {
		t.Fault = &Fault{Status: 400, Message: l.exhausted(number)}
		return t
	}
	p.fill(&t, l.steps[i])
	t.Parts = l.name(i, number, at != own, s)
	for _, part := range t.Parts {
		if part.Kind == ToolCall && l.steps[i].Finish == "" {
			t.Finish = "tool_calls"
		}
	}
	t.Fault = p.fault(l.steps[i].Fault, at, number, s)
	return t
}

// fill takes over what a step says of itself, or else the script.
func (p *Player) fill(t *Turn, s Step) {
	if s.Finish != "" {
		t.Finish = s.Finish
	}
	t.Chunk, t.Delay = p.script.Chunk, time.Duration(p.script.Delay)
	if s.Chunk != 0 {
		t.Chunk = s.Chunk
	}
	if s.Delay != 0 {
		t.Delay = time.Duration(s.Delay)
	}
	if !s.NoUsage {
		u := p.script.Usage
		if s.Usage != nil {
			u = *s.Usage
		}
		t.Usage = &u
	}
}

// step returns the place of the step that gives an answer.
func (l *plot) step(number int, loop bool) (int, bool) {
	if len(l.ends) == 0 || number < 1 {
		return 0, false
	}
	total := l.ends[len(l.ends)-1]
	if number > total {
		if !loop {
			return 0, false
		}
		number = (number-1)%total + 1
	}
	return sort.SearchInts(l.ends, number), true
}

func (l *plot) exhausted(number int) string {
	if len(l.ends) == 0 {
		return "script exhausted: no conversation takes this request and the script has no steps of its own"
	}
	total := l.ends[len(l.ends)-1]
	steps := "steps"
	if total == 1 {
		steps = "step"
	}
	return fmt.Sprintf("script exhausted: it has %d %s and this request wants answer %d", total, steps, number)
}

// name gives a step's calls their ids. Those that the script does not name get one from the answer's number and their place.
// A conversation's carry a mark of who asked: sub-agents share a journal with the one that called them.
func (l *plot) name(i, number int, marked bool, s Seen) []Part {
	parts := append([]Part(nil), l.parts[i]...)
	place := 0
	for j := range parts {
		if parts[j].Kind != ToolCall {
			continue
		}
		place++
		if parts[j].ID != "" {
			continue
		}
		if marked {
			h := fnv.New32a()
			h.Write([]byte(s.Prompt))
			parts[j].ID = fmt.Sprintf("call_%08x_%d_%d", h.Sum32(), number, place)
			continue
		}
		parts[j].ID = fmt.Sprintf("call_%d_%d", number, place)
	}
	return parts
}

// fault returns the fault if it strikes this time.
func (p *Player) fault(f *Fault, plot, number int, s Seen) *Fault {
	if f == nil || f.Times == 0 {
		return f
	}
	m := meeting{plot: plot, answer: number, prompt: sha256.Sum256([]byte(s.Prompt))}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met[m] >= f.Times {
		return nil
	}
	p.met[m]++
	return f
}

// blocks yields what a step says, in order.
func (s *Step) blocks() iter.Seq[Block] {
	return func(yield func(Block) bool) {
		for _, b := range s.Content {
			if !yield(b) {
				return
			}
		}
		if s.Thinking != "" && !yield(Block{Thinking: s.Thinking}) {
			return
		}
		if s.Text != "" && !yield(Block{Text: s.Text}) {
			return
		}
		if s.Call != nil && !yield(Block{Call: s.Call}) {
			return
		}
		for i := range s.Calls {
			if !yield(Block{Call: &s.Calls[i]}) {
				return
			}
		}
	}
}

func (s *Step) resolve() (parts []Part) {
	for b := range s.blocks() {
		switch {
		case b.Call != nil:
			arguments, err := b.Call.arguments()
			if err != nil {
				panic("script: not checked: " + err.Error())
			}
			parts = append(parts, Part{Kind: ToolCall, Text: arguments, ID: b.Call.ID, Tool: b.Call.Tool})
		case b.Thinking != "":
			parts = append(parts, Part{Kind: Thinking, Text: b.Thinking})
		default:
			parts = append(parts, Part{Kind: Text, Text: b.Text})
		}
	}
	return parts
}

// Deltas cuts a text into pieces of so many runes; 0: into one. Put together they are the text, also where it is not UTF-8.
func Deltas(text string, runes int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			end := len(text)
			if runes > 0 {
				end = 0
				for n := 0; n < runes && end < len(text); n++ {
					_, size := utf8.DecodeRuneInString(text[end:])
					end += size
				}
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}
