package wire

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Append appends v as compact JSON: the bytes encoding/json writes of a pointer to v when it does not escape for HTML. What
// has no JSON, as NaN, is null. A v that contains itself never ends.
func Append(dst []byte, v any) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	e := encoderFor(&v)
	if e.direct {
		p := dataOf(&v)
		return e.encode(dst, unsafe.Pointer(&p))
	}
	return e.encode(dst, dataOf(&v))
}

// dataOf is what an interface has beside the type: the address of its value; or, in the place of the address, a value that is
// one itself, as pointers and maps are.
func dataOf(v *any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(v))[1] }

// An encodeFunc appends the value at p.
type encodeFunc func(dst []byte, p unsafe.Pointer) []byte

// An encoder encodes values of a type.
type encoder struct {
	encode encodeFunc
	direct bool // the type is a pointer, or holds nothing but one
}

// How to encode a type is found out once.
var encoders sync.Map // reflect.Type to *encoder

func encoderOf(t reflect.Type) *encoder {
	if e, ok := encoders.Load(t); ok {
		return e.(*encoder)
	}
	e, _ := encoders.LoadOrStore(t, &encoder{newEncoder(t), isDirect(t)})
	return e.(*encoder)
}

// encoderFor is encoderOf for the type of a value. What is encoded a million times is found without a map.
func encoderFor(v *any) *encoder {
	t := (*[2]uintptr)(unsafe.Pointer(v))[0] // the type's address, which stays
	place := &recentEncoders[t>>6%uintptr(len(recentEncoders))]
	if r := place.Load(); r != nil && r.t == t {
		return r.e
	}
	e := encoderOf(reflect.TypeOf(*v))
	place.Store(&recentEncoder{t, e})
	return e
}

type recentEncoder struct {
	t uintptr
	e *encoder
}

var recentEncoders [64]atomic.Pointer[recentEncoder]

// isDirect says whether an interface has values of a type in the place of their address: then its zero value has none.
func isDirect(t reflect.Type) bool {
	zero := reflect.Zero(t).Interface()
	return dataOf(&zero) == nil
}

func newEncoder(t reflect.Type) encodeFunc {
	switch t {
	case reflect.TypeFor[time.Time]():
		return encodeTime
	case reflect.TypeFor[json.RawMessage]():
		return func(dst []byte, p unsafe.Pointer) []byte { return AppendRaw(dst, *(*[]byte)(p)) }
	case reflect.TypeFor[JSON]():
		return func(dst []byte, p unsafe.Pointer) []byte { return append(dst, *(*[]byte)(p)...) }
	case reflect.TypeFor[json.Number]():
		return otherEncoder(t)
	}
	if p := reflect.PointerTo(t); t.Kind() != reflect.Pointer &&
		(p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())) {
		return otherEncoder(t)
	}
	switch t.Kind() {
	case reflect.String:
		return func(dst []byte, p unsafe.Pointer) []byte { return AppendString(dst, *(*string)(p)) }
	case reflect.Bool:
		return func(dst []byte, p unsafe.Pointer) []byte { return strconv.AppendBool(dst, *(*bool)(p)) }
	case reflect.Int64:
		return func(dst []byte, p unsafe.Pointer) []byte { return strconv.AppendInt(dst, *(*int64)(p), 10) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		return func(dst []byte, p unsafe.Pointer) []byte { return strconv.AppendInt(dst, valueAt(t, p).Int(), 10) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(dst []byte, p unsafe.Pointer) []byte { return strconv.AppendUint(dst, valueAt(t, p).Uint(), 10) }
	case reflect.Float32, reflect.Float64:
		return func(dst []byte, p unsafe.Pointer) []byte { return appendFloat(dst, valueAt(t, p).Float(), t.Bits()) }
	case reflect.Pointer:
		return pointerEncoder(t)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // those are base64
			return sliceEncoder(t)
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapEncoder(t)
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return structEncoder(t, fields)
		}
	}
	return otherEncoder(t)
}

// valueAt is the value of type t at p, which has an address.
func valueAt(t reflect.Type, p unsafe.Pointer) reflect.Value { return reflect.NewAt(t, p).Elem() }

// appendFloat writes a number as JavaScript does: an exponent only for the very small and the very large.
func appendFloat(dst []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	small, large := 1e-6, 1e21
	a := math.Abs(f)
	if bits == 32 {
		small, large, a = float64(float32(small)), float64(float32(large)), float64(float32(a))
	}
	if a == 0 || small <= a && a < large {
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	if n := len(dst); string(dst[n-4:n-1]) == "e-0" {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

func encodeTime(dst []byte, p unsafe.Pointer) []byte {
	from := len(dst)
	dst, err := (*time.Time)(p).AppendText(append(dst, '"'))
	if err != nil {
		return append(dst[:from], "null"...)
	}
	return append(dst, '"')
}

// otherEncoder leaves values to their own MarshalJSON or to encoding/json, by their address, as some methods are only there.
func otherEncoder(t reflect.Type) encodeFunc {
	return func(dst []byte, p unsafe.Pointer) []byte {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if e.Encode(reflect.NewAt(t, p).Interface()) != nil {
			return append(dst, "null"...)
		}
		return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
	}
}

// lazilyEncode is [lazily] the other way.
func lazilyEncode(t reflect.Type) func() encodeFunc {
	if t.Kind() < reflect.Array || t.Kind() == reflect.String {
		f := encoderOf(t).encode
		return func() encodeFunc { return f }
	}
	return sync.OnceValue(func() encodeFunc { return encoderOf(t).encode })
}

func pointerEncoder(t reflect.Type) encodeFunc {
	encode := lazilyEncode(t.Elem())
	return func(dst []byte, p unsafe.Pointer) []byte {
		to := *(*unsafe.Pointer)(p)
		if to == nil {
			return append(dst, "null"...)
		}
		return encode()(dst, to)
	}
}

func sliceEncoder(t reflect.Type) encodeFunc {
	encode, size := lazilyEncode(t.Elem()), t.Elem().Size()
	return func(dst []byte, p unsafe.Pointer) []byte {
		v := valueAt(t, p)
		if v.IsNil() {
			return append(dst, "null"...)
		}
		encode, first := encode(), v.UnsafePointer()
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = encode(dst, unsafe.Add(first, uintptr(i)*size))
		}
		return append(dst, ']')
	}
}

func mapEncoder(t reflect.Type) encodeFunc {
	type member struct {
		key string
		v   reflect.Value // a pointer
	}
	encode, elem := lazilyEncode(t.Elem()), t.Elem()
	return func(dst []byte, p unsafe.Pointer) []byte {
		m := valueAt(t, p)
		if m.IsNil() {
			return append(dst, "null"...)
		}
		encode := encode()
		members := make([]member, 0, m.Len())
		for key, v := range m.Seq2() {
			box := reflect.New(elem)
			box.Elem().Set(v)
			members = append(members, member{key.String(), box})
		}
		slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
		dst = append(dst, '{')
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, m.key), ':')
			dst = encode(dst, m.v.UnsafePointer())
		}
		return append(dst, '}')
	}
}

func structEncoder(t reflect.Type, fields []field) encodeFunc {
	type fieldEncoder struct {
		label  string // the comma before, the name and the colon
		offset uintptr
		encode encodeFunc
		omit   func(unsafe.Pointer) bool // nil: never
	}
	var all []fieldEncoder
	for _, f := range fields {
		label := string(AppendString([]byte(","), f.name)) + ":"
		all = append(all, fieldEncoder{label, f.offset(t), encoderOf(f.typ).encode, f.omitter()})
	}
	return func(dst []byte, p unsafe.Pointer) []byte {
		from := len(dst)
		for i := range all {
			f := &all[i]
			inner := unsafe.Add(p, f.offset)
			if f.omit == nil || !f.omit(inner) {
				dst = f.encode(append(dst, f.label...), inner)
			}
		}
		if len(dst) == from {
			return append(dst, "{}"...)
		}
		dst[from] = '{' // where the first comma stands
		return append(dst, '}')
	}
}
