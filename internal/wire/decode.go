package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"sync"
	"time"
	"unsafe"
)

// Unmarshal decodes one JSON value into v, a non-nil pointer, in one pass that also checks the whole of data. It treats
// null, doubled keys and what is already in v as encoding/json does. The error is a [*SyntaxError] or a [*TypeError];
// after a SyntaxError v may be half filled.
func Unmarshal(data []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return &TypeError{Want: "a pointer to decode into", Got: fmt.Sprintf("%T", v)}
	}
	t := p.Type().Elem()
	spares, ok := spareDecoders.Load(t)
	if !ok {
		spares, _ = spareDecoders.LoadOrStore(t, new(spare[decoder]))
	}
	d := spares.(*spare[decoder]).get()
	err := d.decode(data, Everything, decoderOf(t), p.UnsafePointer())
	spares.(*spare[decoder]).put(d)
	return err
}

// Decoders are handed to functions chosen at run time, so that they cannot live on the stack; and each has the habits of its type.
var spareDecoders sync.Map // reflect.Type to *spare[decoder]

// A decoder is a scanner that remembers the first value of the wrong type.
type decoder struct {
	scanner
	wrong   *TypeError // without its Field, which is found at the end
	wrongAt int
	care    Care
	others  int // members so far that had no field
	words   words
	numbers []int64     // that nobody has yet
	passing []byte      // strings of this line with what their escapes stand for
	passed  int         // how much of it is used
	here    **habit     // of the objects that are read next
	first   *habit      // of the whole; and, where its first member tells a type,
	lines   *[64]*habit // by that type, since lines of one type are alike
}

// decode reads the whole of data into what p points to.
func (d *decoder) decode(data []byte, care Care, decode decodeFunc, p unsafe.Pointer) (err error) {
	d.scanner, d.care, d.here, d.passed = scanner{data: data}, care, &d.first, 0
	if len(d.passing) > tooLong {
		d.passing = nil
	}
	i := d.begin()
	if i >= 0 {
		i = d.end(decode(d, i, p))
	}
	if i < 0 {
		fault := d.fault
		err = &fault
	} else if d.wrong != nil {
		d.wrong.Field = wayTo(data, d.wrongAt)
		err = d.wrong
	}
	d.data, d.wrong = nil, nil
	return err
}

// skip returns the index after the value at i.
func (d *decoder) skip(i int) int {
	if d.care != Skim {
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
	slot := &w[hash(b)>>24]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// hash tells short strings apart, mostly. There must be a byte at least.
func hash(b []byte) uint32 {
	h := uint32(len(b))*0x9e3779b1 ^ uint32(b[0])<<16 ^ uint32(b[len(b)/2])<<8 ^ uint32(b[len(b)-1])
	return h * 0x85ebca6b
}

// A decodeFunc decodes the value at i into what p points to and returns the index after it, as a [scanner]'s methods do. It is
// made for one type, and p must point to one of that type: [decoderOf] and the walk over a struct's fields see to it. Plain
// pointers instead of reflect.Values make decoding a fifth faster; what is not a plain field goes by reflection all the same.
type decodeFunc func(d *decoder, i int, p unsafe.Pointer) int

// mismatch skips the value at i, which a t cannot hold, and notes it. Null fits everything, and changes nothing.
func (d *decoder) mismatch(i int, t reflect.Type) int {
	end := d.value(i)
	if end >= 0 && d.data[i] != 'n' {
		d.note(i, t, kindOf(d.data[i]).String(), nil)
	}
	return end
}

func (d *decoder) note(i int, t reflect.Type, got string, err error) {
	if d.wrong == nil {
		d.wrong, d.wrongAt = &TypeError{Want: t.String(), Got: got, err: err}, i
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

func stringDecoder(t reflect.Type) decodeFunc {
	return func(d *decoder, i int, p unsafe.Pointer) int {
		if d.data[i] != '"' {
			return d.mismatch(i, t)
		}
		s, end, _ := d.short(i)
		if end >= 0 {
			*(*string)(p) = s
		}
		return end
	}
}

// short is text for strings that are mostly short and mostly the same. A plain one is short, and stands there as it is.
func (d *decoder) short(i int) (s string, end int, plain bool) {
	near := d.data[:min(len(d.data), i+longestWord)]
	if end, seen := run(near, i+1); end < len(near) && near[end] == '"' && seen&highs == 0 {
		return d.words.word(near[i+1 : end]), end + 1, true
	}
	s, end = d.text(i)
	return s, end, false
}

func boolDecoder(t reflect.Type) decodeFunc {
	return func(d *decoder, i int, p unsafe.Pointer) int {
		c := d.data[i]
		if c != 't' && c != 'f' {
			return d.mismatch(i, t)
		}
		end := d.atom(i)
		if end >= 0 {
			*(*bool)(p) = c == 't'
		}
		return end
	}
}

func intDecoder(t reflect.Type) decodeFunc {
	wide := t.Size() == 8
	return func(d *decoder, i int, p unsafe.Pointer) int {
		if n, end := d.small(i); end > 0 && wide {
			*(*int64)(p) = n
			return end
		}
		lit, end := d.literal(i, t)
		if lit == nil {
			return end
		}
		n, err := strconv.ParseInt(string(lit), 10, t.Bits())
		if err != nil {
			d.note(i, t, "number "+string(lit), nil)
		} else if wide {
			*(*int64)(p) = n
		} else {
			reflect.NewAt(t, p).Elem().SetInt(n)
		}
		return end
	}
}

func uintDecoder(t reflect.Type) decodeFunc {
	return func(d *decoder, i int, p unsafe.Pointer) int {
		lit, end := d.literal(i, t)
		if lit == nil {
			return end
		}
		if n, err := strconv.ParseUint(string(lit), 10, t.Bits()); err != nil {
			d.note(i, t, "number "+string(lit), nil)
		} else {
			reflect.NewAt(t, p).Elem().SetUint(n)
		}
		return end
	}
}

func floatDecoder(t reflect.Type) decodeFunc {
	wide := t.Size() == 8
	return func(d *decoder, i int, p unsafe.Pointer) int {
		lit, end := d.literal(i, t)
		if lit == nil {
			return end
		}
		if f, err := strconv.ParseFloat(string(lit), t.Bits()); err != nil {
			d.note(i, t, "number "+string(lit), nil)
		} else if wide {
			*(*float64)(p) = f
		} else {
			reflect.NewAt(t, p).Elem().SetFloat(f)
		}
		return end
	}
}

// literal returns the bytes of the number at i, or none if something else is there.
func (d *decoder) literal(i int, t reflect.Type) (lit []byte, end int) {
	if kindOf(d.data[i]) != Number {
		return nil, d.mismatch(i, t)
	}
	if end = d.number(i); end < 0 {
		return nil, end
	}
	return d.data[i:end], end
}

// decodeRaw copies the value as it stands, null too.
func decodeRaw(d *decoder, i int, p unsafe.Pointer) int {
	end := d.value(i)
	if end >= 0 {
		*(*json.RawMessage)(p) = append([]byte(nil), d.data[i:end]...)
	}
	return end
}

func decodeSpan(d *decoder, i int, p unsafe.Pointer) int {
	end := d.skip(i)
	if end >= 0 {
		*(*Span)(p) = d.data[i:end:end]
	}
	return end
}

// A Num is a number that may be absent: what *float64 is, without the memory.
type Num struct {
	Value float64
	OK    bool
}

func decodeNum(d *decoder, i int, p unsafe.Pointer) int {
	if n, end := d.small(i); end > 0 {
		*(*Num)(p) = Num{float64(n), true}
		return end
	}
	lit, end := d.literal(i, reflect.TypeFor[Num]())
	if lit == nil {
		return end
	}
	if x, err := strconv.ParseFloat(string(lit), 64); err == nil {
		*(*Num)(p) = Num{x, true}
	} else {
		d.note(i, reflect.TypeFor[Num](), "number "+string(lit), nil)
	}
	return end
}

// small reads a whole number of up to 15 digits, which a float64 holds exactly, and returns the index after it, or 0: nearly
// every number on the wire is such a one.
func (d *decoder) small(i int) (n int64, end int) {
	data, from := d.data, i
	u, i := Digits(data, from)
	if i == from || i > from+MaxDigits || i > from+1 && data[from] == '0' || i < len(data) && (data[i] == '.' || data[i]|0x20 == 'e') {
		return 0, 0
	}
	return int64(u), i
}

// MaxDigits is how many digits [Digits] reads well.
const MaxDigits = 15

// Digits returns the number that the digits from i on make, and where they end. If there are more than MaxDigits, it is another.
func Digits(data []byte, i int) (n uint64, end int) {
	for count := 8; count == 8 && i+8 <= len(data); i += count {
		var more uint64
		more, count = eight(binary.LittleEndian.Uint64(data[i:]))
		n = n*powers[count] + more
	}
	for ; i < len(data) && data[i]-'0' <= 9; i++ { // among the last
		n = n*10 + uint64(data[i]-'0')
	}
	return n, i
}

// eight reads the digits that eight bytes begin with, and says how many they are.
func eight(x uint64) (n uint64, count int) {
	x ^= '0' * ones
	others := ((x + 0x76*ones) | x) & highs // a carry out of a byte that is no digit does not matter
	count = bits.TrailingZeros64(others) / 8
	x <<= 64 - 8*count // those before the first digit are zeros
	x = (x * (1 + 10<<8)) >> 8 & 0x00ff00ff00ff00ff
	x = (x * (1 + 100<<16)) >> 16 & 0x0000ffff0000ffff
	return (x * (1 + 10000<<32)) >> 32, count
}

// powers are those of ten.
var powers = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// A Str is a string that may be absent: what *string is, without the memory.
type Str struct {
	Value string
	OK    bool
}

func decodeStr(d *decoder, i int, p unsafe.Pointer) int {
	s := (*Str)(p)
	switch d.data[i] {
	case '"':
		text, end, _ := d.short(i)
		if end >= 0 {
			*s = Str{text, true}
		}
		return end
	case 'n':
		*s = Str{}
		return d.atom(i)
	}
	s.OK = true
	return d.mismatch(i, reflect.TypeFor[string]())
}

func decodeTime(d *decoder, i int, p unsafe.Pointer) int {
	if d.data[i] != '"' {
		return d.mismatch(i, reflect.TypeFor[time.Time]())
	}
	end, _ := d.str(i)
	if end < 0 {
		return end
	}
	into := (*time.Time)(p)
	if t, ok := readTime(d.data[i+1 : end-1]); ok {
		*into = t
	} else if err := into.UnmarshalJSON(d.data[i:end]); err != nil {
		d.note(i, reflect.TypeFor[time.Time](), "string", err)
	}
	return end
}

// otherDecoder leaves the value to its own UnmarshalJSON or to encoding/json.
func otherDecoder(t reflect.Type) decodeFunc {
	return func(d *decoder, i int, p unsafe.Pointer) int {
		end := d.value(i)
		if end < 0 {
			return end
		}
		into, raw := reflect.NewAt(t, p).Interface(), d.data[i:end]
		var err error
		if u, ok := into.(json.Unmarshaler); ok {
			err = u.UnmarshalJSON(raw)
		} else {
			err = json.Unmarshal(raw, into)
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			d.note(i, wrong.Type, wrong.Value, nil)
		} else if err != nil {
			d.note(i, t, kindOf(raw[0]).String(), err)
		}
		return end
	}
}
