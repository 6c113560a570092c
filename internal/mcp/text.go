package mcp

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tame drops what cannot be seen: control characters but for new lines and tabs, and the marks by which text is hidden or
// turned around. The limit is in bytes.
func tame(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	return cut(strings.TrimSpace(s), limit)
}

// oneLine tames a text and keeps it on one line.
func oneLine(s string, limit int) string {
	return cut(strings.Join(strings.Fields(tame(s, 4*limit)), " "), limit)
}

// firstLine is the first line of a text that says something.
func firstLine(s string, limit int) string {
	for line := range strings.Lines(s) {
		if line = oneLine(line, limit); line != "" {
			return line
		}
	}
	return ""
}

// cut shortens a text to whole characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
