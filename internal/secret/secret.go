// Package secret keeps secrets out of the stream. It stands at the one place through which every event goes, so that the
// journal, the reader, errors and exports are covered alike:
//
//	Emit ──▶ Redactor.Put ──▶ number, journal, reader
//
// A secret is a text that is known: the value of a variable whose name looks secret, a key. Wherever it occurs in an event it
// is replaced by a mark with the name that it is known by, "[redacted:GITHUB_TOKEN]". The mark is made of the name and not of
// the value: a hash of the value, however short, would let whoever reads the stream try a list of passwords until one fits; a
// hash with a key of this run would be another one in the next. A name is the same in every run and on every machine, and
// tells a person what was there.
//
// A secret is found as it stands; with any of its characters escaped as in JSON, in a shell or in a URL; in base64, whatever
// stands before it, also where lines are wrapped; and in hexadecimal. It is found where it is split over deltas: as much of
// the end of a delta as may be the beginning of a secret is held back until the next one. What comes out is what would have
// come out of the whole block at once:
//
//	concatenate(redact(deltas)) == redact(concatenate(deltas))
//
// What is not found: a secret that was split over two blocks, reversed, compressed or encrypted; and one that was split over
// two lines of another program, as far as those lines are kept as they were ([event.Foreign]). Numbers of the header and of
// typed fields are not looked at.
package secret

import (
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A Value is a secret, and the name that it is known by.
type Value struct{ Name, Text string }

// A Redactor replaces secrets in events. The zero Redactor knows none, and costs nothing. Put and Close are for one goroutine
// at a time, String is for any number of them at any time.
type Redactor struct {
	finder *finder // nil if there is nothing to find; it never changes
	held   []*held // what may be the beginning of a secret, of each block
}

// New makes a Redactor for these secrets. What is too short or too common to be one is left out, see [Value.Trivial].
func New(values []Value) *Redactor {
	var f finder
	for _, v := range values {
		v.Text = strings.TrimSpace(v.Text)
		if !v.Trivial() {
			f.add(v)
		}
	}
	if len(f.patterns) == 0 {
		return &Redactor{}
	}
	f.seal()
	return &Redactor{finder: &f}
}

// Fresh returns a Redactor of the same secrets that holds nothing: for another stream.
func (r *Redactor) Fresh() *Redactor { return &Redactor{finder: r.finder} }

// String replaces the secrets in a text: of an error, of a line on stderr.
func (r *Redactor) String(s string) string {
	if r.finder == nil {
		return s
	}
	return r.finder.whole(s)
}

// mark is what stands in a secret's place.
func mark(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, name)
	const longest = 48
	if name = name[:min(len(name), longest)]; name == "" {
		return bareMark
	}
	return "[redacted:" + name + "]"
}

const bareMark = "[redacted]"

var _ event.Filter = (*Redactor)(nil)
