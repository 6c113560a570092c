package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestRandom holds the package to encoding/json with texts that are nearly always JSON and nearly always fit: fuzzing
// alone seldom gets that far.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 5000
	if testing.Short() {
		n = 500
	}
	for range n {
		var b strings.Builder
		randomStruct(r, &b, reflect.TypeFor[every](), 4)
		data := []byte(b.String())
		for range r.IntN(3) - 1 { // now and then one byte is wrong
			data[r.IntN(len(data))] = `{}[]:,"\ 01.eu`[r.IntN(14)]
		}
		checkValid(t, data)
		checkUnmarshal(t, data)
		checkAppend(t, data)
		checkDoc(t, data)
	}
}

// randomValue writes a value for a field of type t, seldom of another type.
func randomValue(r *rand.Rand, b *strings.Builder, t reflect.Type, depth int) {
	if depth == 0 {
		b.WriteString("null")
		return
	}
	pick := func(from ...string) { b.WriteString(from[r.IntN(len(from))]) }
	if r.IntN(20) == 0 {
		pick("null", "true", "1", "-0", "1.5", "1e400", `"x"`, "[]", "{}", `[1,{"a":2}]`, `{"x":[1]}`)
		return
	}
	if t.String() == "time.Time" {
		pick(`"2026-08-22T10:11:12.345Z"`, `"2024-02-29T00:00:00Z"`, `"2026-08-22T10:11:12.1234+05:30"`, `"0001-01-01T00:00:00Z"`)
		return
	}
	switch t.Kind() {
	case reflect.String:
		pick(`"short"`, `""`, `"1"`, `"12345678"`, `"a longer one, with \"quotes\" and\nlines"`, `"ä€😀 and ASCII"`, "\"bad \xff\xe2\x82 bytes\"",
			`"\ud83d\ude00\ud83d\ud83d\ude00\u0000"`, `"\u2028`+"\u2028"+`"`, `"`+strings.Repeat("long ", r.IntN(9))+`\\"`)
	case reflect.Bool:
		pick("true", "false")
	case reflect.Pointer:
		randomValue(r, b, t.Elem(), depth)
	case reflect.Struct:
		randomStruct(r, b, t, depth-1)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			pick(`"aGk="`, `""`, `"aGk"`)
			return
		}
		b.WriteString("[")
		for i := range r.IntN(4) {
			if i > 0 {
				pick(",", ", ", "\n,")
			}
			randomValue(r, b, t.Elem(), depth-1)
		}
		b.WriteString("]")
	case reflect.Map:
		b.WriteString("{")
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(",")
			}
			pick(`"k":`, `"kk" : `, `"":`, `"\u006b":`, "\"\xff\":", "\"\xfe\":")
			randomValue(r, b, t.Elem(), depth-1)
		}
		b.WriteString("}")
	case reflect.Interface:
		pick(`{"any":[1,2.5,"\n"]}`, `"text"`, "12", "null")
	default:
		fmt.Fprint(b, []any{r.IntN(200), -r.IntN(100), r.Int64(), r.Uint64(), r.NormFloat64(), "1.5e3", "-0.0", "1E-7", "3e38"}[r.IntN(9)])
	}
}

func randomStruct(r *rand.Rand, b *strings.Builder, t reflect.Type, depth int) {
	b.WriteString("{")
	fields, _ := fieldsOf(t)
	many := r.IntN(6)
	for i := range many {
		if i > 0 {
			b.WriteString(",")
		}
		f := fields[r.IntN(len(fields))]
		if r.IntN(10) == 0 {
			b.WriteString(`"other":`)
		} else {
			fmt.Fprintf(b, "%q: ", f.name)
		}
		randomValue(r, b, f.typ, depth)
	}
	b.WriteString("}")
}

func TestDeep(t *testing.T) {
	for _, depth := range []int{9999, 10000, 10001, 200000} {
		checkValid(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
		checkValid(t, []byte(strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
		checkUnmarshal(t, []byte(`{"any":`+strings.Repeat("[", depth-1)+strings.Repeat("]", depth-1)+"}"))
		checkUnmarshal(t, []byte(strings.Repeat(`{"next":`, depth)+"{}"+strings.Repeat("}", depth)))
		checkUnmarshal(t, []byte(strings.Repeat(`{"no":`, depth)+"{}"+strings.Repeat("}", depth)))
	}
}
