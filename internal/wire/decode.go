package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"sync"
	"time"
)

// Unmarshal decodes one JSON value into v, a non-nil pointer, in one pass that also checks the whole of data. It treats
// null, doubled keys and what is already in v as encoding/json does. The error is a [*SyntaxError] or a [*TypeError];
// after a SyntaxError v may be half filled.
func Unmarshal(data []byte, v any) error { return unmarshal(data, v, false) }

// Skim is [Unmarshal] for who wants a few fields of a long text and trusts the rest: what v has no field for, and what goes
// into a [Span], is not checked.
func Skim(data []byte, v any) error { return unmarshal(data, v, true) }

func unmarshal(data []byte, v any, trust bool) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return &TypeError{Want: "a pointer to decode into", Got: fmt.Sprintf("%T", v)}
	}
	d := decoderPool.Get().(*decoder)
	d.scanner, d.trust = scanner{data: data}, trust
	i := d.begin()
	if i >= 0 {
		i = d.end(decoderOf(p.Type().Elem())(d, i, p.Elem()))
	}
	var err error
	if i < 0 {
		fault := d.fault
		err = &fault
	} else if d.wrong != nil {
		d.wrong.Field = wayTo(data, d.wrongAt)
		err = d.wrong
	}
	d.data, d.wrong = nil, nil
	decoderPool.Put(d)
	return err
}

// Decoders are pooled because they are handed to functions chosen at run time, so that they cannot live on the stack.
var decoderPool = sync.Pool{New: func() any { return new(decoder) }}

// A decoder is a scanner that remembers the first value of the wrong type.
type decoder struct {
	scanner
	wrong   *TypeError // without its Field, which is found at the end
	wrongAt int
	trust   bool // what is skipped is not checked
	words   words
}

// skip returns the index after the value at i.
func (d *decoder) skip(i int) int {
	if !d.trust {
		return d.value(i)
	}
	if end := skipValue(d.data, i); end > i {
		return end
	}
	return d.fail(i, "expected a value")
}

// words remembers short strings: a stream says the same types, names and ids in every line, and each would be copied again.
type words [256]string

const longestWord = 40

// word returns b as a string, the one of an earlier time if it is there.
func (w *words) word(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	h := uint32(len(b))*0x9e3779b1 ^ uint32(b[0])<<16 ^ uint32(b[len(b)/2])<<8 ^ uint32(b[len(b)-1])
	h *= 0x85ebca6b
	slot := &w[h>>24]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// A decodeFunc decodes the value at i into v and returns the index after it, as a [scanner]'s methods do.
type decodeFunc func(d *decoder, i int, v reflect.Value) int

// mismatch skips the value at i, which v cannot hold, and notes it. Null fits everything, and changes nothing.
func (d *decoder) mismatch(i int, v reflect.Value) int {
	end := d.value(i)
	if end >= 0 && d.data[i] != 'n' {
		d.note(i, v, kindOf(d.data[i]).String(), nil)
	}
	return end
}

func (d *decoder) note(i int, v reflect.Value, got string, err error) {
	if d.wrong == nil {
		d.wrong, d.wrongAt = &TypeError{Want: v.Type().String(), Got: got, err: err}, i
	}
}

// wayTo names the value at offset: the keys and indexes that lead to it. To find it afterwards costs less than to keep
// track of it in all the lines that are as they should be.
func wayTo(data []byte, offset int) string {
	var d Doc
	if d.Parse(data) != nil {
		return ""
	}
	way := ""
	for n := d.Root(); n.Offset() < offset; {
		var key, inner Node
		index := -1
		for k, v := range n.Members() {
			if v.Offset() > offset {
				break
			}
			key, inner = k, v
			index++
		}
		switch {
		case index < 0:
			return way
		case n.Kind() == Array:
			way += "[" + strconv.Itoa(index) + "]"
		case way == "":
			way = key.Text()
		default:
			way += "." + key.Text()
		}
		n = inner
	}
	return way
}

func decodeString(d *decoder, i int, v reflect.Value) int {
	if d.data[i] != '"' {
		return d.mismatch(i, v)
	}
	near := d.data[:min(len(d.data), i+longestWord)]
	if end, seen := run(near, i+1); end < len(near) && near[end] == '"' && seen&highs == 0 {
		v.SetString(d.words.word(near[i+1 : end]))
		return end + 1
	}
	s, end := d.text(i)
	if end >= 0 {
		v.SetString(s)
	}
	return end
}

func decodeBool(d *decoder, i int, v reflect.Value) int {
	c := d.data[i]
	if c != 't' && c != 'f' {
		return d.mismatch(i, v)
	}
	end := d.atom(i)
	if end >= 0 {
		v.SetBool(c == 't')
	}
	return end
}

func decodeInt(d *decoder, i int, v reflect.Value) int {
	lit, end := d.literal(i, v)
	if lit == nil {
		return end
	}
	if n, err := strconv.ParseInt(string(lit), 10, 64); err == nil && !v.OverflowInt(n) {
		v.SetInt(n)
	} else {
		d.note(i, v, "number "+string(lit), nil)
	}
	return end
}

func decodeUint(d *decoder, i int, v reflect.Value) int {
	lit, end := d.literal(i, v)
	if lit == nil {
		return end
	}
	if n, err := strconv.ParseUint(string(lit), 10, 64); err == nil && !v.OverflowUint(n) {
		v.SetUint(n)
	} else {
		d.note(i, v, "number "+string(lit), nil)
	}
	return end
}

func decodeFloat(d *decoder, i int, v reflect.Value) int {
	lit, end := d.literal(i, v)
	if lit == nil {
		return end
	}
	if f, err := strconv.ParseFloat(string(lit), v.Type().Bits()); err == nil && !v.OverflowFloat(f) {
		v.SetFloat(f)
	} else {
		d.note(i, v, "number "+string(lit), nil)
	}
	return end
}

// literal returns the bytes of the number at i, or none if something else is there.
func (d *decoder) literal(i int, v reflect.Value) (lit []byte, end int) {
	if kindOf(d.data[i]) != Number {
		return nil, d.mismatch(i, v)
	}
	if end = d.number(i); end < 0 {
		return nil, end
	}
	return d.data[i:end], end
}

// decodeRaw copies the value as it stands, null too.
func decodeRaw(d *decoder, i int, v reflect.Value) int {
	end := d.value(i)
	if end >= 0 {
		v.SetBytes(append([]byte(nil), d.data[i:end]...))
	}
	return end
}

// A Span is a value as it stands in the text that it was decoded from, and good as long as that: what may be large and is
// not always looked at.
type Span []byte

// Text returns a string's text, any other value as it stands, and nothing for null or none.
func (s Span) Text() string {
	if len(s) == 0 || s[0] == 'n' {
		return ""
	}
	if text, ok := Unquote(s); ok {
		return text
	}
	return string(s)
}

// Raw returns a copy of the value, nil for null or none.
func (s Span) Raw() json.RawMessage {
	if len(s) == 0 || s[0] == 'n' {
		return nil
	}
	return append(json.RawMessage(nil), s...)
}

// Get returns a member of the object that s is, nil if it is none or has none of that name. A key with escapes is not found.
func (s Span) Get(key string) Span {
	for name, value := range s.Members() {
		if string(name[1:len(name)-1]) == key {
			return value
		}
	}
	return nil
}

// Members gives the members of the object that s is, keys as literals. It does not look into them: s was checked when it was
// decoded.
func (s Span) Members() iter.Seq2[Span, Span] {
	return func(yield func(key, value Span) bool) {
		if len(s) < 2 || s[0] != '{' {
			return
		}
		for i := skipSpace(s, 1); i < len(s) && s[i] == '"'; {
			end := skipString(s, i)
			key := s[i:end:end]
			i = skipSpace(s, end) // the colon
			i = skipSpace(s, i+1)
			after := skipValue(s, i)
			if after <= i || len(key) < 2 || !yield(key, s[i:after:after]) {
				return
			}
			if i = skipSpace(s, after); i < len(s) && s[i] == ',' {
				i = skipSpace(s, i+1)
			}
		}
	}
}

// The skips below are for text that is known to be JSON; they are fast because they need not check it again.

func skipSpace(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(s []byte, i int) int {
	for i++; i < len(s); {
		n := bytes.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		i += n + 1
		slashes := 0
		for s[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return i
}

// skipValue returns the index after the value that begins at i.
func skipValue(s []byte, i int) int {
	for depth := 0; i < len(s); {
		switch s[i] {
		case '"':
			i = skipString(s, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',':
			if depth == 0 {
				return i
			}
			i++
			continue
		case ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// A Num is a number that may be absent: what *float64 is, without the memory.
type Num struct {
	Value float64
	OK    bool
}

func decodeNum(d *decoder, i int, v reflect.Value) int {
	lit, end := d.literal(i, v)
	if lit == nil {
		return end
	}
	n := v.Addr().Interface().(*Num)
	if x, ok := small(lit); ok {
		*n = Num{x, true}
	} else if x, err := strconv.ParseFloat(string(lit), 64); err == nil {
		*n = Num{x, true}
	} else {
		d.note(i, v, "number "+string(lit), nil)
	}
	return end
}

// small reads a whole number of up to 15 digits, which a float64 holds exactly.
func small(lit []byte) (float64, bool) {
	if len(lit) > 15 {
		return 0, false
	}
	var n int64
	for _, c := range lit {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return float64(n), true
}

func decodeSpan(d *decoder, i int, v reflect.Value) int {
	end := d.skip(i)
	if end >= 0 {
		v.SetBytes(d.data[i:end:end])
	}
	return end
}

func decodeTime(d *decoder, i int, v reflect.Value) int {
	if d.data[i] != '"' {
		return d.mismatch(i, v)
	}
	end, _ := d.str(i)
	if end < 0 {
		return end
	}
	into := v.Addr().Interface().(*time.Time)
	if t, ok := readTime(d.data[i+1 : end-1]); ok {
		*into = t
	} else if err := into.UnmarshalJSON(d.data[i:end]); err != nil {
		d.note(i, v, "string", err)
	}
	return end
}

// decodeOther leaves the value to its own UnmarshalJSON or to encoding/json.
func decodeOther(d *decoder, i int, v reflect.Value) int {
	end := d.value(i)
	if end < 0 {
		return end
	}
	into, raw := v.Addr().Interface(), d.data[i:end]
	var err error
	if u, ok := into.(json.Unmarshaler); ok {
		err = u.UnmarshalJSON(raw)
	} else {
		err = json.Unmarshal(raw, into)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		d.note(i, reflect.Zero(wrong.Type), wrong.Value, nil)
	} else if err != nil {
		d.note(i, v, kindOf(raw[0]).String(), err)
	}
	return end
}
