package secret

import (
	"unicode/utf16"
	"unicode/utf8"
)

// A reading is a way to take a text: with as many layers of backslash escapes as its number says (JSON inside JSON), or as a
// part of a URL.
type reading int

const (
	deepest reading = 3
	percent reading = -1
)

// A unit is what one character, or one escape, stands for: a character, or a byte of one.
type unit struct {
	b [utf8.UTFMax]byte
	n int
}

func one(c byte) unit { return unit{[utf8.UTFMax]byte{c}, 1} }

func (u unit) is(c byte) bool { return u.n == 1 && u.b[0] == c }

// next returns what stands at i, and where it ends. It is not ok if the text ends too soon to know.
func (r reading) next(s string, i int) (u unit, end int, ok bool) {
	switch {
	case i >= len(s):
		return u, i, false
	case r == 0:
		return one(s[i]), i + 1, true
	case r == percent:
		return escaped(s, i)
	}
	below := r - 1
	u, i, ok = below.next(s, i)
	if !ok || !u.is('\\') {
		return u, i, ok
	}
	letter, end, ok := below.next(s, i)
	if !ok {
		return u, i, false
	}
	switch c := letter.b[0]; {
	case letter.n != 1:
		return u, i, true // a backslash, and nothing else
	case control[c] != 0:
		return one(control[c]), end, true
	case c == 'u':
		return below.unicode(s, i, end)
	case c == 'x':
		v, end, valid, ok := below.hex(s, end, 2)
		if !valid {
			return u, i, ok
		}
		return one(byte(v)), end, ok
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c <= ' ' && c != ' ':
		return u, i, true
	}
	return letter, end, true // a shell escapes every sign so
}

var control = [256]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f'}

// unicode reads the digits after a \u; slash is where the backslash ends.
func (r reading) unicode(s string, slash, digits int) (u unit, end int, ok bool) {
	v, end, valid, ok := r.hex(s, digits, 4)
	if !ok || !valid {
		return one('\\'), slash, ok
	}
	c := rune(v)
	if utf16.IsSurrogate(c) {
		low, lowEnd, valid, ok := r.lowHalf(s, end)
		if !ok {
			return u, slash, false
		}
		if valid {
			c, end = utf16.DecodeRune(c, low), lowEnd
		}
	}
	u.n = utf8.EncodeRune(u.b[:], c)
	return u, end, true
}

// lowHalf reads the \uXXXX that follows another.
func (r reading) lowHalf(s string, i int) (low rune, end int, valid, ok bool) {
	for _, c := range []byte{'\\', 'u'} {
		u, next, ok := r.next(s, i)
		if !ok || !u.is(c) {
			return 0, i, false, ok
		}
		i = next
	}
	v, end, valid, ok := r.hex(s, i, 4)
	return rune(v), end, valid, ok
}

// hex reads n digits. It is not ok if the text ends in them.
func (r reading) hex(s string, i, n int) (v int, end int, valid, ok bool) {
	for range n {
		u, next, ok := r.next(s, i)
		if !ok {
			return 0, i, false, false
		}
		d := digit(u.b[0])
		if u.n != 1 || d < 0 {
			return 0, i, false, true
		}
		v, i = v<<4|d, next
	}
	return v, i, true, true
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// escaped reads a byte of a URL, which may stand in JSON.
func escaped(s string, i int) (u unit, end int, ok bool) {
	u, i, ok = reading(1).next(s, i)
	if !ok || !u.is('%') {
		return u, i, ok
	}
	v, end, valid, ok := reading(0).hex(s, i, 2)
	if !valid {
		return u, i, ok
	}
	return one(byte(v)), end, ok
}
