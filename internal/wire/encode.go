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
	"time"
)

// Append appends v as compact JSON: the bytes encoding/json writes when it does not escape for HTML. What has no JSON,
// as NaN, is null. A v that contains itself never ends.
func Append(dst []byte, v any) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	r := reflect.ValueOf(v)
	return encoderOf(r.Type())(dst, r)
}

// An encodeFunc appends v.
type encodeFunc func(dst []byte, v reflect.Value) []byte

// How to encode a type is found out once.
var encoders sync.Map // reflect.Type to encodeFunc

func encoderOf(t reflect.Type) encodeFunc {
	if f, ok := encoders.Load(t); ok {
		return f.(encodeFunc)
	}
	f, _ := encoders.LoadOrStore(t, newEncoder(t))
	return f.(encodeFunc)
}

func newEncoder(t reflect.Type) encodeFunc {
	switch t {
	case reflect.TypeFor[time.Time]():
		return encodeTime
	case reflect.TypeFor[json.RawMessage]():
		return func(dst []byte, v reflect.Value) []byte { return AppendRaw(dst, v.Bytes()) }
	case reflect.TypeFor[JSON]():
		return func(dst []byte, v reflect.Value) []byte { return append(dst, v.Bytes()...) }
	case reflect.TypeFor[json.Number]():
		return encodeOther
	}
	if p := reflect.PointerTo(t); t.Kind() != reflect.Pointer &&
		(p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())) {
		return encodeOther
	}
	switch t.Kind() {
	case reflect.String:
		return func(dst []byte, v reflect.Value) []byte { return AppendString(dst, v.String()) }
	case reflect.Bool:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendBool(dst, v.Bool()) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendInt(dst, v.Int(), 10) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendUint(dst, v.Uint(), 10) }
	case reflect.Float32, reflect.Float64:
		return func(dst []byte, v reflect.Value) []byte { return appendFloat(dst, v.Float(), t.Bits()) }
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
			return structEncoder(fields)
		}
	}
	return encodeOther
}

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

func encodeTime(dst []byte, v reflect.Value) []byte {
	t, _ := reflect.TypeAssert[time.Time](v)
	from := len(dst)
	dst, err := t.AppendText(append(dst, '"'))
	if err != nil {
		return append(dst[:from], "null"...)
	}
	return append(dst, '"')
}

// encodeOther leaves the value to its own MarshalJSON or to encoding/json, by its address if it has one, as some methods
// are only there.
func encodeOther(dst []byte, v reflect.Value) []byte {
	if v.CanAddr() {
		v = v.Addr()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v.Interface()) != nil {
		return append(dst, "null"...)
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// lazilyEncode is [lazily] the other way.
func lazilyEncode(t reflect.Type) func() encodeFunc {
	return sync.OnceValue(func() encodeFunc { return encoderOf(t) })
}

func pointerEncoder(t reflect.Type) encodeFunc {
	encode := lazilyEncode(t.Elem())
	return func(dst []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return encode()(dst, v.Elem())
	}
}

func sliceEncoder(t reflect.Type) encodeFunc {
	encode := lazilyEncode(t.Elem())
	return func(dst []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(dst, "null"...)
		}
		encode := encode()
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = encode(dst, v.Index(i))
		}
		return append(dst, ']')
	}
}

func mapEncoder(t reflect.Type) encodeFunc {
	type member struct {
		key string
		v   reflect.Value
	}
	encode := lazilyEncode(t.Elem())
	return func(dst []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(dst, "null"...)
		}
		encode := encode()
		members := make([]member, 0, v.Len())
		for key, v := range v.Seq2() {
			members = append(members, member{key.String(), v})
		}
		slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
		dst = append(dst, '{')
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, m.key), ':')
			dst = encode(dst, m.v)
		}
		return append(dst, '}')
	}
}

func structEncoder(fields []field) encodeFunc {
	type fieldEncoder struct {
		field
		label  string // the comma before, the name and the colon
		encode encodeFunc
		zero   func(reflect.Value) bool
	}
	var all []fieldEncoder
	for _, f := range fields {
		label := string(AppendString([]byte(","), f.name)) + ":"
		all = append(all, fieldEncoder{f, label, encoderOf(f.typ), zeroTest(f.typ)})
	}
	return func(dst []byte, v reflect.Value) []byte {
		from := len(dst)
		for i := range all {
			f := &all[i]
			inner := f.at(v)
			if f.omitEmpty && empty(inner) || f.omitZero && f.zero(inner) {
				continue
			}
			dst = f.encode(append(dst, f.label...), inner)
		}
		if len(dst) == from {
			return append(dst, "{}"...)
		}
		dst[from] = '{' // where the first comma stands
		return append(dst, '}')
	}
}
