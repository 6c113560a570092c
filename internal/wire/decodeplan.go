package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// How to decode a type is found out once.
var decoders sync.Map // reflect.Type to decodeFunc

func decoderOf(t reflect.Type) decodeFunc {
	if f, ok := decoders.Load(t); ok {
		return f.(decodeFunc)
	}
	f, _ := decoders.LoadOrStore(t, newDecoder(t))
	return f.(decodeFunc)
}

func newDecoder(t reflect.Type) decodeFunc {
	switch t {
	case reflect.TypeFor[time.Time]():
		return decodeTime
	case reflect.TypeFor[json.RawMessage]():
		return decodeRaw
	case reflect.TypeFor[Span]():
		return decodeSpan
	case reflect.TypeFor[Num]():
		return decodeNum
	case reflect.TypeFor[Str]():
		return decodeStr
	case reflect.TypeFor[Prose]():
		return decodeProse
	case reflect.TypeFor[json.Number]():
		return otherDecoder(t)
	}
	if p, ok := reflect.Zero(t).Interface().(planner); ok {
		return p.plan()
	}
	if p := reflect.PointerTo(t); t.Kind() != reflect.Pointer &&
		(p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())) {
		return otherDecoder(t)
	}
	switch t.Kind() {
	case reflect.String:
		return stringDecoder(t)
	case reflect.Bool:
		return boolDecoder(t)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intDecoder(t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return uintDecoder(t)
	case reflect.Float32, reflect.Float64:
		return floatDecoder(t)
	case reflect.Pointer:
		return pointerDecoder(t)
	case reflect.Slice:
		switch {
		case t.Elem() == reflect.TypeFor[string]():
			return stringsDecoder(t)
		case t.Elem().Kind() != reflect.Uint8: // those are base64
			return sliceDecoder(t)
		}
	case reflect.Map:
		key := t.Key()
		if key.Kind() == reflect.String && !reflect.PointerTo(key).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return mapDecoder(t)
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return newStructDecoder(t, fields).decode
		}
	}
	return otherDecoder(t)
}

// lazily finds the decoder for t when it is first needed: a type may contain itself behind a pointer, a slice or a map.
func lazily(t reflect.Type) func() decodeFunc {
	if t.Kind() < reflect.Array || t.Kind() == reflect.String {
		f := decoderOf(t)
		return func() decodeFunc { return f }
	}
	return sync.OnceValue(func() decodeFunc { return decoderOf(t) })
}

func pointerDecoder(t reflect.Type) decodeFunc {
	elem, decode := t.Elem(), lazily(t.Elem())
	fresh := func() unsafe.Pointer { return reflect.New(elem).UnsafePointer() }
	switch elem.Kind() { // what counts tokens and money, made without reflection
	case reflect.Int64:
		fresh = func() unsafe.Pointer { return unsafe.Pointer(new(int64)) }
	case reflect.Float64:
		fresh = func() unsafe.Pointer { return unsafe.Pointer(new(float64)) }
	}
	return func(d *decoder, i int, p unsafe.Pointer) int {
		to := (*unsafe.Pointer)(p)
		if d.data[i] == 'n' {
			*to = nil
			return d.atom(i)
		}
		if *to == nil {
			*to = fresh()
		}
		return decode()(d, i, *to)
	}
}

func sliceDecoder(t reflect.Type) decodeFunc {
	decode := lazily(t.Elem())
	return func(d *decoder, i int, p unsafe.Pointer) int {
		v := reflect.NewAt(t, p).Elem()
		if d.data[i] != '[' {
			if d.data[i] == 'n' {
				v.SetZero()
			}
			return d.mismatch(i, t)
		}
		decode, n := decode(), 0
		i, done := d.enter(i, ']')
		for ; !done; n++ {
			// What is already there is decoded into, not replaced, because encoding/json does so.
			if n >= v.Cap() {
				v.Grow(1)
			}
			if n >= v.Len() {
				v.SetLen(n + 1)
			}
			if i = decode(d, i, v.Index(n).Addr().UnsafePointer()); i < 0 {
				return i
			}
			i, done = d.next(i, ']')
		}
		if i >= 0 && n == 0 {
			v.Set(reflect.MakeSlice(t, 0, 0))
		} else if i >= 0 {
			v.SetLen(n)
		}
		return i
	}
}

// stringsDecoder is sliceDecoder for the most common slice: patterns, options, files.
func stringsDecoder(t reflect.Type) decodeFunc {
	decode, elem := sliceDecoder(t), stringDecoder(t.Elem())
	return func(d *decoder, i int, p unsafe.Pointer) int {
		to := (*[]string)(p)
		if d.data[i] != '[' || cap(*to) > 0 {
			return decode(d, i, p)
		}
		list := []string{}
		i, done := d.enter(i, ']')
		for !done {
			list = append(list, "")
			if i = elem(d, i, unsafe.Pointer(&list[len(list)-1])); i < 0 {
				return i
			}
			i, done = d.next(i, ']')
		}
		*to = list
		return i
	}
}

func mapDecoder(t reflect.Type) decodeFunc {
	decode := lazily(t.Elem())
	return func(d *decoder, i int, p unsafe.Pointer) int {
		v := reflect.NewAt(t, p).Elem()
		if d.data[i] != '{' {
			if d.data[i] == 'n' {
				v.SetZero()
			}
			return d.mismatch(i, t)
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(t))
		}
		decode := decode()
		key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem())
		i, done := d.enter(i, '}')
		for !done {
			_, value, _ := d.key(i)
			if value < 0 {
				return value
			}
			name, _ := d.text(i)
			key.SetString(name)
			elem.Elem().SetZero()
			if i = decode(d, value, elem.UnsafePointer()); i < 0 {
				return i
			}
			v.SetMapIndex(key, elem.Elem())
			i, done = d.next(i, '}')
		}
		return i
	}
}

// A structDecoder finds fields by name. Keys come in much the same order in every line, so the one is tried first that came
// after this one the last time; or the next field, if this one is new.
type structDecoder struct {
	typ    reflect.Type
	base   int // where its fields begin in [decoder.after]
	fields []fieldDecoder
	byName map[string]int // for structs with more fields than are quickly looked through
	guess  [64]uint8      // one more than the index of a field whose name has this slot
}

// slot is where a name is looked for first.
func slot[T string | []byte](name T) uint8 {
	return (uint8(len(name))*7 ^ name[0] ^ name[len(name)-1]*5) & 63
}

// fieldCount is how many fields all structDecoders have, and one more for each.
var fieldCount atomic.Int64

type fieldDecoder struct {
	name   string
	label  string // as it stands in JSON: the name in quotes and a colon
	offset uintptr
	decode decodeFunc
}

func newStructDecoder(t reflect.Type, fields []field) *structDecoder {
	const few = 8
	s := structDecoder{typ: t, base: int(fieldCount.Add(int64(len(fields)+1))) - len(fields) - 1}
	for _, f := range fields {
		label := string(AppendString(nil, f.name)) + ":"
		s.fields = append(s.fields, fieldDecoder{f.name, label, f.offset(t), decoderOf(f.typ)})
	}
	if len(fields) > few {
		s.byName = make(map[string]int)
		for i, f := range fields {
			s.byName[f.name] = i
			if f.name != "" && i < 255 && s.guess[slot(f.name)] == 0 {
				s.guess[slot(f.name)] = uint8(i + 1)
			}
		}
	}
	return &s
}

// find returns the index of the field of that name, or -1.
func (s *structDecoder) find(name []byte, likely int) int {
	if likely < len(s.fields) && s.fields[likely].name == string(name) {
		return likely
	}
	if s.byName != nil {
		if len(name) > 0 {
			if i := int(s.guess[slot(name)]) - 1; i >= 0 && s.fields[i].name == string(name) {
				return i
			} else if i < 0 {
				return -1
			}
		}
		if i, ok := s.byName[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range s.fields {
		if s.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

func (s *structDecoder) decode(d *decoder, i int, p unsafe.Pointer) int {
	if d.data[i] != '{' {
		return d.mismatch(i, s.typ)
	}
	after := d.followers(s.base, len(s.fields)+1)
	last := 0 // one more than the field that was found last
	i, done := d.enter(i, '}')
	for !done {
		likely := last
		if after[last] > 0 {
			likely = int(after[last]) - 1
		}
		at, value := s.field(d, i, likely)
		switch {
		case value < 0:
			return value
		case at < 0:
			d.others++
			i = d.skip(value)
		default:
			if at != likely {
				after[last] = uint16(at + 1)
			}
			last = at + 1
			f := &s.fields[at]
			i = f.decode(d, value, unsafe.Add(p, f.offset))
		}
		if i < 0 {
			return i
		}
		i, done = d.next(i, '}')
	}
	return i
}

// field reads the key at i and returns the index of its field, or -1, and where its value begins.
func (s *structDecoder) field(d *decoder, i, likely int) (at, value int) {
	if likely < len(s.fields) {
		label := s.fields[likely].label
		if n := i + len(label); n < len(d.data) && string(d.data[i:n]) == label && d.data[n] > ' ' {
			return likely, n
		}
	}
	end, value, flags := d.key(i)
	if value < 0 {
		return -1, value
	}
	name := d.data[i+1 : end-1]
	if flags != 0 {
		unquoted, _ := d.text(i)
		name = []byte(unquoted)
	}
	return s.find(name, likely), value
}
