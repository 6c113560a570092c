package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
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
	case reflect.TypeFor[Passing]():
		return decodePassing
	case reflect.TypeFor[json.Number]():
		return otherDecoder(t)
	}
	if p, ok := reflect.Zero(t).Interface().(planner); ok {
		return p.plan()
	}
	if readsItself(t) {
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

// readsItself says whether a value of type t has its own way to be read.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Pointer &&
		(p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

// isText says whether stringDecoder reads a value of type t.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String && t != reflect.TypeFor[json.Number]() && !readsItself(t)
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
	fresh := func(*decoder) unsafe.Pointer { return reflect.New(elem).UnsafePointer() }
	switch elem.Kind() { // what counts tokens and money
	case reflect.Int64, reflect.Float64:
		fresh = (*decoder).eightBytes
	}
	return func(d *decoder, i int, p unsafe.Pointer) int {
		to := (*unsafe.Pointer)(p)
		if d.data[i] == 'n' {
			*to = nil
			return d.atom(i)
		}
		if *to == nil {
			*to = fresh(d)
		}
		return decode()(d, i, *to)
	}
}

// eightBytes returns memory for a number. A stream has many that nobody keeps; they are made some at a time.
func (d *decoder) eightBytes() unsafe.Pointer {
	if len(d.numbers) == 0 {
		d.numbers = make([]int64, 16)
	}
	p := &d.numbers[0]
	d.numbers = d.numbers[1:]
	return unsafe.Pointer(p)
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
		decode, n, here := decode(), 0, d.here
		i, done := d.enter(i, ']')
		for ; !done; n++ {
			d.here = here
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
		decode, here := decode(), d.here
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
			d.here = here
			if i = decode(d, value, elem.UnsafePointer()); i < 0 {
				return i
			}
			v.SetMapIndex(key, elem.Elem())
			i, done = d.next(i, '}')
		}
		return i
	}
}
