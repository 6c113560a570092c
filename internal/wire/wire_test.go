package wire

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSyntaxError(t *testing.T) {
	for _, c := range []struct {
		in     string
		offset int
		reason string
	}{
		{``, 0, "unexpected end"},
		{`  `, 2, "unexpected end"},
		{`{"a":1} x`, 8, "text after the value"},
		{`{"a" 1}`, 5, "expected ':'"},
		{`{"a":1 "b"`, 7, "expected ',' or '}'"},
		{`[1 2]`, 3, "expected ',' or ']'"},
		{`[1,]`, 3, "expected a value"},
		{`[1,`, 3, "unexpected end"},
		{`{1:2}`, 1, "expected a key"},
		{`{"a":`, 5, "unexpected end"},
		{`"abc`, 4, "unexpected end"},
		{"\"12345678\n\"", 9, "control character in a string"},
		{`"\q"`, 2, "unknown escape"},
		{`"\u12x4"`, 5, "expected a hex digit"},
		{`"\u12`, 5, "unexpected end"},
		{`trux`, 3, "expected true"},
		{`nul`, 3, "unexpected end"},
		{`-x`, 1, "expected a value"},
		{`1.x`, 2, "expected a digit"},
		{`1e+`, 3, "unexpected end"},
		{`01`, 1, "text after the value"},
		{strings.Repeat("[", 10001), 10000, "nested too deep"},
	} {
		want := &SyntaxError{c.offset, c.reason}
		var d Doc
		var v any
		var s struct{ A int }
		for what, err := range map[string]error{
			"Parse": d.Parse([]byte(c.in)), "Unmarshal": Unmarshal([]byte(c.in), &v), "into a struct": Unmarshal([]byte(c.in), &s),
		} {
			if !reflect.DeepEqual(err, want) {
				t.Errorf("%s %.20q: %v, want %v", what, c.in, err, want)
			}
		}
		if Valid([]byte(c.in)) {
			t.Errorf("%.20q is valid", c.in)
		}
	}
}

func TestTypeError(t *testing.T) {
	type deep struct {
		A []struct {
			B map[string]int `json:"b"`
		} `json:"a"`
		T   time.Time `json:"t"`
		Arr [1]int    `json:"arr"`
		S   string    `json:"s"`
	}
	for in, want := range map[string]string{
		`[]`:                                 "want wire.deep, got array",
		`{"a":[{},{"b":{"c":1.5}}],"s":"x"}`: "field a[1].b.c: want int, got number 1.5",
		`{"s":{},"t":1}`:                     "field s: want string, got object",
		`{"s":"x","t":1}`:                    "field t: want time.Time, got number",
		`{"arr":["x"],"s":"x"}`:              "field arr: want int, got string",
		`{"s":"x","a":[[]]}`:                 `field a[0]: want struct { B map[string]int "json:\"b\"" }, got array`,
		`{"s":"x","t":"1 o'clock"}`:          `field t: parsing time "1 o'clock" as "2006-01-02T15:04:05Z07:00": cannot parse "1 o'clock" as "2006"`,
	} {
		var v deep
		err := Unmarshal([]byte(in), &v)
		if _, ok := errors.AsType[*TypeError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %v", in, err, want)
		}
		if strings.Contains(in, `"s":"x"`) && v.S != "x" {
			t.Errorf("%s: decoding did not go on", in)
		}
	}
	for _, v := range []any{nil, 1, (*int)(nil)} {
		if Unmarshal([]byte("1"), v) == nil {
			t.Errorf("decoded into %T", v)
		}
	}
	if _, ok := errors.AsType[*time.ParseError](Unmarshal([]byte(`{"t":""}`), new(deep))); !ok {
		t.Error("the time's own error is not wrapped")
	}
}

func TestCaseMatters(t *testing.T) {
	var v struct{ Name string }
	if err := Unmarshal([]byte(`{"name":"a","NAME":"b"}`), &v); err != nil || v.Name != "" {
		t.Errorf("%v, %v", v, err)
	}
}

func TestAppend(t *testing.T) {
	nan, text := math.NaN(), "x"
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, `null`},
		{nan, `null`},
		{[]float64{math.Inf(1), 1e21, 1e20, 1e-7, math.Copysign(0, -1), 100, 1.5}, `[null,1e+21,100000000000000000000,1e-7,-0,100,1.5]`},
		{float32(3.4e38), `3.4e+38`},
		{[]float32{1e-6, 1e21, 9.999999e20, 9.9999e-7}, `[0.000001,1e+21,999999900000000000000,9.9999e-7]`},
		{"<&>\u2028\x00\x1f\x7f\"\\/\b\f\n\r\t\xff", `"<&>\u2028\u0000\u001f` + "\x7f" + `\"\\/\b\f\n\r\t\ufffd"`},
		{json.RawMessage("{ \"a\" :\n [ 1 , \" \\\" x\" ] } \n"), `{"a":[1," \" x"]}`},
		{json.RawMessage("not\nJSON"), `"not\nJSON"`},
		{json.RawMessage{}, `null`},
		{map[string]any{"b": 1, "a": "<"}, `{"a":"<","b":1}`},
		{map[int]int{2: 1, 1: 2}, `{"1":2,"2":1}`},
		{[]byte("hi"), `"aGk="`},
		{(*int)(nil), `null`},
		{&text, `"x"`},
		{make(chan int), `null`},
		{struct{ C chan int }{}, `{"C":null}`},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), `null`},
		{time.Date(2026, 8, 22, 10, 11, 12, 345e6, time.UTC), `"2026-08-22T10:11:12.345Z"`},
		{struct {
			A int `json:",string"`
		}{1}, `{"A":"1"}`},
		{struct {
			*inner
			B int
		}{&inner{X: 1}, 2}, `{"x":1,"B":2}`},
		{struct {
			D time.Duration `json:"d,omitzero"`
			T time.Time     `json:"t,omitzero"`
			P *time.Time    `json:"p,omitzero"`
			M struct{}      `json:"m,omitempty"`
		}{}, `{"m":{}}`},
	} {
		if got := string(Append(nil, c.in)); got != c.want {
			t.Errorf("Append(%#v) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for in, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\u00e4\ud83d\ude00\ud83dx\\\/"`: "ä😀\ufffdx\\/", "\"\xff\\n\xe4\"": "\ufffd\n\ufffd",
		"\"a\\nbbbb\xff\\n1234567890\"":                         "a\nbbbb\ufffd\n1234567890",
		`"long enough to take whole words\nand more of them\n"`: "long enough to take whole words\nand more of them\n",
	} {
		if got, ok := Unquote([]byte(in)); !ok || got != want {
			t.Errorf("Unquote(%s) = %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `"`, `a`, `"a`, `"a"b`, ` "a"`, `"\x"`, "1"} {
		if got, ok := Unquote([]byte(in)); ok {
			t.Errorf("Unquote(%s) = %q", in, got)
		}
	}
}

func TestReadTime(t *testing.T) {
	for _, in := range []string{
		"2026-08-22T10:11:12Z", "2026-08-22T10:11:12.3Z", "2026-08-22T10:11:12.345678901Z", "2024-02-29T23:59:59Z",
		"2026-08-22T10:11:12.Z", "2026-08-22T10:11:12.3456789012Z", "2026-13-22T10:11:12Z", "2026-08-22T24:11:12Z",
		"2026-02-29T10:11:12Z", "2026-08-22T10:11:60Z", "2026-08-22T10:11:12+02:00", "2026-08-22t10:11:12Z", "0000-01-01T00:00:00Z",
		"2026-08-22T10:11:12,5Z", "2026-08-00T10:11:12Z", "2026-08-22T1 :11:12Z", "-026-08-22T10:11:12Z", "2026-08-22T10:11:12.-1Z",
	} {
		lit := []byte(`"` + in + `"`)
		var got, want time.Time
		err, wantErr := Unmarshal(lit, &got), json.Unmarshal(lit, &want)
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v, %v", in, got, err, want, wantErr)
		}
	}
}

func TestSpanGet(t *testing.T) {
	const text = `{"a" : 1 , "b":"x\\\"}{", "c":{"a":2,"d":[1,{"e":"]"}]}, "t":true,"n":null , "last":[ ] }`
	var v struct{ V Span }
	if err := Unmarshal([]byte(`{"V":`+text+"}"), &v); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a": "1", "b": `"x\\\"}{"`, "c": `{"a":2,"d":[1,{"e":"]"}]}`, "t": "true", "n": "null", "last": "[ ]", "none": ""} {
		if got := strings.TrimSpace(string(v.V.Get(key))); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
	if got := string(v.V.Get("c").Get("a")); got != "2" {
		t.Errorf("c.a: %s", got)
	}
	for _, s := range []string{"", "1", "[]", "{}", "{ }", `"x"`} {
		if Span(s).Get("a") != nil {
			t.Errorf("%q has no a", s)
		}
	}
}
