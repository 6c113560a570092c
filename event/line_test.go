package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/internal/wire"
)

func TestSamplesRoundTrip(t *testing.T) {
	for _, e := range Samples() {
		raw := Append(nil, e)
		var p Parser
		var fast Line
		if !p.fast(&fast, raw) {
			t.Fatalf("the fast path does not take %s", raw)
		}
		slow, err := parseSlow(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if fast.Header != slow.Header || !bytes.Equal(fast.body, slow.body) || fast.Header != e.Header {
			t.Errorf("%s: fast %+v, slow %+v", raw, fast.Header, slow.Header)
		}
		got, err := fast.Event()
		if diff := cmp.Diff(e, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", raw, err, diff)
		}
		if again := Append(nil, got); !bytes.Equal(raw, again) {
			t.Errorf("%s became %s", raw, again)
		}
	}
}

// The codec of bodies says what encoding/json says.
func TestCodec(t *testing.T) {
	for _, e := range Samples() {
		if _, ok := e.Body.(Unknown); ok {
			continue
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e.Body); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSuffix(b.String(), "\n")
		if got := string(wire.Append(nil, e.Body)); got != want {
			t.Errorf("%s: wrote %s, want %s", e.Kind, got, want)
		}
		std := reflect.New(reflect.TypeOf(e.Body))
		if err := json.Unmarshal([]byte(want), std.Interface()); err != nil {
			t.Fatal(err)
		}
		got, err := decode(e.Kind, []byte(want))
		if diff := cmp.Diff(std.Elem().Interface(), any(got)); diff != "" || err != nil {
			t.Errorf("%s: %v %s", e.Kind, err, diff)
		}
	}
}

// Every field of every kind is said in a sample, so that encoders and documents see it.
func TestSamplesSayEverything(t *testing.T) {
	said := map[string]bool{}
	bodies := map[Kind]bool{}
	samples := Samples()
	for i, e := range samples {
		if e.Seq != uint64(i+1) {
			t.Errorf("sample %d has number %d", i+1, e.Seq)
		}
		bodies[e.Kind] = true
		visit(reflect.ValueOf(e.Body), string(e.Kind), func(path string, v reflect.Value) { said[path] = said[path] || !v.IsZero() })
	}
	if _, ok := samples[len(samples)-1].Body.(Unknown); !ok {
		t.Error("the last sample is not of a kind that nobody knows")
	}
	known := map[Kind]bool{}
	for _, b := range Kinds() {
		if known[b.Kind()] {
			t.Errorf("two kinds are called %s", b.Kind())
		}
		known[b.Kind()] = true
		if !bodies[b.Kind()] {
			t.Errorf("no sample of %s", b.Kind())
		}
		visit(reflect.ValueOf(b), string(b.Kind()), func(path string, _ reflect.Value) {
			if !said[path] {
				t.Errorf("no sample says %s", path)
			}
		})
	}
	for _, e := range samples[:len(samples)-1] {
		if !known[e.Kind] {
			t.Errorf("%s is not in the table of kinds", e.Kind)
		}
	}
}

// visit calls f for each field in v, also of structs behind pointers and in slices.
func visit(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		visit(v.Elem(), path, f)
	case v.Kind() == reflect.Slice && v.Type() != reflect.TypeFor[Raw]():
		for i := range v.Len() {
			visit(v.Index(i), path, f)
		}
		if v.Len() == 0 {
			visit(reflect.Zero(v.Type().Elem()), path, f)
		}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			f(name, v.Field(i))
			visit(v.Field(i), name, f)
		}
	}
}

// Inferred knows every body that has such a field.
func TestInferred(t *testing.T) {
	for _, b := range Kinds() {
		v := reflect.New(reflect.TypeOf(b)).Elem()
		f := v.FieldByName("Inferred")
		if Inferred(b) {
			t.Errorf("an empty %s is inferred", b.Kind())
		}
		if !f.IsValid() {
			continue
		}
		f.SetBool(true)
		if !Inferred(v.Interface().(Body)) {
			t.Errorf("%s: Inferred does not know it", b.Kind())
		}
	}
}

func TestParse(t *testing.T) {
	at := time.Date(2026, 8, 22, 10, 11, 12, 345e6, time.UTC)
	tests := []struct {
		name, line string
		want       Event
		err        string // or part of one
	}{
		{"least", `{"kind":"x","body":{}}`, Event{Header{Kind: "x"}, Unknown{"x", Raw("{}")}}, ""},
		{"all", `{"seq":17,"at":"2026-08-22T10:11:12.345Z","session":"s","agent":"a/b","call":"c","of":9,"kind":"tool.output","body":{"text":"t"}}`,
			Event{Header{17, at, "s", "a/b", "c", 9, "tool.output"}, ToolOutput{"t"}}, ""},
		{"any order", `{"body":{"text":"t"},"of":9,"kind":"tool.output","call":"c","agent":"a/b","session":"s","at":"2026-08-22T12:11:12.345+02:00","seq":17}`,
			Event{Header{17, at, "s", "a/b", "c", 9, "tool.output"}, ToolOutput{"t"}}, ""},
		{"spaces", " { \"seq\" : 17 , \"kind\" : \"tool.output\" ,\t\"body\" : { \"text\" : \"t\" } } ", Event{Header{Seq: 17, Kind: "tool.output"}, ToolOutput{"t"}}, ""},
		{"escapes", `{"session":"\u00e9","kind":"tool\u002eoutput","body":{"text":"\ud83d\ude00"}}`, Event{Header{Session: "é", Kind: "tool.output"}, ToolOutput{"😀"}}, ""},
		{"not ASCII", `{"session":"é","kind":"ü","body":{}}`, Event{Header{Session: "é", Kind: "ü"}, Unknown{"ü", Raw("{}")}}, ""},
		{"empty strings", `{"session":"","kind":"diag","body":{"text":""}}`, Event{Header{Kind: "diag"}, Diag{}}, ""},
		{"keys after the body are not the header's", `{"kind":"diag","body":{"text":"a"},"seq":7,"kind":"x"}`, Event{Header{Kind: "diag"}, Diag{Text: "a"}}, ""},
		{"an object after the body", `{"kind":"diag","body":{"text":"a"},"more":{}}`, Event{Header{Kind: "diag"}, Diag{Text: "a"}}, ""},
		{"unknown header", `{"seq":1,"trace":"t","kind":"diag","body":{"text":"a"}}`, Event{Header{Seq: 1, Kind: "diag"}, Diag{Text: "a"}}, ""},
		{"unknown fields", `{"kind":"diag","body":{"text":"a","more":[1]}}`, Event{Header{Kind: "diag"}, Diag{Text: "a"}}, ""},
		{"seq 0", `{"seq":0,"kind":"x","body":{}}`, Event{Header{Kind: "x"}, Unknown{"x", Raw("{}")}}, ""},
		{"seq in other words", `{"seq":1.7e1,"kind":"x","body":{}}`, Event{Header{Seq: 17, Kind: "x"}, Unknown{"x", Raw("{}")}}, ""},
		{"seq large", `{"seq":9223372036854775807,"kind":"x","body":{}}`, Event{Header{Seq: 1<<63 - 1, Kind: "x"}, Unknown{"x", Raw("{}")}}, ""},
		{"seq too large", `{"seq":9223372036854775808,"kind":"x","body":{}}`, Event{}, "seq is not a whole number"},
		{"seq negative", `{"seq":-1,"kind":"x","body":{}}`, Event{}, "seq is not a whole number"},
		{"seq in part", `{"seq":1.5,"kind":"x","body":{}}`, Event{}, "seq is not a whole number"},
		{"seq a string", `{"seq":"1","kind":"x","body":{}}`, Event{}, "seq is not a whole number"},
		{"of null", `{"of":null,"kind":"x","body":{}}`, Event{}, "of is not a whole number"},
		{"at a number", `{"at":1,"kind":"x","body":{}}`, Event{}, "at is not an RFC 3339 time"},
		{"at wrong", `{"at":"2026-02-30T10:11:12.345Z","kind":"x","body":{}}`, Event{}, "at is not an RFC 3339 time"},
		{"at leap day", `{"at":"2028-02-29T23:59:59.000Z","kind":"x","body":{}}`, Event{Header{At: time.Date(2028, 2, 29, 23, 59, 59, 0, time.UTC), Kind: "x"}, Unknown{"x", Raw("{}")}}, ""},
		{"session not a string", `{"session":1,"kind":"x","body":{}}`, Event{}, "session is not a string"},
		{"no kind", `{"body":{}}`, Event{}, "no kind"},
		{"empty kind", `{"kind":"","body":{}}`, Event{}, "no kind"},
		{"kind not a string", `{"kind":1,"body":{}}`, Event{}, "kind is not a string"},
		{"no body", `{"kind":"x"}`, Event{}, "no body"},
		{"body not an object", `{"kind":"x","body":[{}]}`, Event{}, "body is not an object"},
		{"body null", `{"kind":"x","body":null}`, Event{}, "body is not an object"},
		{"not an object", `[]`, Event{}, "not a JSON object"},
		{"not JSON", `{"kind":"x"`, Event{}, "invalid JSON"},
		{"nothing", ``, Event{}, "invalid JSON"},
		{"torn in the body", `{"kind":"diag","body":{"text":"}}`, Event{}, "invalid JSON"},
		{"body broken", `{"kind":"x","body":{"a":}}`, Event{}, "invalid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, err := Parse([]byte(tt.line))
			var got Event
			if err == nil {
				got, err = line.Event()
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if string(line.Raw()) != tt.line {
				t.Errorf("raw is %s", line.Raw())
			}
		})
	}
}

// A field of another type is the error, and the rest of the body is there.
func TestParseType(t *testing.T) {
	line, err := Parse([]byte(`{"kind":"diag","body":{"text":1,"source":"s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := line.Body()
	var wrong *wire.TypeError
	if !errors.As(err, &wrong) || wrong.Field != "text" || b != (Diag{Source: "s"}) {
		t.Errorf("%#v, %v", b, err)
	}
	e, err := line.Unread()
	if got := Append(nil, e); string(got) != string(line.Raw()) || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := line.Elide().Unread(); !errors.Is(err, ErrElided) {
		t.Error(err)
	}
}

func TestAppend(t *testing.T) {
	tests := []struct {
		e    Event
		want string
	}{
		{Event{Header{Kind: "x"}, nil}, `{"kind":"x","body":{}}`},
		{Event{Header{Kind: "x"}, Diag{}}, `{"kind":"diag","body":{"text":""}}`},
		{Event{Body: Unknown{"x", nil}}, `{"kind":"x","body":{}}`},
		{Event{Body: Unknown{"x", Raw(`[1]`)}}, `{"kind":"x","body":{}}`},
		{Event{Body: Unknown{"x", Raw(`{"a":`)}}, `{"kind":"x","body":{}}`},
		{Event{Body: Unknown{"x", Raw("{\n}")}}, `{"kind":"x","body":{}}`}, // one line
		{Event{Body: ToolCalled{Name: "a", Input: Raw("{\"b\":\n1}")}}, `{"kind":"tool.called","body":{"name":"a","input":{"b":1}}}`},
		{Event{Header{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, Diag{}}, `{"kind":"diag","body":{"text":""}}`},
		{Event{Header{At: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600))}, Diag{}}, `{"kind":"diag","body":{"text":""}}`},
		{Event{Header{At: time.Date(2026, 1, 1, 1, 0, 0, 999999, time.FixedZone("", 3600))}, Diag{}}, `{"at":"2026-01-01T00:00:00.000Z","kind":"diag","body":{"text":""}}`},
		{Event{Header{Session: "a\"\n\xff"}, Diag{}}, `{"session":"a\"\n\ufffd","kind":"diag","body":{"text":""}}`},
	}
	for _, tt := range tests {
		got := string(Append(nil, tt.e))
		if got != tt.want {
			t.Errorf("%#v: %s, want %s", tt.e, got, tt.want)
		}
		if _, err := Parse([]byte(got)); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	if got := string(Append([]byte("x"), Event{Body: Diag{}})); got != `x{"kind":"diag","body":{"text":""}}` {
		t.Error(got)
	}
}

func TestElide(t *testing.T) {
	raw := Append(nil, Samples()[0])
	line, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if line.Elided() {
		t.Error("it was elided before")
	}
	short := line.Elide()
	if _, err := short.Body(); !errors.Is(err, ErrElided) || !short.Elided() || short.Header != line.Header {
		t.Errorf("%v, %+v", err, short.Header)
	}
	if e, err := short.Event(); !errors.Is(err, ErrElided) || e.Header != line.Header {
		t.Errorf("%v, %+v", err, e)
	}
}

// The header can be read from the beginning of a line, as soon as it is there.
func TestHead(t *testing.T) {
	for _, e := range Samples() {
		raw := Append(nil, e)
		start := bytes.Index(raw, []byte(`"body":`)) + len(`"body":`)
		for n := range raw {
			var p Parser
			line, ok := p.Head(raw[:n])
			if ok != (n > start) {
				t.Fatalf("%s: %v", raw[:n], ok)
			}
			if ok && (line.Header != e.Header || !line.Elided()) {
				t.Fatalf("%s: %+v", raw[:n], line)
			}
		}
	}
	var p Parser
	if _, ok := p.Head([]byte(`{"body":{`)); ok {
		t.Error("a header that is not there was read")
	}
}

// What a Parser remembers of the lines before changes nothing.
func TestParserOfMany(t *testing.T) {
	var p Parser
	pick := func(list ...string) string { return list[rand.IntN(len(list))] }
	for seq := range 5000 {
		h := Header{Seq: uint64(seq % 7), At: moment.Add(time.Duration(seq) * 70 * time.Millisecond), Session: pick("s", "s", "s", "", "other"), Agent: pick("", "", "a")}
		h.Call, h.Of = pick("", "", "c", "d"), uint64(rand.IntN(3))
		e := Event{h, TextDelta{Text: "t"}}
		if rand.IntN(4) == 0 {
			e.Body = Diag{Text: "t"}
		}
		raw := Append(nil, e)
		switch rand.IntN(10) {
		case 0:
			raw = raw[:rand.IntN(len(raw))]
		case 1:
			raw = bytes.Replace(raw, []byte(`"kind"`), []byte(`"kin"`), 1)
		}
		got, err := p.Parse(raw)
		want, alone := Parse(raw)
		if (err == nil) != (alone == nil) || got.Header != want.Header || string(got.body) != string(want.body) || err == nil && got.Kind != e.Body.Kind() {
			t.Fatalf("%s: %+v %v, alone %+v %v", raw, got, err, want, alone)
		}
	}
}

// A Parser copies the name of the session once.
func TestParserAllocates(t *testing.T) {
	raw := Append(nil, Event{Header{Seq: 1, At: moment, Session: "session", Agent: "agent", Call: "call"}, Diag{Text: "t"}})
	var p Parser
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.Parse(raw); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse holds the fast path to the slow one.
func FuzzParse(f *testing.F) {
	for _, e := range Samples() {
		f.Add(Append(nil, e))
	}
	for _, s := range []string{
		`{"kind":"","body":{}}`, `{"kind":"diag","body":{"text":"a"},"more":{}}`, `{"body":{},"kind":"x"}`, `{"seq":01,"kind":"x","body":{}}`,
		`{"seq":1,"kind":"x","body":{"a":1}}}`, `{"kind":"x","body":{"a":{}}`, `{"kind":"x","body":{},"body":{"a":{}}}`, ` {"kind":"x","body":{}}`,
		`{"at":"2026-13-01T00:00:00.000Z","kind":"x","body":{}}`, `{"seq":1,"seq":2,"kind":"x","body":{}}`, `{"kind":"x","kind":"y","body":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p Parser
		var fast Line
		ok := p.fast(&fast, raw)
		slow, err := parseSlow(raw)
		if head, headed := p.Head(raw); headed && ok && head.Header != fast.Header {
			t.Errorf("the head is %+v, the line %+v", head.Header, fast.Header)
		}
		if !ok {
			if err == nil {
				checkLine(t, slow)
			}
			return
		}
		for range 2 { // by what it remembers of the line before
			var again Line
			if !p.fast(&again, raw) || again.Header != fast.Header || string(again.body) != string(fast.body) {
				t.Errorf("once more it is %+v, and was %+v", again, fast)
			}
		}
		body, bodyErr := fast.Body()
		if err != nil {
			if bodyErr == nil {
				t.Errorf("fast took what slow refuses: %v", err)
			}
			return
		}
		if fast.Header != slow.Header {
			t.Errorf("fast %+v, slow %+v", fast.Header, slow.Header)
		}
		want, wantErr := slow.Body()
		if diff := cmp.Diff(want, body); diff != "" || (wantErr == nil) != (bodyErr == nil) {
			t.Errorf("%v, %v: %s", wantErr, bodyErr, diff)
		}
		checkLine(t, fast)
	})
}

// checkLine says whether what was read can be written and read again.
func checkLine(t *testing.T, l Line) {
	t.Helper()
	e, err := l.Event()
	if err != nil {
		return
	}
	raw := Append(nil, e)
	again, err := Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	f, err := again.Event()
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if twice := Append(nil, f); !bytes.Equal(raw, twice) {
		t.Errorf("%s became %s", raw, twice)
	}
}

func FuzzForeign(f *testing.F) {
	for _, s := range []string{"", "a", "ü", "\xff", "{\"a\":1}\r", "\x00\u2028\ufffd", "a\xc3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e := Event{Body: NewForeign("grok", line)}
		got, err := Parse(Append(nil, e))
		if err != nil {
			t.Fatal(err)
		}
		b, err := got.Body()
		if err != nil || !bytes.Equal(b.(Foreign).Bytes(), line) {
			t.Errorf("%q became %q, %v", line, b.(Foreign).Bytes(), err)
		}
	})
}

func TestMillis(t *testing.T) {
	for ms, want := range map[int64]time.Time{
		0: time.Unix(0, 0).UTC(), 1787393472345: time.Date(2026, 8, 22, 10, 11, 12, 345e6, time.UTC), 253402300799999: time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC),
		253402300800000: {}, -62135596800001: {}, 1 << 62: {}, -1 << 62: {},
	} {
		if got := Millis(ms); !got.Equal(want) {
			t.Errorf("%d: %v, want %v", ms, got, want)
		}
	}
}

// Times are written as the time package writes them.
func TestAppendTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	check := func(at time.Time) {
		t.Helper()
		line := string(Append(nil, Event{Header: Header{At: at}, Body: Prompt{}}))
		want := ""
		if u := at.UTC(); u.Year() >= 0 && u.Year() <= 9999 && !u.IsZero() {
			want = `"at":"` + u.Format(timeLayout) + `",`
		}
		if got := strings.TrimPrefix(line[:strings.Index(line, `"kind"`)], "{"); got != want {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
	for range 20000 {
		check(time.Unix(firstSecond+rnd.Int64N(lastSecond-firstSecond), rnd.Int64N(1e9)))
	}
	for year := -1; year <= 10000; year++ {
		for _, day := range []time.Time{
			time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year, 2, 28, 23, 59, 59, 999_999_999, time.UTC), time.Date(year, 2, 29, 12, 0, 0, 0, time.UTC),
			time.Date(year, 3, 1, 0, 0, 0, 1, time.UTC), time.Date(year, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		} {
			check(day)
		}
	}
	check(time.Time{})
	check(time.Time{}.In(time.FixedZone("", 3600)))
	check(time.Date(2026, 8, 22, 1, 0, 0, 0, time.FixedZone("", 7200)))
}
