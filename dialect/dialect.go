// Package dialect tells a run in the words of different programs, and reads what they told.
//
// A [Dialect] has four parts, each a pure state machine: an encoder (event in, lines out), a decoder (line in, events out),
// a linter (is this stream what its specification says?) and a schema of its lines. Everything that is the same for all of
// them stands around these parts and is written once:
//
//	lines ──Stream──▶ decoder ──▶ of, seq ──▶ event.Mender ──▶ events ──▶ encoder ──Writer──▶ lines
//
// A decoder only translates; [Stream] keeps each line as a foreign event, numbers what was read from it, and mends what was
// cut. An encoder may therefore trust the order that [event.Mender] describes, and needs no word about lines that are kept:
// [Dialect.NewEncoder] prints a foreign line of its own dialect as it was and skips what was read from it.
//
// To add a dialect: one file with a Dialect in it, and its name in one of the tables below. The tests pick it up.
package dialect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// A Dialect is one way to tell a run as lines of JSON.
type Dialect struct {
	Name string
	Doc  string // one sentence

	encoder func(Options) Encoder
	decoder func(bulk) Decoder
	shapes  func() *shapes      // what its lines look like
	checker func() checker      // what may follow what
	rules   []Rule              // that the checker has
	losses  func() []Loss       // what it has no word for; nil: nothing
	score   func(wire.Node) int // how much a line looks like one of its own
	mute    bool                // it has no word for the outputs of calls
}

// A bulk says what of a stream's bulk a decoder is to read.
type bulk uint8

const (
	allBulk   bulk = iota
	noOutputs      // no outputs of calls
	noBulk         // no inputs either; and what is skipped is not checked
)

func (b bulk) inputs() bool  { return b != noBulk }
func (b bulk) outputs() bool { return b == allBulk }

func (b bulk) care() wire.Care { return [...]wire.Care{wire.Everything, wire.Check, wire.Skim}[b] }

// dialects is the table of contents.
var dialects = []*Dialect{&native, &aictrl, &grok, &avenor, &enso, &aionrs}

// readOnly are the dialects of programs that we read and nobody wants us to be: they have no encoder. Whoever tells a run
// meets only the others.
var readOnly = []*Dialect{&claude}

// sources are all that can be read.
var sources = slices.Concat(dialects, readOnly)

// All returns every dialect that a run can be told in.
func All() []*Dialect { return slices.Clone(dialects) }

// Sources returns every dialect that can be read: all of [All], and those that are only read.
func Sources() []*Dialect { return slices.Clone(sources) }

// Lookup returns the dialect of that name, to tell a run in.
func Lookup(name string) (*Dialect, error) { return lookup(dialects, name) }

// Source returns the dialect of that name, to be read.
func Source(name string) (*Dialect, error) { return lookup(sources, name) }

func lookup(list []*Dialect, name string) (*Dialect, error) {
	for _, d := range list {
		if d.Name == name {
			return d, nil
		}
	}
	if len(list) == len(dialects) && slices.Contains(SourceNames(), name) {
		return nil, fmt.Errorf("%s is only read, not written; there are %s", name, strings.Join(Names(), ", "))
	}
	return nil, fmt.Errorf("no dialect %q; there are %s", name, strings.Join(names(list), ", "))
}

// Names returns the names of [All].
func Names() []string { return names(dialects) }

// SourceNames returns the names of [Sources].
func SourceNames() []string { return names(sources) }

func names(list []*Dialect) []string {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name
	}
	return names
}

// An Encoder tells events in a dialect. It is a pure function of what it has seen.
type Encoder interface {
	// Encode appends the lines that the dialect has for the event, each with its newline; often there are none. Events
	// come as a whole stream, from run.started to run.*; what is held back is told with the event that it waited for,
	// and at the latest with the run's end.
	Encode(dst []byte, e event.Event) []byte
}

// A Decoder reads the lines of a dialect.
type Decoder interface {
	// Decode reads one line, without its newline, and emits what it says: events whose headers have only what the line
	// tells (time, session, agent, call). A line that it does not understand says nothing; it is never an error.
	Decode(line []byte, emit func(event.Event))

	// Ended says whether the lines so far say that the run is over: a reader who follows a stream stops there.
	Ended() bool

	// Close is called after the last line. It emits what the end of the stream says; not what is missing, which a
	// [event.Mender] knows.
	Close(emit func(event.Event))
}

// Options are how a stream is told. The zero value tells everything.
type Options struct {
	NoOrigin   bool       // translate also the lines that were of this dialect to begin with
	Repair     bool       // between lines that are kept, tell also what was inferred, and leave out lines that are not JSON
	Deltas     bool       // print pieces of text as they come, where the dialect has an unstable word for that
	NoThoughts bool       // leave out reasoning, where the dialect shows it only when asked
	Starting   bool       // a run is told to be there at its first status, where the dialect says that it takes messages: before that it may fail
	Loss       func(Loss) // told what the dialect has no word for

	kept func(of uint64) bool // says whether that line was printed as it was
}

// told says whether an event was read from a line that was printed as it was. An encoder that holds lines back asks it about
// the event that a line is made of; what it tells at once the teller has asked about already.
func (o Options) told(h event.Header) bool { return o.kept != nil && o.kept(h.Of) }

// NewEncoder returns an encoder of the dialect.
func (d *Dialect) NewEncoder(o Options) Encoder {
	t := &teller{dialect: d.Name, opt: o}
	o.kept = t.readFrom
	t.inner = d.encoder(o)
	if o.Loss != nil && d != &native { // which has a word for everything
		t.losses = newLosses(d.Losses(), o.Loss)
	}
	return t
}

// Key is the field that names a line's type.
func (d *Dialect) Key() string { return d.shapes().key }

// NewDecoder returns a decoder of the dialect. Most want a [Stream] around it.
func (d *Dialect) NewDecoder() Decoder { return d.decoder(allBulk) }

// Recognise says which dialect the beginning of a stream is in, or nil.
func Recognise(head []byte) *Dialect {
	var best *Dialect
	var doc wire.Doc
	scores := make([]int, len(sources))
	for line := range bytes.Lines(head) {
		if doc.Parse(trim(bytes.TrimSuffix(line, []byte("\n")), true)) != nil || doc.Root().Kind() != wire.Object {
			continue
		}
		for i, d := range sources {
			scores[i] += d.score(doc.Root())
		}
	}
	top := 0
	for i, d := range sources {
		if scores[i] > top {
			best, top = d, scores[i]
		}
	}
	return best
}

// appendLine appends v as one line.
func appendLine(dst []byte, v any) []byte {
	return append(wire.Append(dst, v), '\n')
}

// A clock gives the times of lines in Unix milliseconds. Lines that were held back do not make time go backwards; where no
// time is known, it is that of the line before.
type clock struct{ last int64 }

func (c *clock) millis(h event.Header) int64 {
	if !h.At.IsZero() {
		c.last = max(c.last, h.At.UnixMilli())
	}
	return c.last
}
