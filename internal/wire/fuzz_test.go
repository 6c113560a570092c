package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type name string

type inner struct {
	X int     `json:"x"`
	Y string  `json:"y,omitempty"`
	Z []inner `json:"z,omitzero"`
}

type base struct {
	Base string `json:"base"`
	Hid  int    `json:"hid"`
}

// every has a field of every type there is support for, and of some that are left to encoding/json.
type every struct {
	base
	Hid   string                     `json:"hid"`
	S     string                     `json:"s"`
	N     name                       `json:"n,omitempty"`
	B     bool                       `json:"b"`
	I     int                        `json:"i"`
	I8    int8                       `json:"i8,omitempty"`
	I64   int64                      `json:"i64"`
	U     uint                       `json:"u"`
	U16   uint16                     `json:"u16"`
	F     float64                    `json:"f"`
	F32   float32                    `json:"f32,omitzero"`
	P     *int                       `json:"p"`
	PP    **string                   `json:"pp,omitempty"`
	Ptr   *inner                     `json:"ptr,omitempty"`
	In    inner                      `json:"in"`
	L     []string                   `json:"l"`
	LI    []inner                    `json:"li,omitempty"`
	LL    [][]int                    `json:"ll"`
	M     map[string]int             `json:"m"`
	MN    map[name]*inner            `json:"mn,omitempty"`
	T     time.Time                  `json:"t"`
	TZ    time.Time                  `json:"tz,omitzero"`
	TP    *time.Time                 `json:"tp"`
	Raw   json.RawMessage            `json:"raw"`
	RawP  *json.RawMessage           `json:"rawp"`
	RawM  map[string]json.RawMessage `json:"rawm"`
	Any   any                        `json:"any"`
	Arr   [2]int                     `json:"arr"`
	Bytes []byte                     `json:"bytes"`
	Num   json.Number                `json:"num"`
	Skip  int                        `json:"-"`
	Plain int
	Next  *every `json:"next,omitempty"`
}

var seeds = []string{
	``, ` `, `null`, `true`, `fals`, `0`, `-`, `-0`, `01`, `1.`, `1.5e+3`, `1e`, `"`, `""`, `"a\`, `"\x"`, `"\u12"`,
	`{}`, `[]`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[`, `{`, `]`, "\"\x01\"", "\"\x7f\"", "\"\xff\"", "[\"\xc3\",\"\xc3\xa4\"]",
	` [ 1 , 2 ] `, "\xef\xbb\xbf1", `{"a":{"b":[1,2,{"c":null}]}}x`, `"` + strings.Repeat("ä", 9) + `\n\ud83d\ude00\ud83d\u0041"`,
	`{"s":"some text that is longer than a word","n":"nn","b":true,"i":-12,"i8":127,"i64":9223372036854775807,"u":3}`,
	`{"i":1.5,"i8":128,"u":-1,"u16":65536,"f":1e999,"f32":1e39,"s":1,"b":"x","l":{},"m":[],"in":3,"ptr":"x","t":1}`,
	`{"f":1.25e-7,"f32":3.4e38,"p":1,"pp":"x","ptr":{"x":1,"z":[{"x":2},{"y":"q"}]},"in":{"x":1,"y":"\u00e4"}}`,
	`{"l":["a",null,"\n"],"li":[{"x":1},{}],"ll":[[],[1,2],null],"m":{"a":1,"b":null},"mn":{"k":{"x":1},"n":null}}`,
	`{"t":"2026-08-22T10:11:12.345Z","tz":"2024-02-29T00:00:00+02:00","tp":"2026-01-31T23:59:59Z"}`,
	`{"raw":{ "a" : [1] },"rawp":null,"rawm":{"a":1, "b":"x\ty"},"any":{"a":[1,"b",null]},"arr":[1,2,3]}`,
	`{"bytes":"aGk=","num":12,"Plain":3,"Skip":4,"-":5,"next":{"s":"deep","next":{}},"base":"b","hid":"h","unknown":[{}]}`,
	`{"s":null,"b":null,"i":null,"p":null,"ptr":null,"l":null,"m":null,"t":null,"raw":null,"any":null,"num":null}`,
	`{"li":[{"x":1},{"x":2}],"li":[{}],"li":[{},{}],"m":{"a":1},"m":{"b":2},"ptr":{"x":1},"ptr":{"y":"2"},"s":"1","s":"2"}`,
	`{"\u0073":"escaped key","t":"2026-02-30T00:00:00Z"}`, `{"m":{"a":"x","\ud800":1,"\udc00":2}}`,
}

func seed(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
}

func FuzzValid(f *testing.F) {
	seed(f)
	f.Fuzz(checkValid)
}

func checkValid(t *testing.T, data []byte) {
	want := json.Valid(data)
	if got := Valid(data); got != want {
		t.Fatalf("Valid(%q) = %v, want %v", data, got, want)
	}
	var d Doc
	if err := d.Parse(data); (err == nil) != want {
		t.Fatalf("Parse(%q) = %v, want valid %v", data, err, want)
	}
	out := AppendRaw(nil, data)
	if !want {
		var s string
		if err := json.Unmarshal(out, &s); len(data) > 0 && (err != nil || s != string([]rune(string(data)))) {
			t.Fatalf("AppendRaw(%q) = %q", data, out)
		}
		return
	}
	var b bytes.Buffer
	json.Compact(&b, data)
	if whole := bytes.ToValidUTF8(b.Bytes(), []byte("\ufffd")); !bytes.Equal(out, whole) {
		t.Fatalf("AppendRaw(%q) = %q, want %q", data, out, whole)
	}
}

func FuzzUnmarshal(f *testing.F) {
	seed(f)
	f.Fuzz(checkUnmarshal)
}

func checkUnmarshal(t *testing.T, data []byte) {
	if foldedKeys(data) {
		return // encoding/json does not mind the case
	}
	// Twice, as decoding into what is already there has rules of its own.
	var got, want every
	for range 2 {
		err, wantErr := Unmarshal(data, &got), json.Unmarshal(data, &want)
		switch wantErr.(type) {
		case nil:
			if err != nil {
				t.Fatalf("Unmarshal(%q): %v", data, err)
			}
		case *json.SyntaxError:
			if _, ok := errors.AsType[*SyntaxError](err); !ok {
				t.Fatalf("Unmarshal(%q): %v, want %v", data, err, wantErr)
			}
			return
		case *json.UnmarshalTypeError:
			if _, ok := errors.AsType[*TypeError](err); !ok {
				t.Fatalf("Unmarshal(%q): %v, want %v", data, err, wantErr)
			}
		default: // a type's own reader: encoding/json stops there
			if err == nil {
				t.Fatalf("Unmarshal(%q): no error, want %v", data, wantErr)
			}
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Unmarshal(%q)\n got %s\nwant %s", data, Append(nil, got), Append(nil, want))
		}
	}
	got, want = every{}, every{}
	_ = json.Unmarshal(data, &want)
	if _ = habitual.Read(data, &got); !reflect.DeepEqual(got, want) { // by the habits of all that was read before
		t.Fatalf("Read(%q)\n got %s\nwant %s", data, Append(nil, got), Append(nil, want))
	}
}

var habitual = NewReader[every](Everything)

// foldedKeys says whether some key is a field's name but for the case.
func foldedKeys(data []byte) bool {
	var d Doc
	if d.Parse(data) != nil {
		return false
	}
	names := []string{"base", "hid", "x", "y", "z"}
	for sf := range reflect.TypeFor[every]().Fields() {
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		names = append(names, name, sf.Name)
	}
	for _, n := range d.nodes {
		if n.kind != String {
			continue
		}
		key := d.text(n)
		for _, name := range names {
			if name != key && strings.EqualFold(name, key) {
				return true
			}
		}
	}
	return false
}

func FuzzAppend(f *testing.F) {
	seed(f)
	f.Fuzz(checkAppend)
}

func checkAppend(t *testing.T, data []byte) {
	text := string(data)
	if got, want := AppendString(nil, text), std(text); string(got) != want {
		t.Fatalf("AppendString(%q) = %s, want %s", text, got, want)
	}
	var v every
	if err := json.Unmarshal(data, &v); err != nil {
		text = strings.ToValidUTF8(text, "") // else it is another text when it comes back
		v = every{S: text, N: name(text), L: []string{text}, M: map[string]int{text: len(text), "b": 1, "a": 2}, Num: "1"}
		for i, c := range data {
			v.F, v.F32 = math.Mod(v.F*1000, 1e30)+float64(c)/7, float32(math.Ldexp(float64(c), i%128-64))
			v.I = v.I*31 + int(c)
		}
	}
	want := std(v)
	if want == "" {
		return // a time, say, that has no JSON
	}
	want = strings.ToValidUTF8(want, "\ufffd") // encoding/json lets a RawMessage be what it is
	if got := Append(nil, v); string(got) != want {
		t.Fatalf("Append\n got %s\nwant %s", got, want)
	}
	got := Append([]byte("x"), &v)
	if string(got[1:]) != want {
		t.Fatalf("Append\n got %s\nwant %s", got, want)
	}
	var again every
	if err := Unmarshal(got[1:], &again); err != nil {
		t.Fatalf("round trip of %s: %v", got, err)
	}
	if third := Append(nil, again); string(third) != want {
		t.Fatalf("round trip\n got %s\nwant %s", third, want)
	}
}

// std is what encoding/json writes, if it can.
func std(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func FuzzDoc(f *testing.F) {
	seed(f)
	f.Fuzz(checkDoc)
}

func checkDoc(t *testing.T, data []byte) {
	var d Doc
	if d.Parse(data) != nil {
		if d.Root().Kind() != Absent {
			t.Fatal("a root after an error")
		}
		return
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		t.Fatalf("Parse(%q) accepts, encoding/json says %v", data, err)
	}
	doubled := false
	if got := build(t, d.Root(), &doubled); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\n got %#v\nwant %#v", data, got, want)
	}
	key, offset, ok := d.Doubled()
	if ok != doubled {
		t.Fatalf("%q: doubled %q %v, want %v", data, key, ok, doubled)
	}
	if ok && data[offset] != '"' {
		t.Fatalf("%q: doubled key %q is not at %d", data, key, offset)
	}
	if at, bad := d.InvalidUTF8(); bad != !bytes.Equal(data, bytes.ToValidUTF8(data, nil)) || bad && data[at] < 0x80 {
		t.Fatalf("%q: invalid %v at %d", data, bad, at)
	}
}

// build makes of n what encoding/json makes of it.
func build(t *testing.T, n Node, doubled *bool) any {
	switch n.Kind() {
	case Bool:
		b, _ := n.Bool()
		return b
	case Number:
		if i, ok := n.Int(); ok {
			if f, _ := n.Float(); f != float64(i) {
				t.Fatalf("%s is %d and %v", n.Raw(), i, f)
			}
		}
		return json.Number(n.Raw())
	case String:
		if !n.Is(n.Text()) || n.Is(n.Text()+"x") {
			t.Fatalf("%s is not itself", n.Raw())
		}
		return n.Text()
	case Array:
		a := []any{}
		for _, v := range n.All() {
			a = append(a, build(t, v, doubled))
		}
		if len(a) != n.Len() {
			t.Fatalf("%s has %d elements, not %d", n.Raw(), len(a), n.Len())
		}
		return a
	case Object:
		o, last, count := map[string]any{}, map[string]int{}, 0
		for key, v := range n.All() {
			o[key], last[key] = build(t, v, doubled), v.Offset()
			count++
		}
		if count != n.Len() {
			t.Fatalf("%s has %d members, not %d", n.Raw(), count, n.Len())
		}
		*doubled = *doubled || len(o) < count
		for key, offset := range last {
			if v := n.Get(key); v.Offset() != offset {
				t.Fatalf("%s: Get(%q) = %s", n.Raw(), key, v.Raw())
			}
		}
		return o
	}
	return nil
}
