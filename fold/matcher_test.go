package fold

import (
	"slices"
	"strings"
	"testing"
)

// matches is the table in the comment of Matcher, and more.
var matches = []struct {
	text string
	want int
}{
	{"[finding] the lock is never freed", 1},
	{"[FINDING]", 1},
	{"x[finding][finding]", 2},
	{"[[finding]", 1},
	{"{finding}", 0},
	{"[findings]", 0},
	{"the reviewer flagged two places", 1},
	{"Reviewer\n  flagged", 1},
	{"reviewer: flagged", 0},
	{"Correction needed: use a mutex", 1},
	{"no correction needed", 0},
	{"No **correction needed**", 0},
	{"failed test", 1},
	{"a failed test.", 1},
	{"2 failed tests", 1},
	{"10 failed tests", 1},
	{"1,000 failed tests", 1},
	{"0000000000000000000000001 failed tests", 1},
	{"0 failed tests", 0},
	{"no failed tests", 0},
	{"zero failed tests", 0},
	{"without failed tests", 0},
	{"0 **failed tests**", 0},
	{"casino failed tests", 1},
	{"12 passed, 0 failed tests", 0},
	{"12 passed. 3 failed tests", 1},
	{"failed tests: 0", 0},
	{"Failed tests: none", 0},
	{"failed tests (0)", 0},
	{"failed tests: 3", 1},
	{"failed tests:\n- TestFoo", 1},
	{"failed tests: TestFoo", 1},
	{"failed testing", 0},
	{"failed_test", 0},
	{"unfailed test", 0},
	{"confidence: 75%", 1},
	{"Confidence:75", 1},
	{"**Confidence:** 75%", 1},
	{"confidence: 60", 1},
	{"confidence: 60.", 1},
	{"confidence: 60.5%", 1},
	{"confidence: 100%", 1},
	{"confidence = 80%", 1},
	{"confidence: ~80%", 1},
	{"confidence: high (85%)", 1},
	{"confidence: high", 0},
	{"{\"confidence\": 85}", 1},
	{"confidence_score: 85", 1},
	{"confidence score: 80", 1},
	{"confidence 95%", 1},
	{"confidence 95 %", 1},
	{"confidence score of 60%", 1},
	{"confidence 95", 0},
	{"confidence: 59.9%", 0},
	{"confidence: 6", 0},
	{"confidence: 60ms", 0},
	{"confidence: 600", 0},
	{"confidence: 0.9", 0},
	{"confidence ≥60%", 0},
	{"95% confidence interval", 0},
	{"overconfidence: 80%", 0},
	{"confidence: 80%, confidence: 90%", 2},
	{"reviewer flagged it [finding] confidence: 80 and 1 failed test", 4},
	{"nothing is wrong here", 0},
	{"", 0},
}

func TestMatcher(t *testing.T) {
	for _, tt := range matches {
		if got := CountFindings(tt.text); got != tt.want {
			t.Errorf("%q has %d findings, want %d", tt.text, got, tt.want)
		}
		if got := countPieces(tt.text, 1); got != tt.want {
			t.Errorf("%q byte by byte has %d findings, want %d", tt.text, got, tt.want)
		}
		if got := CountFindings(strings.ToUpper(tt.text)); got != tt.want {
			t.Errorf("%q in capitals has %d findings, want %d", tt.text, got, tt.want)
		}
	}
}

func countPieces(text string, size int) (n int) {
	var m Matcher
	for piece := range slices.Chunk([]byte(text), size) {
		n += m.Write(string(piece))
	}
	return n + m.Close()
}

// However a text is cut, the findings are the same, and each is decided at the same place.
func FuzzMatcher(f *testing.F) {
	for _, tt := range matches {
		f.Add(tt.text, uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		var m Matcher
		first := m.Write(text[:i])
		got := first + m.Write(text[i:j]) + m.Write(text[j:])
		if upto := countOpen(text[:i]); upto != first {
			t.Errorf("%q decided %d findings, byte by byte %d", text[:i], first, upto)
		}
		got += m.Close()
		if want := CountFindings(text); got != want {
			t.Errorf("%q | %q | %q has %d findings, the whole %d", text[:i], text[i:j], text[j:], got, want)
		}
		if m != (Matcher{}) {
			t.Error("a closed Matcher is not as new")
		}
		n, at := firstFinding(text)
		if n != CountFindings(text) || n > 0 && (at < 0 || at > len(text)) {
			t.Errorf("%q: first finding of %d at %d", text, n, at)
		}
		if n > 0 {
			lineAt(text, at)
		}
	})
}

// countOpen counts byte by byte, without the end.
func countOpen(text string) (n int) {
	var m Matcher
	for i := range len(text) {
		n += m.Write(text[i : i+1])
	}
	return n
}

func TestExcerpt(t *testing.T) {
	for text, want := range map[string]string{
		"one\ntwo failed tests\n\nthree":                 "two failed tests",
		"one\nfailed test\n":                             "failed test",
		"a\n\x1b[31m confidence:\t80\x07\nb":             "[31m confidence: 80",
		strings.Repeat("é", 300) + " [finding] here":     strings.Repeat("é", 35) + " [finding] here",
		"[finding] " + strings.Repeat("long ", 50) + "x": "[finding] " + strings.Repeat("long ", 37) + "lon…",
	} {
		n, at := firstFinding(text)
		if got := lineAt(text, at); n != 1 || got != want {
			t.Errorf("%q: %d findings, %q, want %q", text, n, got, want)
		}
	}
}
