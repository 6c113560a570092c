package fold

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-dev/sluice/event"
)

// DegenerateStream is what a reply's stop, and the type of its error, are called when its stream had become degenerate.
const DegenerateStream = "degenerate_reasoning_stream"

// A Degeneration says that a model's stream has become one that goes nowhere, and by which sign.
type Degeneration struct {
	Session, Agent string
	Signal         string    // control_token, hex_run, hex_dominance or repetition
	Message        string    // for a person
	Diagnostics    event.Raw // an object: the signal, and what was counted
}

// A Detector finds answers that will not come to an end by themselves, so that they do not spend the whole budget: thoughts and
// texts alike, of whatever agent. The signs:
//
//	control_token   <|channel|> and its kin, which are for the provider and not for a reader. However the deltas cut it, it counts
//	                only where it was not written about: at the very beginning, at the beginning of a line with something
//	                stuck to its end, or itself stuck to the end of a word or a sentence; not in a fence, in code, in quotes,
//	                or after a space in a sentence
//	hex_run         256 deltas after each other of one character each, 0 to f
//	hex_dominance   half of the last 2048 deltas are such ones, and no other has a word or a line break in it
//	repetition      the last 16 KiB of thoughts are the same up to 2 KiB again and again; of texts, which somebody may have
//	                asked for just so, 256 KiB are, or 100 000 deltas
//
// An eighth of the hex characters must be letters: there are models that say long numbers digit by digit. What ordinary code,
// dumps, tables and encoded data look like is in testdata/degenerate, and is none of this. (A line of two thousand hex characters
// that is said character by character is: nothing tells it from the real thing.)
//
// The zero Detector is ready. An answer begins with its turn, or with a retry of it.
type Detector struct {
	Found *Degeneration // the first one; whoever has acted on it may set it to nil

	answers map[speaker]*answer
	scratch []int32
}

// A speaker is an agent of a session.
type speaker struct{ session, agent string }

// maxAnswers bounds what is remembered of agents that never end.
const maxAnswers = 64

// Wants implements [Fold].
func (d *Detector) Wants() []event.Body {
	return []event.Body{event.TextDelta{}, event.Text{}, event.ThoughtDelta{}, event.Thought{}}
}

// Apply implements [Fold].
func (d *Detector) Apply(e event.Event) {
	who := speaker{e.Session, e.Agent}
	switch b := e.Body.(type) {
	case event.TextDelta:
		d.take(who, "text", b.ID, b.Text, false)
	case event.ThoughtDelta:
		d.take(who, "thought", b.ID, b.Text, false)
	case event.Text:
		d.take(who, "text", b.ID, b.Text, true)
	case event.Thought:
		d.take(who, "thought", b.ID, b.Text, true)
	default:
		switch e.Kind {
		case "turn.started", "turn.ended", "retry", "prompt", "agent.ended", "reply.done", "reply.failed", "reply.cancelled":
			delete(d.answers, who)
		}
	}
}

// take takes a delta, or a whole block, which says nothing new if it had deltas.
func (d *Detector) take(who speaker, kind, id, text string, whole bool) {
	if d.Found != nil || text == "" {
		return
	}
	a := d.answers[who]
	if a == nil {
		if d.answers == nil || len(d.answers) >= maxAnswers {
			d.answers = map[speaker]*answer{}
		}
		a = &answer{}
		d.answers[who] = a
	}
	said := a.kind == kind && (a.id == id || id == "")
	if whole && said {
		a.kind = ""
		return
	}
	if !said {
		a.begin()
	}
	a.text = kind == "text"
	if a.kind, a.id = kind, id; whole {
		a.kind = ""
	}
	if len(d.scratch) == 0 && a.full() {
		d.scratch = make([]int32, stretch)
	}
	signal, why := a.write(text, d.scratch)
	if signal == "" {
		return
	}
	raw, err := json.Marshal(a.diagnostics(signal))
	if err != nil {
		panic(err) // it is numbers and a word
	}
	d.Found = &Degeneration{who.session, who.agent, signal, "degenerate reasoning stream: " + why, raw}
	delete(d.answers, who)
}

// diagnostics are what was counted, as the avenor specification has it.
type diagnostics struct {
	AbortSignal      string `json:"abort_signal"`
	ObservedTotal    int    `json:"observed_total"` // deltas
	HexTotal         int    `json:"hex_total"`      // of one hex character
	HexInWindow      int    `json:"hex_in_window"`
	WindowSize       int    `json:"window_size"`
	ConsecutiveHex   int    `json:"consecutive_hex"`
	ProgressInWindow int    `json:"progress_in_window"` // deltas that had a word or a line break
}

const (
	lookback   = 2048 // deltas that are looked back at
	longestHex = 256
	stretch    = 16 << 10 // bytes that must repeat themselves
	mostPeriod = stretch / 8
	stretches  = 256 << 10 // likewise, of texts
	mostSame   = 100_000   // deltas of texts
	stride     = 4 << 10   // how often that is looked for
)

// An answer is what one agent says in one turn.
type answer struct {
	kind, id string // of the block whose deltas come
	text     bool   // it is no thought

	observed, hex  int
	run, inRun     int // hex deltas after each other, and letters among them
	ring           []sort
	hexes, letters int // in the ring
	progress       int
	last           string // delta
	same           int    // how often it came after each other
	repeated       int    // bytes, up to now

	tail  []byte // the last of what was said
	block int    // in it: where the block begins
	line  int    // and the line; -1: before it
	seen  int    // how far it was searched
	fence byte   // that is open
	ticks int
	odd   *token // that the next bytes decide about
}

// A sort is what a delta is.
type sort uint8

const (
	empty     sort = iota // it says nothing
	hexDigit              // 0 to 9, alone
	hexLetter             // a to f, alone
	moving                // it has a word in it, or a line break
)

// full says whether the next write may look for repetition.
func (a *answer) full() bool { return len(a.tail) >= stretch }

// begin begins a block: no token, line or fence reaches over its end.
func (a *answer) begin() {
	a.block, a.line, a.fence, a.odd = len(a.tail), len(a.tail), 0, nil
}

// write takes a delta and returns the sign that it completes, and why.
func (a *answer) write(delta string, scratch []int32) (signal, why string) {
	a.observed++
	for at := 0; at < len(delta); at += stride {
		piece := delta[at:min(at+stride, len(delta))]
		a.tail = append(a.tail, piece...)
		if leaked := a.search(at+stride >= len(delta)); leaked != "" {
			return "control_token", fmt.Sprintf("provider control token leakage (%s)", leaked)
		}
		if len(a.tail) < stretch+stride {
			continue
		}
		if scratch == nil {
			scratch = make([]int32, stretch)
		}
		p := period(a.tail[len(a.tail)-stretch:], scratch)
		switch {
		case p > mostPeriod:
			a.repeated = 0
		case a.repeated == 0:
			a.repeated = stretch
		default:
			a.repeated += len(a.tail) - stretch
		}
		if a.repeated >= stretches || a.repeated > 0 && !a.text {
			return "repetition", fmt.Sprintf("the last %d bytes repeat themselves every %d", a.repeated, p)
		}
		a.forget(len(a.tail) - stretch)
	}
	a.count(sortOf(delta))
	if a.same++; a.last != delta {
		a.last, a.same = delta, 1
	}
	switch {
	case a.same >= mostSame:
		return "repetition", fmt.Sprintf("%d deltas are all the same", a.same)
	case a.run >= longestHex && a.inRun*8 >= a.run:
		return "hex_run", fmt.Sprintf("%d consecutive single-character hex deltas", a.run)
	case len(a.ring) == lookback && a.progress == 0 && a.hexes >= lookback/2 && a.letters*8 >= a.hexes:
		return "hex_dominance", fmt.Sprintf("%d of the last %d deltas are single hex characters, and none of the others says anything", a.hexes, lookback)
	}
	return "", ""
}

// sortOf says what a delta is.
func sortOf(delta string) sort {
	if len(delta) == 1 {
		switch c := delta[0]; {
		case c >= '0' && c <= '9':
			return hexDigit
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			return hexLetter
		}
	}
	for i := range len(delta) {
		if c := delta[i]; c == '\n' || c >= 0x80 || c|0x20 > 'f' && c|0x20 <= 'z' {
			return moving
		}
	}
	return empty
}

// count counts a delta.
func (a *answer) count(s sort) {
	if len(a.ring) < lookback {
		a.ring = append(a.ring, s)
	} else {
		at := &a.ring[(a.observed-1)%lookback]
		a.tally(*at, -1)
		*at = s
	}
	a.tally(s, 1)
	if s != hexDigit && s != hexLetter {
		a.run, a.inRun = 0, 0
		return
	}
	a.hex++
	if a.run++; s == hexLetter {
		a.inRun++
	}
}

func (a *answer) tally(s sort, n int) {
	switch s {
	case hexLetter:
		a.letters += n
		a.hexes += n
	case hexDigit:
		a.hexes += n
	case moving:
		a.progress += n
	}
}

func (a *answer) diagnostics(signal string) diagnostics {
	return diagnostics{signal, a.observed, a.hex, a.hexes, lookback, a.run, a.progress}
}

// forget drops the beginning of the tail.
func (a *answer) forget(n int) {
	a.tail = a.tail[:copy(a.tail, a.tail[n:])]
	a.block, a.line, a.seen = max(a.block-n, -1), max(a.line-n, -1), max(a.seen-n, 0)
	if a.odd != nil {
		if a.odd.end -= n; a.odd.end < 0 {
			a.odd = nil
		}
	}
}

// period is the length of the shortest text that data repeats, the last time perhaps not to its end.
func period(data []byte, border []int32) int {
	border[0] = 0
	k := int32(0)
	for i := 1; i < len(data); i++ {
		for k > 0 && data[i] != data[k] {
			k = border[k-1]
		}
		if data[i] == data[k] {
			k++
		}
		border[i] = k
	}
	return len(data) - int(k)
}
