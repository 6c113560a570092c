package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/internal/pattern"
)

// Shown is how much of an output a model is shown, in bytes, if nobody says otherwise. What tools cut themselves fits in.
const Shown = 50_000

// Cut returns what a model is shown of a long output: its beginning and its end, in whole lines where there are any, and a note
// between them that says how much is missing. If a tool has put the whole into a file, the note names it. A limit of 0 is
// [Shown].
func Cut(output string, limit int) string {
	if limit <= 0 {
		limit = Shown
	}
	if len(output) <= limit {
		return output
	}
	head := wholeLines(output[:limit/2])
	tail := wholeTail(output[len(output)-limit/2:])
	gone := output[len(head) : len(output)-len(tail)]
	if m := noted().FindStringSubmatch(gone); m != nil {
		return head + note(0, 0, m[1]) + tail
	}
	return head + note(int64(len(gone)), strings.Count(gone, "\n"), "") + tail
}

var noted = pattern.Lazy(`(?m)^\[… .*all of it is in (.+)\]$`)

// note is the line where something is left out. Zero bytes: more than is worth saying.
func note(bytes int64, lines int, file string) string {
	text := "a part"
	if bytes > 0 {
		text = fmt.Sprintf("%d bytes", bytes)
		if lines > 0 {
			text += fmt.Sprintf(" (%d lines)", lines)
		}
	}
	if file != "" {
		return fmt.Sprintf("\n[… %s left out; all of it is in %s]\n", text, file)
	}
	return fmt.Sprintf("\n[… %s left out]\n", text)
}

// wholeLines drops the half line at the end, if there is a whole one.
func wholeLines(s string) string {
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		return s[:i+1]
	}
	return s[:wholeRunes(s)]
}

// wholeTail drops the half line at the beginning, if there is a whole one.
func wholeTail(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 && i+1 < len(s) {
		return s[i+1:]
	}
	for i := range min(utf8.UTFMax, len(s)) {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return ""
}

// wholeRunes says how much of s is not the beginning of a character that is cut off.
func wholeRunes[T string | []byte](s T) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(s)); back++ {
		if c := s[len(s)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune([]byte(s[len(s)-back:])) {
				return len(s) - back
			}
			break
		}
	}
	return len(s)
}
