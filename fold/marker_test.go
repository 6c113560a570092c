package fold

import (
	"slices"
	"strings"
	"testing"
)

// markers finds the markers of a text that comes in pieces of n bytes.
func markers(text string, n int) (list []Marker) {
	var m Markers
	keep := func(found Marker) { list = append(list, found) }
	for piece := range slices.Chunk([]byte(text), n) {
		m.Write(string(piece), keep)
	}
	m.Close(keep)
	return list
}

func TestMarkers(t *testing.T) {
	loop := func(word, label string) Marker { return Marker{"loop", word, label} }
	status := func(word, label string) Marker { return Marker{"status", word, label} }
	long := strings.Repeat("very ", 4000) + "long"
	for text, want := range map[string][]Marker{
		// The forms, their words and labels.
		"<|workflow: exit|>":                  {loop("exit", "")},
		"<|workflow: exit | tests green|>":    {loop("exit", "tests green")},
		"<|WORKFLOW:Abort|why|>":              {loop("abort", "why")},
		"<|workflow:continue|>":               {loop("continue", "")},
		"[loop: exit]":                        {loop("exit", "")},
		"[loop: exit | tests green]":          {loop("exit", "tests green")},
		"[Loop:ABORT|  blocked  ]":            {loop("abort", "blocked")},
		"[exit]":                              {loop("exit", "")},
		"[abort]":                             {loop("abort", "")},
		"[exit | all done]":                   {loop("exit", "all done")},
		"[ abort | a | b ]":                   {loop("abort", "a | b")},
		"[loop: exit | " + long + "]":         {loop("exit", long)},
		"<|workflow: exit | " + long + "|>":   {loop("exit", long)},
		"  \t[exit]  ":                        {loop("exit", "")},
		"Done.\r\n[exit]\r\n":                 {loop("exit", "")},
		"Done.\n\n[loop: exit | ü→]\n\nMore.": {loop("exit", "ü→")},

		"<|workflow: abort | blocked on a |> b | c|>": {loop("abort", "blocked on a |> b | c")},

		// What is none.
		"[loop: stop]":                     nil,
		"[workflow: exit]":                 nil,
		"<|loop: exit|>":                   nil,
		"<|exit|>":                         nil,
		"[loop: exit] is what I would say": nil,
		"I would say [loop: exit]":         nil,
		"[exit](https://example.com)":      nil,
		"[exit]: https://example.com":      nil,
		"[loop: exit | a] b]":              nil,
		"[exit] [abort]":                   nil,
		"> [exit]":                         nil,
		"- <|workflow: exit|>":             nil,
		"**<|workflow: exit|>**":           nil,
		"`[exit]`":                         nil,
		"```[exit]```":                     nil, // code in a line, and no fence
		"[exit":                            nil,
		"[loop:\nexit]":                    nil,
		"<|workflow: exit":                 nil,
		"[exiting]":                        nil,
		"":                                 nil,

		// Fences.
		"```\n[exit]\n```":                           nil,
		"```\n[exit]\n```\n[abort]":                  {loop("abort", "")},
		"~~~ text\n[exit]\n~~~\n[exit]":              {loop("exit", "")},
		"````\n```\n[exit]\n```\n[exit]\n````":       nil,
		"````\n```\n````\n[exit]":                    {loop("exit", "")},
		"```\n~~~\n[exit]\n~~~\n[exit]\n```":         nil,
		"```go\nx\n``` not the end\n[exit]\n```":     nil,
		"  ```\n[exit]\n  `````\n[exit]":             {loop("exit", "")},
		"```\n" + long + "\n" + long + "\n[exit]\n":  nil,
		"~~~~\n[exit]\n~~~\n[exit]":                  nil,
		"``\n[exit]\n``":                             {loop("exit", "")},
		"```a`b\n[exit]":                             {loop("exit", "")}, // no fence: there is a back-tick after it
		"```\n[status: done]\n```\n[status: done]\n": {status("done", "")},

		// Several, in their order.
		"[continue]\n[exit | a]\n[exit | b]\n[abort]": {loop("continue", ""), loop("exit", "a"), loop("exit", "b"), loop("abort", "")},

		// Status.
		"[status: working | a] and [status: done]":                    {status("working", "a"), status("done", "")},
		"so [Status:THINKING] go":                                     {status("thinking", "")},
		"[status: working | fix [a, b] and c]":                        {status("working", "fix [a, b")}, // as the form says: no ] in a label
		"<|status: waiting | for you|>":                               {status("waiting", "for you")},
		"a <|status: waiting|>":                                       {},
		"[status: idle]":                                              {},
		"[status: working\n| x]":                                      {},
		"[1] [2] [status: done] [3]":                                  {status("done", "")},
		"[status: working | " + long + "] " + long + " [status:done]": {status("working", long), status("done", "")},
	} {
		for _, n := range []int{1, 2, 3, 7, 64, 1 << 20} {
			if got := markers(text, n); !slices.Equal(got, want) {
				if len(text) > 80 {
					text = text[:80] + "…"
				}
				t.Errorf("%q in pieces of %d: %.200v, want %.200v", text, n, got, want)
				break
			}
		}
	}
}

// A marker is the same wherever the text is cut in two, and so is what is none.
func TestMarkersCutAnywhere(t *testing.T) {
	text := "Well.\n```\n[exit]\n```\n<|workflow: exit | a |> b|>\n[loop: abort | c]\n[exit] no\n[status: working | d]\n[exit]"
	want := markers(text, len(text))
	if len(want) != 4 {
		t.Fatal(want)
	}
	for i := range text {
		var m Markers
		var got []Marker
		keep := func(found Marker) { got = append(got, found) }
		m.Write(text[:i], keep)
		m.Write(text[i:], keep)
		m.Close(keep)
		if !slices.Equal(got, want) {
			t.Errorf("cut at %d: %v", i, got)
		}
	}
}

// A status is found at its bracket, a directive only when its line has ended: more may follow on it.
func TestMarkersWait(t *testing.T) {
	var m Markers
	n := 0
	count := func(Marker) { n++ }
	for _, step := range []struct {
		piece string
		want  int
	}{{"[status: working", 0}, {"]", 1}, {"\n[exit]", 1}, {" ", 1}, {"\n", 2}, {"[exit]", 2}, {" or not\n", 2}} {
		if m.Write(step.piece, count); n != step.want {
			t.Fatalf("after %q: %d, want %d", step.piece, n, step.want)
		}
	}
}

func TestDirective(t *testing.T) {
	for text, want := range map[string]Marker{
		"nothing":                                {},
		"[exit | a]\n[exit | b]":                 {"loop", "exit", "a"},
		"[exit | a]\n[abort | b]\n[abort | c]":   {"loop", "abort", "b"},
		"[abort]\n[exit]":                        {"loop", "abort", ""},
		"[continue | more]":                      {"loop", "continue", "more"},
		"[status: done]\n[continue]\n[exit | x]": {"loop", "exit", "x"},
	} {
		if got := Directive(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// However long a line is, it costs what it has bytes.
func TestMarkersLongLine(t *testing.T) {
	var m Markers
	for range 200_000 {
		m.Write("[a]", func(Marker) { t.Error("a marker") })
	}
	m.Close(func(Marker) { t.Error("a marker") })
}

func FuzzMarkers(f *testing.F) {
	f.Add("a\n```\n[exit]\n```\n[loop: exit | b]", 3)
	f.Add("```[status: done]```", 17)
	f.Add("<|workflow: abort | x |> y|>\r\n~~~~\n~~~\n", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = min(max(n, 1), 1<<20)
		if a, b := markers(text, n), markers(text, len(text)+1); !slices.Equal(a, b) {
			t.Errorf("%q in pieces of %d: %v, whole: %v", text, n, a, b)
		}
	})
}
