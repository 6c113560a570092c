package spell

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"model", "mode", "base_url", "text", "finish", "Anthropic", "ok", "x"}
	for word, want := range map[string]string{
		"modell":    "model",
		"modle":     "model",
		"MODEL":     "model",
		"mod":       "mode",
		"modes":     "model", // as near as mode, and before it
		"baseurl":   "base_url",
		"base-url":  "base_url",
		"txt":       "text",
		"anthopic":  "Anthropic",
		"oj":        "ok",
		"colour":    "",
		"y":         "", // nobody means another word of one letter
		"":          "",
		"texttextt": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Nearest("word", nil); got != "" {
		t.Errorf("of no words: %q", got)
	}
	if got := Nearest(strings.Repeat("a", 8<<20), known); got != "" {
		t.Errorf("a long word: %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"abc", "axc", 1}, {"abc", "ac", 1}, {"abc", "abxc", 1},
		{"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"modle", "model", 1}, {"ab", "ba", 1},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := distance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
