package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
	"time"
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
	case reflect.TypeFor[json.Number]():
		return decodeOther
	}
	if p := reflect.PointerTo(t); t.Kind() != reflect.Pointer &&
		(p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())) {
		return decodeOther
	}
	switch t.Kind() {
	case reflect.String:
		return decodeString
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return decodeUint
	case reflect.Float32, reflect.Float64:
		return decodeFloat
	case reflect.Pointer:
		return pointerDecoder(t)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // those are base64
			return sliceDecoder(t)
		}
	case reflect.Map:
		key := t.Key()
		if key.Kind() == reflect.String && !reflect.PointerTo(key).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return mapDecoder(t)
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return newStructDecoder(fields).decode
		}
	}
	return decodeOther
}

// lazily finds the decoder for t when it is first needed: a type may contain itself behind a pointer, a slice or a map.
func lazily(t reflect.Type) func() decodeFunc {
	return sync.OnceValue(func() decodeFunc { return decoderOf(t) })
}

func pointerDecoder(t reflect.Type) decodeFunc {
	elem, decode := t.Elem(), lazily(t.Elem())
	return func(d *decoder, i int, v reflect.Value) int {
		if d.data[i] == 'n' {
			v.SetZero()
			return d.atom(i)
		}
		if v.IsNil() {
			v.Set(reflect.New(elem))
		}
		return decode()(d, i, v.Elem())
	}
}

func sliceDecoder(t reflect.Type) decodeFunc {
	decode := lazily(t.Elem())
	return func(d *decoder, i int, v reflect.Value) int {
		if d.data[i] != '[' {
			if d.data[i] == 'n' {
				v.SetZero()
			}
			return d.mismatch(i, v)
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
			if i = decode(d, i, v.Index(n)); i < 0 {
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

func mapDecoder(t reflect.Type) decodeFunc {
	decode := lazily(t.Elem())
	return func(d *decoder, i int, v reflect.Value) int {
		if d.data[i] != '{' {
			if d.data[i] == 'n' {
				v.SetZero()
			}
			return d.mismatch(i, v)
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(t))
		}
		decode := decode()
		key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		i, done := d.enter(i, '}')
		for !done {
			_, value, _ := d.key(i)
			if value < 0 {
				return value
			}
			name, _ := d.text(i)
			key.SetString(name)
			elem.SetZero()
			if i = decode(d, value, elem); i < 0 {
				return i
			}
			v.SetMapIndex(key, elem)
			i, done = d.next(i, '}')
		}
		return i
	}
}

// A structDecoder finds fields by name. Keys mostly come in the order of the fields, so the one after the last found is
// tried first.
type structDecoder struct {
	fields []fieldDecoder
	byName map[string]int // for structs with more fields than are quickly looked through
	guess  [64]uint8      // one more than the index of a field whose name has this slot
}

// slot is where a name is looked for first.
func slot[T string | []byte](name T) uint8 {
	return (uint8(len(name))*7 ^ name[0] ^ name[len(name)-1]*5) & 63
}

type fieldDecoder struct {
	field
	decode decodeFunc
}

func newStructDecoder(fields []field) *structDecoder {
	const few = 8
	var s structDecoder
	for _, f := range fields {
		s.fields = append(s.fields, fieldDecoder{f, decoderOf(f.typ)})
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

func (s *structDecoder) decode(d *decoder, i int, v reflect.Value) int {
	if d.data[i] != '{' {
		return d.mismatch(i, v)
	}
	likely := 0
	i, done := d.enter(i, '}')
	for !done {
		end, value, flags := d.key(i)
		if value < 0 {
			return value
		}
		name := d.data[i+1 : end-1]
		if flags != 0 {
			unquoted, _ := d.text(i)
			name = []byte(unquoted)
		}
		if at := s.find(name, likely); at < 0 {
			i = d.skip(value)
		} else {
			likely = at + 1
			f := &s.fields[at]
			i = f.decode(d, value, f.at(v))
		}
		if i < 0 {
			return i
		}
		i, done = d.next(i, '}')
	}
	return i
}
