package script

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNext(t *testing.T) {
	p := NewPlayer(parse(t, `
chunk: 8
usage: {input: 7}
steps:
  - content:
      - text: one
      - call: {tool: a}
      - thinking: hm
      - call: {tool: b, id: own}
      - call: {tool: c, raw: "{"}
  - text: two
    usage: {output: 9}
    chunk: 2
    delay: 3ms
  - no_usage: true
    finish: refusal
`))
	want := []Turn{
		{
			Number: 1, Model: "m", Finish: "tool_calls", Usage: &Usage{Input: 7}, Chunk: 8,
			Parts: []Part{
				{Kind: Text, Text: "one"}, {Kind: ToolCall, Text: "{}", ID: "call_1_1", Tool: "a"},
				{Kind: Thinking, Text: "hm"}, {Kind: ToolCall, Text: "{}", ID: "own", Tool: "b"}, {Kind: ToolCall, Text: "{", ID: "call_1_3", Tool: "c"},
			},
		},
		{Number: 2, Model: "m", Finish: "stop", Usage: &Usage{Output: 9}, Chunk: 2, Delay: 3 * time.Millisecond, Parts: []Part{{Kind: Text, Text: "two"}}},
		{Number: 3, Model: "m", Finish: "refusal", Chunk: 8},
		{Number: 4, Model: "m", Finish: "stop", Fault: &Fault{Status: 400, Message: "script exhausted: it has 3 steps and this request wants answer 4"}},
	}
	// Each request says itself where it is, so the order in which they come does not matter.
	for _, n := range []int{2, 0, 3, 1, 0} {
		if diff := cmp.Diff(want[n], p.Next(Seen{Answers: n, Model: "m"})); diff != "" {
			t.Errorf("answer %d (-want +got)\n%s", n+1, diff)
		}
	}
}

func TestRepeatAndLoop(t *testing.T) {
	p := NewPlayer(parse(t, `
loop: true
steps:
  - text: a
    repeat: 3
  - call: {tool: b}
`))
	var got strings.Builder
	ids := map[string]bool{}
	for n := range 9 {
		turn := p.Next(Seen{Answers: n})
		got.WriteString(turn.Parts[0].Text)
		if id := turn.Parts[0].ID; id != "" {
			if ids[id] {
				t.Errorf("the id %s came twice", id)
			}
			ids[id] = true
		}
	}
	if want := "aaa{}aaa{}a"; got.String() != want {
		t.Errorf("got %s, want %s", &got, want)
	}
}

// A large step that is repeated often costs nothing but itself.
func TestRepeatCopiesNothing(t *testing.T) {
	s := &Script{Steps: []Step{{Text: strings.Repeat("x", 1<<20), Repeat: most}, {Text: "end"}}}
	p := NewPlayer(s)
	if got := p.Next(Seen{Answers: most}).Parts[0].Text; got != "end" {
		t.Errorf("the last step says %q", got)
	}
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Next(Seen{Answers: most - 1})
		}
	}).AllocedBytesPerOp()
	if allocs > 1024 {
		t.Errorf("an answer costs %d bytes", allocs)
	}
}

func TestAdvanceByRequest(t *testing.T) {
	p := NewPlayer(parse(t, "advance: request\nsteps: [{text: a}, {text: b}]\nconversations: [{when: {model: small}, steps: [{text: c}]}]"))
	for i, want := range []string{"a", "b", "script exhausted: it has 2 steps and this request wants answer 3"} {
		turn := p.Next(Seen{Answers: 0})
		got := ""
		if turn.Fault != nil {
			got = turn.Fault.Message
		} else {
			got = turn.Parts[0].Text
		}
		if got != want {
			t.Errorf("request %d: %q, want %q", i+1, got, want)
		}
	}
	if got := p.Next(Seen{Model: "a-small-one"}).Parts[0].Text; got != "c" {
		t.Errorf("another conversation has its own count: %q", got)
	}
}

func TestConversations(t *testing.T) {
	p := NewPlayer(parse(t, `
conversations:
  - when: {system: ^You name, model: haiku}
    steps: [{text: title}]
  - when: {prompt: (?i)explore}
    steps: [{call: {tool: read}}, {text: explored}]
  - when: {last: ^no such}
    steps: [{text: sorry}]
`))
	for _, c := range []struct {
		seen Seen
		want string
	}{
		{Seen{System: "You name things", Model: "claude-haiku", Prompt: "explore"}, "title"},
		{Seen{System: "You name things", Model: "claude-opus", Prompt: "explore"}, "{}"},
		{Seen{Prompt: "Explore it", Answers: 1, Last: "no such"}, "explored"},
		{Seen{Prompt: "fix it", Last: "no such file"}, "sorry"},
	} {
		if got := p.Next(c.seen).Parts[0].Text; got != c.want {
			t.Errorf("%+v: %q, want %q", c.seen, got, c.want)
		}
	}
	f := p.Next(Seen{Prompt: "nobody's"}).Fault
	if f == nil || f.Status != 400 || !strings.Contains(f.Message, "no conversation takes this request") {
		t.Errorf("nobody's request: %+v", f)
	}
	one, two := p.Next(Seen{Prompt: "explore a"}).Parts[0].ID, p.Next(Seen{Prompt: "explore b"}).Parts[0].ID
	if one == two || one == "" || one != p.Next(Seen{Prompt: "explore a"}).Parts[0].ID {
		t.Errorf("ids of two sub-agents: %s and %s", one, two)
	}
}

func TestFaultTimes(t *testing.T) {
	p := NewPlayer(parse(t, "steps: [{text: a, repeat: 2, fault: {status: 529, times: 2}}, {text: b, fault: {cut: start}}]"))
	strikes := func(s Seen) (n int) {
		for range 5 {
			if p.Next(s).Fault != nil {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		seen Seen
		want int
	}{{Seen{Prompt: "x"}, 2}, {Seen{Prompt: "y"}, 2}, {Seen{Prompt: "x", Answers: 1}, 2}, {Seen{Prompt: "x"}, 0}, {Seen{Prompt: "x", Answers: 2}, 5}} {
		if got := strikes(c.seen); got != c.want {
			t.Errorf("%+v: %d faults of 5, want %d", c.seen, got, c.want)
		}
	}
}

func TestFaultTimesAtOnce(t *testing.T) {
	p := NewPlayer(&Script{Steps: []Step{{Text: "a", Fault: &Fault{Status: 500, Times: 10}}}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	faults := 0
	for range 50 {
		wg.Go(func() {
			if p.Next(Seen{}).Fault != nil {
				mu.Lock()
				faults++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if faults != 10 {
		t.Errorf("%d faults, want 10", faults)
	}
}

func TestDeltas(t *testing.T) {
	for _, c := range []struct {
		text  string
		runes int
		want  []string
	}{
		{"", 3, nil},
		{"", 0, nil},
		{"abc", 0, []string{"abc"}},
		{"héllo", 2, []string{"hé", "ll", "o"}},
		{"日本語", 1, []string{"日", "本", "語"}},
		{"a\xff\xfeb", 2, []string{"a\xff", "\xfeb"}},
		{"ab", 9, []string{"ab"}},
	} {
		var got []string
		for d := range Deltas(c.text, c.runes) {
			got = append(got, d)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q by %d: %s", c.text, c.runes, diff)
		}
	}
	for d := range Deltas("abc", 1) {
		if d != "a" {
			t.Error("the first is not the first")
		}
		break // a reader may leave
	}
}

func FuzzDeltas(f *testing.F) {
	f.Add("abc", 2)
	f.Add("a\xffé", 1)
	f.Fuzz(func(t *testing.T, text string, runes int) {
		var b strings.Builder
		for d := range Deltas(text, runes) {
			if d == "" {
				t.Fatal("an empty delta")
			}
			b.WriteString(d)
		}
		if b.String() != text {
			t.Errorf("%q became %q", text, b.String())
		}
	})
}

func ExamplePlayer() {
	s, _ := Parse([]byte("steps: [{call: {tool: bash, input: {command: ls}}}, {text: Two files.}]"))
	p := NewPlayer(s)
	for answers := range 2 {
		t := p.Next(Seen{Answers: answers})
		fmt.Println(t.Finish, t.Parts[0].Text)
	}
	// Output:
	// tool_calls {"command":"ls"}
	// stop Two files.
}
