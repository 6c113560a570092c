package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote returns the text of a JSON string literal, quotes included. What is not UTF-8 in it becomes U+FFFD.
func Unquote(lit []byte) (string, bool) {
	if len(lit) == 0 || lit[0] != '"' {
		return "", false
	}
	s := scanner{data: lit}
	text, end := s.text(0)
	return text, end == len(lit)
}

// text reads the string whose opening quote is at i, as str does, and returns what it stands for. A string without
// escapes is one copy.
func (s *scanner) text(i int) (text string, end int) {
	data := s.data
	from := i + 1
	i, seen := run(data, from)
	if i < len(data) && data[i] == '"' {
		return sound(data[from:i], seen), i + 1
	}

	scratch := scratches.Get().(*[]byte)
	t := *scratch
	n := 0
	for i = from; ; {
		if n+16 > len(t) { // for a word, and a character after it
			t = append(t, make([]byte, 1024+len(t))...)
		}
		if i+8 <= len(data) {
			// The whole word is written, and as much of it kept as there is before the stop.
			x := binary.LittleEndian.Uint64(data[i:])
			binary.LittleEndian.PutUint64(t[n:], x)
			stop := stops(x)
			if stop == 0 {
				seen |= x
				n += 8
				i += 8
				continue
			}
			seen |= x & (stop - 1) &^ stop
			k := bits.TrailingZeros64(stop) / 8
			n += k
			i += k
		}
		if i >= len(data) {
			i = s.fail(i, "")
			break
		}
		c := data[i]
		if c == '\\' && i+1 < len(data) && escapes[data[i+1]] != 0 {
			t[n] = escapes[data[i+1]]
			n++
			i += 2
			continue
		}
		if c == '\\' {
			if s.unicode(i) < 0 {
				i = -1
				break
			}
			r, k := char(data[i:])
			n += utf8.EncodeRune(t[n:], r)
			i += k
			continue
		}
		if c == '"' {
			text = sound(t[:n], seen)
			i++
			break
		}
		if c < ' ' {
			i = s.fail(i, "control character in a string")
			break
		}
		seen |= uint64(c) // among the last seven bytes
		t[n] = c
		n++
		i++
	}
	*scratch = t
	scratches.Put(scratch)
	return text, i
}

// run returns the index of the first byte from i on that ends a run of plain string, or of one among the last seven of
// data; and the bytes before it, for their high bits.
func run(data []byte, i int) (int, uint64) {
	var seen uint64
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		if stop := stops(x); stop != 0 {
			return i + bits.TrailingZeros64(stop)/8, seen | x&(stop-1)&^stop
		}
		seen |= x
	}
	return i, seen
}

// Strings with escapes are put together here before they are copied out at their true length.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// sound returns b as a string, with U+FFFD for each byte that is not UTF-8; seen has the high bits of its bytes.
func sound(b []byte, seen uint64) string {
	if seen&highs != 0 && !utf8.Valid(b) {
		return string([]rune(string(b)))
	}
	return string(b)
}

// char returns the first character of the inside of a string literal, and its length there. The character is checked,
// what follows need not be.
func char(b []byte) (rune, int) {
	if b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	if b[1] != 'u' {
		return rune(escapes[b[1]]), 2
	}
	r := unit(b)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if pair := utf16.DecodeRune(r, unit(b[6:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// unit returns the value of the \uXXXX that b begins with, or -1 if the digits are none.
func unit(b []byte) rune {
	var r rune
	for _, c := range b[2:6] {
		if unhex[c] == 0 {
			return -1
		}
		r = r<<4 | rune(unhex[c]-1)
	}
	return r
}

// reads says whether the checked inside of a string literal stands for s.
func reads(b []byte, f flags, s string) bool {
	if f == 0 {
		return string(b) == s
	}
	var utf [utf8.UTFMax]byte
	for len(b) > 0 {
		r, n := char(b)
		b = b[n:]
		n = utf8.EncodeRune(utf[:], r)
		if len(s) < n || s[:n] != string(utf[:n]) {
			return false
		}
		s = s[n:]
	}
	return s == ""
}

// AppendString appends s as a JSON string. What is not UTF-8 in it is written as U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(slices.Grow(dst, len(s)+2), '"')
	from := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				dst = append(dst, s[from:i]...)
				dst = append(dst, `\ufffd`...)
				from = i + n
			case r == '\u2028' || r == '\u2029': // line ends to JavaScript; encoding/json escapes them too
				dst = append(dst, s[from:i]...)
				dst = append(dst, `\u202`...)
				dst = append(dst, hex[r&0xF])
				from = i + n
			}
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// plain returns the index of the first byte from i on that does not go into a JSON string just as it is.
func plain(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		w := s[i : i+8]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		if stop := stops(x) | x&highs; stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for i < len(s) && ' ' <= s[i] && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// AppendRaw appends raw, compacted onto one line. What is not valid JSON is appended as a JSON string of its text, and
// nothing as null: whatever raw holds, the result is JSON.
func AppendRaw(dst []byte, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	s := scanner{data: raw}
	if !s.whole() {
		return AppendString(dst, string(raw))
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
		s.data = raw
	}
	if !s.spaced {
		return append(dst, raw...)
	}
	for i := s.space(0); i < len(raw); i = s.space(i) {
		end := i + 1
		if raw[i] == '"' {
			end, _ = s.str(i)
		}
		dst = append(dst, raw[i:end]...)
		i = end
	}
	return dst
}
