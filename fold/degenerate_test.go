package fold

import (
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// thought is a stream of deltas of one thought.
func thought(deltas ...string) *Degeneration {
	var d Detector
	d.Apply(event.Event{Body: event.TurnStarted{Number: 1}}.Stamp())
	for _, text := range deltas {
		d.Apply(event.Event{Header: event.Header{Session: "s"}, Body: event.ThoughtDelta{ID: "b", Text: text}}.Stamp())
	}
	return d.Found
}

// said is a stream of deltas of one text.
func said(deltas ...string) *Degeneration {
	var d Detector
	for _, text := range deltas {
		d.Apply(event.Event{Body: event.TextDelta{ID: "b", Text: text}}.Stamp())
	}
	return d.Found
}

// pieces cuts a text into deltas of n runes.
func pieces(text string, n int) (list []string) {
	for piece := range slices.Chunk([]rune(text), n) {
		list = append(list, string(piece))
	}
	return list
}

func signal(g *Degeneration) string {
	if g == nil {
		return ""
	}
	return g.Signal
}

// The example of the specification, word by word.
func TestDegenerateExample(t *testing.T) {
	want := &Degeneration{
		Session: "s", Signal: "control_token",
		Message:     "degenerate reasoning stream: provider control token leakage (<|channel>)",
		Diagnostics: event.Raw(`{"abort_signal":"control_token","observed_total":1,"hex_total":0,"hex_in_window":0,"window_size":2048,"consecutive_hex":0,"progress_in_window":0}`),
	}
	if diff := cmp.Diff(want, thought("<|channel>")); diff != "" {
		t.Error(diff)
	}
}

func TestDegenerateTokens(t *testing.T) {
	for text, leaked := range map[string]bool{
		"<|channel|>analysis":                            true,
		"<|im_start|>":                                   true,
		"<|return|>":                                     true,
		"<|analysis|>":                                   true,
		"\n<|end|>":                                      true,
		"We are done.<|end|><|start|>assistant":          true,
		"We are done<|return|>":                          true,
		"We are done. Good!<|endoftext|>More":            true,
		"It isn't so<|end|>":                             true,
		"Well.\n<|im_start|>user\nHi":                    true,
		"Well.\n<|im_end|>\n<|im_start|>assistant\n":     true,
		"好的<|im_end|>":                                   true,
		"<tool_call>\n{\"name\": \"bash\"}\n":            true,
		"I will look.\n<tool_call>\n{\"name\": \"ls\"}":  true,
		"I will look.\n<tool_call>{\"name\": \"ls\"}":    true,
		"ok\n<|/tool_call|><|im_end|>":                   true,
		"Fine.<｜tool▁calls▁begin｜>":                      true,
		"```\ncode\n```\nWell.<|end|>":                   true,
		"`code` and \"words\", then more.<|end|>":        true,
		"<|channel":                                      false,
		"<|endless":                                      false,
		"<|endless|>":                                    false,
		"see <tool_calls> below":                         false,
		"<tool_calls>":                                   false,
		"the <|start|> token":                            false,
		"the token <|start|>":                            false,
		"it is <|start|>, then <|end|>.":                 false,
		"a message is <|start|>user<|message|>Hi<|end|>": false,
		"`<|start|>user`":                                false,
		"\"<|start|>user<|end|>\"":                       false,
		"encode('<|im_start|>user<|im_end|>')":           false,
		"x=<|pad|>y<|pad|>":                              false,
		"- <|start|>user":                                false,
		"```\n<|start|>user<|end|>\n":                    false,
		"a\n<|start|>\nb":                                false,
		"a\n<tool_call> is a tag":                        false,
		"<|workflow: exit|>":                             false,
		"a <|> b":                                        false,
		"<>":                                             false,
		"<|>":                                            false,
	} {
		for _, n := range []int{1, 2, 3, 5, 100} {
			if got := signal(thought(pieces(text, n)...)); (got == "control_token") != leaked {
				t.Errorf("%q in pieces of %d: %q", text, n, got)
			}
		}
	}
	if g := thought("<|", "channel", "|>"); signal(g) != "control_token" {
		t.Error("split over three deltas it was not found")
	}
	for _, text := range []string{"<|start|> is a token", "<|start|>, the first"} { // whole, it is seen that somebody writes about it
		if g := thought(text); g != nil {
			t.Errorf("%q: %v", text, g)
		}
	}
}

// A token does not reach from one block into another, nor does a fence.
func TestDegenerateBlocks(t *testing.T) {
	var d Detector
	for _, b := range []event.Body{
		event.ThoughtDelta{ID: "1", Text: "```\n<|start|>x <|"}, event.Thought{ID: "1", Text: "```\n<|start|>x <|"},
		event.TextDelta{ID: "2", Text: "channel|>"}, event.Text{ID: "2", Text: "channel|>"},
	} {
		d.Apply(event.Event{Body: b}.Stamp())
	}
	if d.Found != nil {
		t.Errorf("%+v", d.Found)
	}
	d.Apply(event.Event{Header: event.Header{Agent: "task-1"}, Body: event.Text{ID: "3", Text: "Done.<|end|>"}}.Stamp()) // a block without deltas
	if d.Found == nil || d.Found.Agent != "task-1" {
		t.Errorf("%+v", d.Found)
	}
}

// hexes are random hex characters.
func hexes(n int) (list []string) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		list = append(list, string("0123456789abcdefABCDEF"[r.IntN(22)]))
	}
	return list
}

func TestDegenerateHex(t *testing.T) {
	if g := thought(hexes(255)...); g != nil {
		t.Error("255 are enough already", g)
	}
	g := thought(append([]string{"", "So", ":", ""}, hexes(256)...)...)
	want := `{"abort_signal":"hex_run","observed_total":258,"hex_total":256,"hex_in_window":256,"window_size":2048,"consecutive_hex":256,"progress_in_window":1}`
	if signal(g) != "hex_run" || string(g.Diagnostics) != want || g.Message != "degenerate reasoning stream: 256 consecutive single-character hex deltas" {
		t.Errorf("%+v", g)
	}

	// Every second delta is one, and the others say nothing: it is found when the window is full.
	mixed := func(between string) (list []string) {
		for _, h := range hexes(1100) {
			list = append(list, h, between)
		}
		return list
	}
	g = thought(mixed(" ")...)
	want = `{"abort_signal":"hex_dominance","observed_total":2048,"hex_total":1024,"hex_in_window":1024,"window_size":2048,"consecutive_hex":0,"progress_in_window":0}`
	if signal(g) != "hex_dominance" || string(g.Diagnostics) != want {
		t.Errorf("%+v", g)
	}
	for _, between := range []string{"\n", " xor ", "ü"} {
		if g := thought(mixed(between)...); g != nil {
			t.Errorf("%q in between: %+v", between, g)
		}
	}
	if g := thought(append([]string{"word"}, mixed("-")...)...); signal(g) != "hex_dominance" { // the word is forgotten in time
		t.Errorf("%+v", g)
	}
	if g := thought(pieces(strings.Repeat("0123456789", 200), 1)...); g != nil {
		t.Errorf("digits: %+v", g)
	}
}

func TestDegenerateRepetition(t *testing.T) {
	for name, deltas := range map[string][]string{
		"100 000 identical deltas": slices.Repeat([]string{"the"}, 100_000),
		"a sentence":               slices.Repeat([]string{"I ", "should ", "check ", "that again.\n"}, 2000),
		"line breaks":              slices.Repeat([]string{"\n"}, 40_000),
		"one digit":                slices.Repeat([]string{"0"}, 40_000),
		"in one delta":             {strings.Repeat("loop ", 20_000)},
		"after a long beginning":   append(pieces(ascending(60_000), 7), slices.Repeat([]string{"ha"}, 20_000)...),
		"a page":                   slices.Repeat(pieces(ascending(2000), 11), 12),
	} {
		if g := thought(deltas...); signal(g) != "repetition" {
			t.Errorf("%s: %+v", name, g)
		}
	}
	for name, deltas := range map[string][]string{
		"not long enough":  slices.Repeat([]string{"z"}, 16<<10),
		"numbered":         pieces(ascending(200_000), 5),
		"a page too large": slices.Repeat(pieces(ascending(2100), 11), 50),
	} {
		if g := thought(deltas...); g != nil {
			t.Errorf("%s: %+v", name, g)
		}
	}

	// Somebody may have asked for a text that repeats itself; but not for so much of it.
	for name, deltas := range map[string][]string{
		"200 kB of a sentence": pieces(strings.Repeat("slow words here ", 12_500), 4),
		"200 kB of a letter":   pieces(strings.Repeat("x", 200_000), 4),
		"99 999 deltas":        slices.Repeat([]string{"x"}, 99_999),
	} {
		if g := said(deltas...); g != nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
	for name, deltas := range map[string][]string{
		"300 kB of a sentence": pieces(strings.Repeat("slow words here ", 18_750), 4),
		"300 kB at once":       {strings.Repeat("slow words here ", 18_750)},
		"100 000 deltas":       slices.Repeat([]string{"x"}, 100_000),
	} {
		if g := said(deltas...); signal(g) != "repetition" {
			t.Errorf("%s: %+v", name, g)
		}
	}

	deltas := slices.Repeat([]string{"the"}, 100_000)
	var d struct {
		ObservedTotal int `json:"observed_total"`
	}
	if json.Unmarshal(thought(deltas...).Diagnostics, &d); d.ObservedTotal > 7000 {
		t.Errorf("it took %d deltas", d.ObservedTotal)
	}
}

// ascending is a text of numbers that does not repeat itself.
func ascending(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("x", i%7) + " line " + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + "\n")
	}
	return b.String()[:n]
}

// An answer that is asked for again begins anew, and so does the next turn.
func TestDegenerateTurns(t *testing.T) {
	for _, between := range []event.Body{event.Retry{}, event.TurnEnded{}, event.TurnStarted{}, event.ReplyDone{}} {
		var d Detector
		for range 3 {
			for _, h := range hexes(200) {
				d.Apply(event.Event{Body: event.TextDelta{Text: h}}.Stamp())
			}
			d.Apply(event.Event{Body: between}.Stamp())
		}
		if d.Found != nil {
			t.Errorf("%T: %+v", between, d.Found)
		}
	}
}

// What ordinary answers look like, in whatever pieces they come.
func TestDegenerateFalseAlarms(t *testing.T) {
	files, _ := filepath.Glob("testdata/degenerate/*")
	if len(files) < 25 {
		t.Fatal("where is the corpus?")
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 2, 3, 4, 7, 16, 64, 4096, 1 << 20} {
			if g := thought(pieces(string(data), n)...); g != nil {
				t.Errorf("%s in pieces of %d: %s", f, n, g.Message)
			}
		}
	}
}

// Our own files are ordinary as well; each is one answer.
func TestDegenerateOwnFiles(t *testing.T) {
	n := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2 {
				return filepath.SkipDir
			}
			return err
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" || strings.HasPrefix(e.Name(), "degenerate") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		if g := thought(pieces(string(data), 6)...); g != nil {
			t.Errorf("%s: %s %s", path, g.Message, g.Diagnostics)
		}
		return nil
	})
	if err != nil || n < 300 {
		t.Error(n, err)
	}
}

func BenchmarkDetector(b *testing.B) {
	deltas := pieces(ascending(200_000), 4)
	b.SetBytes(200_000)
	for b.Loop() {
		if thought(deltas...) != nil {
			b.Fatal("it is not")
		}
	}
}
