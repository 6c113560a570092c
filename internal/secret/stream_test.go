package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// redact passes events through a Redactor, to the end.
func redact(r *Redactor, events ...event.Event) (out []event.Event) {
	r = r.Fresh()
	emit := func(e event.Event) { out = append(out, e) }
	for _, e := range events {
		r.Put(e, emit)
	}
	r.Close(emit)
	return out
}

func said(b event.Body) event.Event { return event.Event{Body: b}.Stamp() }
func by(agent string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Agent: agent}, Body: b}.Stamp()
}
func of(call string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Call: call}, Body: b}.Stamp()
}
func text(s string) event.Event         { return said(event.TextDelta{ID: "b", Text: s}) }
func think(s string) event.Event        { return said(event.ThoughtDelta{ID: "t", Text: s}) }
func print(s string) event.Event        { return output("c1", s) }
func output(call, s string) event.Event { return of(call, event.ToolOutput{Text: s}) }

func TestOrder(t *testing.T) {
	r := one1("hunter2-marlin!")
	const k = "[redacted:KEY]"
	whole := func(s string) event.Event { return said(event.Text{ID: "b", Text: s}) }
	notice := said(event.Notice{Text: "n"})
	tests := []struct {
		name     string
		in, want []event.Event
	}{
		{"held until it is clear", []event.Event{text("it is hun"), text("ger"), whole("it is hunger")}, []event.Event{text("it is "), text("hunger"), whole("it is hunger")}},
		{"held to the end", []event.Event{text("hun"), whole("hun")}, []event.Event{text("hun"), whole("hun")}},
		{"split", []event.Event{text("a hunter2"), text("-mar"), text("lin! b"), whole("a hunter2-marlin! b")}, []event.Event{text("a "), text(k + " b"), whole("a " + k + " b")}},
		{"split and nothing else", []event.Event{text("hunter2-"), text("marlin!"), whole("hunter2-marlin!")}, []event.Event{text(k), whole(k)}},
		{"cut", []event.Event{text("hunter2-")}, []event.Event{text("hunter2-")}},
		{"empty deltas", []event.Event{text(""), text("hun"), text(""), text("ter")}, []event.Event{text(""), text("hunter")}},
		{"what is said in between", []event.Event{text("hunter2"), notice, text("-marlin!")}, []event.Event{notice, text(k)}},
		{"a word of the user's in between", []event.Event{text("hunter2"), said(event.Prompt{Source: event.SourceSteer}), text("-marlin!")}, []event.Event{said(event.Prompt{Source: event.SourceSteer}), text(k)}},
		{"another block", []event.Event{text("hun"), said(event.ThoughtDelta{ID: "c", Text: "ter"}), said(event.ThoughtDelta{ID: "c", Text: " hunter2-marlin!"})},
			[]event.Event{text("hun"), said(event.ThoughtDelta{ID: "c", Text: "ter"}), said(event.ThoughtDelta{ID: "c", Text: " " + k})}},
		{"another agent", []event.Event{text("hunter2"), by("a", event.TextDelta{ID: "b", Text: "x hunter"}), text("-marlin!"), by("a", event.Text{ID: "b", Text: "x hunter"}), text("!")},
			[]event.Event{by("a", event.TextDelta{ID: "b", Text: "x "}), text(k), by("a", event.TextDelta{ID: "b", Text: "hunter"}), by("a", event.Text{ID: "b", Text: "x hunter"}), text("!")}},
		{"calls side by side", []event.Event{output("1", "hunter2"), output("2", "hunter2-"), output("1", "-marlin!"), output("2", "marled"), of("1", event.ToolDone{})},
			[]event.Event{output("1", k), output("2", "hunter2-marled"), of("1", event.ToolDone{})}},
		{"a call ends", []event.Event{output("1", "hun"), output("2", "hun"), of("2", event.ToolFailed{}), of("1", event.ToolDone{})},
			[]event.Event{output("2", "hun"), of("2", event.ToolFailed{}), output("1", "hun"), of("1", event.ToolDone{})}},
		{"a call of its own kind of end", []event.Event{output("1", "hun"), of("1", event.Unknown{Name: "tool.done", Raw: event.Raw(`{"name":1}`)})},
			[]event.Event{output("1", "hun"), of("1", event.Unknown{Name: "tool.done", Raw: event.Raw(`{"name":1}`)})}},
		{"an agent ends", []event.Event{by("a/b", event.TextDelta{Text: "hun"}), by("ab", event.TextDelta{Text: "hun"}), by("a", event.AgentEnded{}), by("ab", event.TextDelta{Text: "x"})},
			[]event.Event{by("a/b", event.TextDelta{Text: "hun"}), by("a", event.AgentEnded{}), by("ab", event.TextDelta{Text: "hunx"})}},
		{"the reply ends", []event.Event{by("a/b", event.TextDelta{Text: "hun"}), output("1", "hun"), said(event.ReplyDone{})},
			[]event.Event{by("a/b", event.TextDelta{Text: "hun"}), output("1", "hun"), said(event.ReplyDone{})}},
		{"the run ends", []event.Event{by("a", event.TextDelta{Text: "hun"}), said(event.RunDone{})}, []event.Event{by("a", event.TextDelta{Text: "hun"}), said(event.RunDone{})}},
		{"tried again", []event.Event{text("hun"), said(event.Retry{Attempt: 1}), text("ter2-hunter2"), whole("ter2-hunter2")}, []event.Event{text("hun"), said(event.Retry{Attempt: 1}), text("ter2-"), text("hunter2"), whole("ter2-hunter2")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, redact(r, tt.in...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// alphabets are what secrets are made of: with the rest of a text they have much in common.
var alphabets = []string{
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "0123456789abcdef", "ab", "\"\\/", `"\n%u0`, "äöüß€😀日本", "a\n\t b",
	"!$&'()*+,-./:;<=>?@[]^_`{|}~", "\\", "%2bc5", "<>&\u2028",
}

func randomText(r *rand.Rand, alphabet string, n int) string {
	runes := []rune(alphabet)
	var b strings.Builder
	for range n {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return b.String()
}

// plant makes secrets.
func plant(r *rand.Rand, n int) (list []string) {
	for len(list) < n {
		alphabet := alphabets[r.IntN(len(alphabets))]
		if r.IntN(3) == 0 {
			alphabet += alphabets[r.IntN(len(alphabets))]
		}
		s := strings.TrimSpace(randomText(r, alphabet, 8+r.IntN(40)))
		if !(Value{"K", s}).Trivial() {
			list = append(list, s)
		}
	}
	return list
}

// A form is a secret, written in some way.
type form struct{ way, text string }

// written returns the ways to write a secret.
func written(s string) []form {
	quoted, _ := json.Marshal(s)
	twice, _ := json.Marshal(string(quoted))
	ways := []form{
		{"plain", s}, {"JSON", string(quoted)}, {"JSON in JSON", string(twice)}, {"ASCII", ascii(s)}, {"query", url.QueryEscape(s)}, {"path", url.PathEscape(s)},
		{"hex", hex.EncodeToString([]byte(s))}, {"HEX", strings.ToUpper(hex.EncodeToString([]byte(s)))},
	}
	for before := range 3 {
		data := []byte("x-y"[:before] + s + "z")
		ways = append(ways,
			form{fmt.Sprint("base64 after ", before), base64.StdEncoding.EncodeToString(data)},
			form{fmt.Sprint("base64url after ", before), base64.RawURLEncoding.EncodeToString(data)})
	}
	return ways
}

// ascii writes every character as an escape, in either case.
func ascii(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		} else if i%2 == 0 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	return b.String()
}

// traces are what must not stand in any text: the ways to write a secret, without the ends of base64 that others have a part
// in.
func traces(s string) (list []string) {
	for _, f := range written(s) {
		if strings.HasPrefix(f.way, "base64") {
			f.text = strings.TrimRight(f.text, "=")
			f.text = f.text[4 : len(f.text)-3]
		}
		list = append(list, f.text)
	}
	return list
}

// checkLine looks for a secret in a line of JSON, as it is written and as it is meant.
func checkLine(t *testing.T, what string, line []byte, hunt []string) {
	t.Helper()
	var v any
	if err := json.Unmarshal(line, &v); err != nil && line[0] == '{' { // a foreign line may be none
		t.Errorf("%s: not JSON: %v: %s", what, err, line)
	}
	for _, s := range append(texts(v, nil), string(line)) {
		for _, trace := range hunt {
			if strings.Contains(s, trace) {
				t.Fatalf("%s: %q got out: %s", what, trace, line)
			}
		}
	}
}

func texts(v any, list []string) []string {
	switch v := v.(type) {
	case string:
		return append(list, v)
	case []any:
		for _, x := range v {
			list = texts(x, list)
		}
	case map[string]any:
		for k, x := range v {
			list = texts(x, append(list, k))
		}
	}
	return list
}

// Two hundred secrets, in every form, split at every place, in texts, thoughts and outputs, in arguments, errors and foreign
// lines: none gets out, in the native format or in any dialect; and deltas add up to their block.
func TestPlanted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 8))
	secrets := plant(rnd, planted)
	var values []Value
	for i, s := range secrets {
		values = append(values, Value{fmt.Sprint("SECRET_", i), s})
	}
	all := New(values)
	for i, s := range secrets {
		alone, hunt := New(values[i:i+1]), traces(s)
		for j, f := range written(s) {
			around := "before " + f.text + " after"
			want := alone.String(around)
			for cut := range len(around) + 1 {
				say := [...]func(string) event.Event{text, think, print}[cut%3]
				var got string
				for _, e := range redact(alone, say(around[:cut]), say(around[cut:])) {
					got += reflect.ValueOf(e.Body).FieldByName("Text").String()
				}
				if got != want {
					t.Fatalf("%s, cut at %d: %q, not %q", f.way, cut, got, want)
				}
			}
			if (i+j)%3 == 0 {
				out := redact(alone, run(around, []string{around[:len(around)/2], around[len(around)/2:]}, s)...)
				checkSums(t, want, out)
				checkStream(t, f.way+", cut in the middle", hunt, out)
			}
		}
		// Letter by letter, and among all the other secrets.
		around := "before " + written(s)[i%len(written(s))].text + " after"
		out := redact(all, run(around, strings.Split(around, ""), s)...)
		checkSums(t, all.String(around), out)
		checkStream(t, "letter by letter", hunt, out)
	}
}

// deltas says the pieces as a text, as a thought and as an output.
func deltas(pieces ...string) (list []event.Event) {
	for _, p := range pieces {
		list = append(list, think(p))
	}
	list = append(list, said(event.Thought{ID: "t", Text: strings.Join(pieces, "")}))
	for _, p := range pieces {
		list = append(list, text(p))
	}
	list = append(list, said(event.Text{ID: "b", Text: strings.Join(pieces, "")}), of("c1", event.ToolCalled{Name: "bash", Input: event.Raw(`{}`)}))
	for _, p := range pieces {
		list = append(list, print(p))
	}
	return append(list, of("c1", event.ToolDone{Name: "bash", Output: strings.Join(pieces, "")}))
}

// run is a run that says it everywhere.
func run(whole string, pieces []string, secret string) []event.Event {
	quoted, _ := json.Marshal(map[string]any{"a": []string{whole}, secret: 1})
	list := []event.Event{
		said(event.RunStarted{Format: 1, Program: "sluice", Cwd: "/" + whole}), said(event.Prompt{ID: "m", Text: whole}), said(event.TurnStarted{Number: 1}),
	}
	list = append(list, deltas(pieces...)...)
	return append(list,
		of("c2", event.ToolCalled{Name: "bash", Title: whole, Input: quoted}),
		said(event.TurnEnded{Number: 1, Finish: event.FinishToolCalls}),
		of("c2", event.GateAllowed{Tool: "bash", Patterns: []string{whole}, Input: quoted}),
		of("c2", event.ToolStarted{Name: "bash"}), of("c2", event.ToolFailed{Name: "bash", Error: whole, Metadata: quoted}),
		said(event.Foreign{Dialect: "grok", Line: `{"type":"x","data":` + string(quoted) + `}`}), said(event.Foreign{Dialect: "enso", Line: whole}),
		said(event.Custom{Name: "deploy", Fields: quoted}),
		said(event.Error{Code: "provider_error", Message: whole, Data: quoted}),
		said(event.ReplyFailed{Prompt: "m"}), said(event.RunFailed{Outcome: event.Failed, Reason: whole, Detail: whole}),
	)
}

// checkSums holds the deltas to their blocks, and the blocks to what they should be.
func checkSums(t *testing.T, want string, out []event.Event) {
	t.Helper()
	sums := map[event.Kind]string{}
	check := func(deltas event.Kind, whole string) {
		t.Helper()
		if sums[deltas] != whole || whole != want {
			t.Fatalf("it came out as %q, and in deltas as %q, not as %q", whole, sums[deltas], want)
		}
	}
	for _, e := range out {
		switch b := e.Body.(type) {
		case event.ThoughtDelta:
			sums[e.Kind] += b.Text
		case event.TextDelta:
			sums[e.Kind] += b.Text
		case event.ToolOutput:
			sums[e.Kind] += b.Text
		case event.Thought:
			check("thought.delta", b.Text)
		case event.Text:
			check("text.delta", b.Text)
		case event.ToolDone:
			check("tool.output", b.Output)
		}
	}
}

// checkStream looks for a secret in the lines of a stream, native and in each dialect, and in what deltas add up to.
func checkStream(t *testing.T, what string, hunt []string, out []event.Event) {
	t.Helper()
	sums := map[event.Kind]string{}
	for i := range out {
		out[i].Seq, out[i].Session = uint64(i+1), "ses"
		checkLine(t, what, event.Append(nil, out[i]), hunt)
		if f := reflect.ValueOf(out[i].Body).FieldByName("Text"); f.IsValid() {
			sums[out[i].Kind] += f.String()
		}
	}
	for kind, sum := range sums {
		for _, trace := range hunt {
			if strings.Contains(sum, trace) {
				t.Fatalf("%s: %q got out in pieces of %s: %q", what, trace, kind, sum)
			}
		}
	}
	for _, d := range dialect.All() {
		enc := d.NewEncoder(dialect.Options{})
		for _, e := range out {
			for _, line := range strings.Split(strings.TrimSpace(string(enc.Encode(nil, e))), "\n") {
				if line != "" {
					checkLine(t, what+", in "+d.Name, []byte(line), hunt)
				}
			}
		}
	}
}

// In however many pieces a text comes, what comes out is the same; also where secrets begin in each other, are parts of each
// other, or are never finished.
func TestPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 16))
	alphabet := []string{"a", "b", "c", `\`, `"`, "%", "6", "1", "+", " ", "\n", "u", "0", "é"}
	for range 50 * planted {
		var values []Value
		for i := range 1 + rnd.IntN(4) {
			var b strings.Builder
			for range 6 + rnd.IntN(5) {
				b.WriteString(alphabet[rnd.IntN(len(alphabet))])
			}
			values = append(values, Value{fmt.Sprint(i), b.String()})
		}
		var whole string
		for range rnd.IntN(8) {
			s := values[rnd.IntN(len(values))].Text
			switch rnd.IntN(5) {
			case 0:
				whole += alphabet[rnd.IntN(len(alphabet))]
			case 1:
				whole += s
			case 2:
				whole += s[:rnd.IntN(len(s))]
			case 3:
				whole += s[rnd.IntN(len(s)):]
			case 4:
				forms := written(s)
				f := forms[rnd.IntN(len(forms))].text
				whole += f[:rnd.IntN(len(f)+1)]
			}
		}
		checkPieces(t, New(values), whole, func(left int) int { return 1 + rnd.IntN(left) })
	}
}

// checkPieces cuts a text into pieces; cut says how long the next one is, of what is left.
func checkPieces(t *testing.T, r *Redactor, whole string, cut func(left int) int) {
	t.Helper()
	var in []event.Event
	for rest := whole; rest != ""; {
		n := cut(len(rest))
		in = append(in, text(rest[:n]))
		rest = rest[n:]
	}
	var sum string
	for _, e := range redact(r, in...) {
		piece := e.Body.(event.TextDelta).Text
		if sum += piece; piece == "" {
			t.Error("an empty delta came out")
		}
	}
	if want := r.String(whole); sum != want {
		t.Fatalf("%q came out as %q, and in pieces as %q", whole, want, sum)
	}
	if again := r.String(sum); again != sum {
		// Marks beside what was there may read as another form; then nothing whole was left over.
		for i := range r.finder.patterns {
			if strings.Contains(sum, r.finder.patterns[i].text) {
				t.Fatalf("%q came out as %q, in which there is %q", whole, sum, r.finder.patterns[i].text)
			}
		}
	}
}

// A stream that was whole stays whole.
func TestWhole(t *testing.T) {
	const secret = "hunter2-hunter2"
	var m event.Mender
	var in, out, mended []event.Event
	for _, e := range run("x "+secret+" y", []string{"x hunter", "2-hun", "ter2 y"}, secret) {
		m.Put(e, func(e event.Event) { in = append(in, e) })
	}
	m.Close(func(e event.Event) { in = append(in, e) })
	out = redact(one1(secret), in...)
	for _, e := range out {
		m.Put(e, func(e event.Event) { mended = append(mended, e) })
	}
	m.Close(func(e event.Event) { mended = append(mended, e) })
	if diff := cmp.Diff(out, mended); diff != "" {
		t.Error(diff)
	}
}

// A secret that begins as it ends, again and again, is not held back for ever.
func TestNoEnd(t *testing.T) {
	r := one1("abababab")
	most := 0
	var out []event.Event
	for range 20000 {
		r.Put(text("abab"), func(e event.Event) { out = append(out, e) })
		if len(r.held) > 0 {
			most = max(most, len(r.held[0].text))
		}
	}
	if most > 2*farthest || len(out) == 0 {
		t.Errorf("%d bytes were held", most)
	}
	r.Close(func(e event.Event) { out = append(out, e) })
	var sum string
	for _, e := range out {
		sum += e.Body.(event.TextDelta).Text
	}
	if want := r.String(strings.Repeat("abab", 20000)); sum != want || strings.Contains(sum, "abababab") {
		t.Errorf("%s, not %s", sum, want)
	}
}

var marks = regexp.MustCompile(`\[redacted:[^\]]*\]`)

func FuzzRedact(f *testing.F) {
	f.Add("hunter2-hunter2", "it is hunter2-hunter2, or \\u0068unter2-hunter2, %68unter2-hunter2", uint8(3))
	f.Add(`a"\b%c\n`, `a\"\\b%c\\n a%22%5Cb%25c%5cn`, uint8(1))
	f.Add("aaaaaab", "aaaaaaaaaaaaaab", uint8(2))
	f.Add("secret\xffsecret", "c2VjcmV0/3NlY3JldA==", uint8(5))
	f.Add("\x0000000", "\x0000000000000000@", uint8(1))
	f.Fuzz(func(t *testing.T, secret, whole string, step uint8) {
		r := one1(secret)
		if r.finder == nil {
			t.Skip()
		}
		n := int(step)
		checkPieces(t, r, whole, func(left int) int { n = n*7%11 + 1; return min(n, left) })
		if out := r.finder.raw(event.Raw(whole)); json.Valid([]byte(whole)) && !json.Valid(out) {
			t.Errorf("%s came out as %s", whole, out)
		}
		// A mark and what stands beside it may look like a secret that begins or ends as a mark does: that is none. A byte that
		// no text has comes into the place of a mark, so that none is seen where a mark was.
		out := marks.ReplaceAllString(r.String(whole+strings.TrimSpace(secret)+whole), "\xff")
		if s := strings.TrimSpace(secret); strings.ToValidUTF8(s, "") == s && strings.Contains(out, s) && !strings.Contains(s, "redacted") {
			t.Errorf("%q got out of %q", s, whole+s+whole)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	whole := strings.Repeat("The quick brown fox jumps over the lazy dog; func main() { fmt.Println(\"hi\\n\") }\n", 100)
	var in []event.Event
	for rest := whole; rest != ""; rest = rest[min(4, len(rest)):] {
		in = append(in, text(rest[:min(4, len(rest))]))
	}
	quoted, _ := json.Marshal(whole)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 10, 200} {
		var values []Value
		for i := range n {
			values = append(values, Value{fmt.Sprint(i), randomText(rnd, alphabets[0], 40)})
		}
		r := New(values)
		b.Run(fmt.Sprint("deltas/secrets=", n), func(b *testing.B) {
			b.SetBytes(int64(len(whole)))
			b.ReportAllocs()
			for b.Loop() {
				for _, e := range in {
					r.Put(e, func(event.Event) {})
				}
				r.Close(func(event.Event) {})
			}
		})
		for name, text := range map[string]string{"prose": whole, "base64": base64.StdEncoding.EncodeToString([]byte(whole)), "escaped": string(quoted)} {
			b.Run(fmt.Sprintf("%s/secrets=%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					r.String(text)
				}
			})
		}
	}
}
