package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file keeps text from driving the terminal, and measures it.

// tame takes from a text what a terminal would obey: control characters but newline and tab, among them ESC and the C1
// controls, and what turns the direction of writing around. What it takes leaves a mark, but for a carriage return.
func tame(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n', r == '\t':
			return r
		case obeyed(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// tameLine makes one tame line of a text.
func tameLine(s string) string { return flat(tame(strings.TrimSpace(s))) }

// obeyed says whether a rune is a command to a terminal rather than something to see.
func obeyed(r rune) bool {
	switch {
	case unicode.IsControl(r): // C0, DEL, C1
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidirectional embeddings, overrides, isolates
		return true
	case r == 0x2028, r == 0x2029: // line and paragraph separators
		return true
	}
	return false
}

// asciiWords are what is written in the place of runes that an ASCII terminal has not.
var asciiWords = map[rune]string{
	'✓': "ok", '✗': "x", '⊘': "denied", '■': "stopped", '∴': "~", '▸': ">", '◂': "<", '↻': "again:", '·': "-", '…': "...",
	'−': "-", '→': "->", '‘': "'", '’': "'", '“': `"`, '”': `"`, '–': "-", '—': "--", '\u00a0': " ",
}

// ascii rewrites text for a terminal that may not read UTF-8. Such a terminal may obey single bytes above 0x7f, so none passes.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
		} else if word, ok := asciiWords[r]; ok {
			out = append(out, word...)
		} else {
			out = append(out, '?')
		}
	}
	return out
}

// asciiLocale says whether the environment asks for something else than UTF-8. An environment that says nothing, as in most
// containers, does not.
func asciiLocale(getenv func(string) string) bool {
	locale := strings.ToLower(one(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}

// cut returns as much of a line as fits into columns. It leaves a few even if there are none.
func cut(s string, columns int) string {
	columns = max(columns, 16)
	if len(s) <= columns || width(s) <= columns {
		return s
	}
	n := 1 // for the mark
	for i, r := range s {
		if n += columnsOf(r); n > columns {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// width is roughly how many columns a line takes.
func width(s string) (n int) {
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// countLines counts the lines of a text; the last may have no newline.
func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
