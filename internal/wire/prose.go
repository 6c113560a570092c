package wire

import (
	"reflect"
	"unicode/utf8"
	"unsafe"
)

// A Prose is what may be a long text. It is read at once where the line is read with [Care] for everything: to check a text and
// to read it is one pass. Elsewhere it is a [Span].
type Prose struct {
	span Span
	text string
}

// Text returns a string's text, any other value as it stands, and nothing for null or none.
func (p *Prose) Text() string {
	if p.span == nil {
		return p.text
	}
	return p.span.Text()
}

func decodeProse(d *decoder, i int, p unsafe.Pointer) int {
	to := (*Prose)(p)
	if d.care == Everything && d.data[i] == '"' {
		text, end := d.text(i)
		*to = Prose{text: text}
		return end
	}
	return decodeSpan(d, i, unsafe.Pointer(&to.span))
}

// A Passing is a string that may be absent. In a line that is skimmed it is not copied: it is gone when the next line is read.
type Passing struct {
	Value string
	OK    bool
}

func decodePassing(d *decoder, i int, p unsafe.Pointer) int {
	if d.care != Skim || d.data[i] != '"' {
		return decodeStr(d, i, p)
	}
	to := (*Str)(p)
	from := i + 1
	n, high := stretch(d.data[from:])
	if i = from + n; i < len(d.data) && d.data[i] == '"' && (!high || utf8.Valid(d.data[from:i])) {
		*to = Str{View(d.data[from:i]), true}
		return i + 1
	}
	u := unquoting{scanner: &d.scanner, text: d.passing, ours: true, n: d.passed}
	if i = u.read(from); i < 0 {
		return i
	}
	d.passing = u.text
	text := u.text[d.passed:u.n]
	if d.passed = u.n; u.high && !utf8.Valid(text) {
		*to = Str{sound(text, true), true}
		return i
	}
	*to = Str{View(text), true}
	return i
}

// A Kept is an object that is read into a struct, and kept.
type Kept[T any] struct {
	Span   Span // as it stands
	Value  T
	Others int // members that Value has no field for
}

// planner is what has a plan of its own.
type planner interface{ plan() decodeFunc }

func (Kept[T]) plan() decodeFunc {
	decode := decoderOf(reflect.TypeFor[T]())
	return func(d *decoder, i int, p unsafe.Pointer) int {
		to, before := (*Kept[T])(p), d.others
		end := decode(d, i, unsafe.Pointer(&to.Value))
		if end >= 0 {
			to.Span, to.Others = d.data[i:end:end], d.others-before
		}
		return end
	}
}

// A JSON is compact JSON by somebody who made it so: it is appended without being looked at.
type JSON []byte
