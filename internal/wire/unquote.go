package wire

import (
	"encoding/binary"
	"math/bits"
	"strings"
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
	n, high := stretch(data[from:])
	i = from + n
	for i < len(data) && data[i] >= ' ' && data[i] != '"' && data[i] != '\\' { // among the last bytes
		high = high || data[i] >= utf8.RuneSelf
		i++
	}
	if i < len(data) && data[i] == '"' {
		return sound(data[from:i], high), i + 1
	}

	scratch := scratches.Get().(*[]byte)
	u := unquoting{scanner: s, text: *scratch, ours: true}
	if i = u.read(from); i >= 0 {
		text = sound(u.text[:u.n], u.high)
		if u.ours && len(text) >= enough && (!u.high || asIs(text)) {
			latest.keep(text, data[from:i-1])
		}
	}
	*scratch = u.text
	scratches.Put(scratch)
	return text, i
}

// An unquoting is a string literal that is being read.
type unquoting struct {
	*scanner
	text []byte // what was read, and room
	n    int    // how much was read
	high bool   // there may be bytes beyond ASCII in it
	ours bool   // all escapes are those that AppendString would write
}

const (
	escapeChunk = 4 << 10 // of a string at a time, so that there need not be room for more
	escapeEnd   = 17      // as close to the end unescape and escape come; what is left may be one less
)

// read reads from i on to the end of the literal, and returns where that is.
func (u *unquoting) read(i int) int {
	data := u.data
	for i+escapeEnd <= len(data) {
		chunk := data[i:min(len(data), i+escapeChunk)]
		u.grow(len(chunk))
		read, wrote, high, slash := unescape(u.text[u.n:], chunk)
		i += read
		u.n += wrote
		u.high, u.ours = u.high || high, u.ours && !slash
		if len(chunk)-read < escapeEnd {
			continue // at the chunk's end
		}
		end := data[i] == '"'
		if i = u.stop(i); i < 0 || end {
			return i
		}
	}
	u.grow(len(data) - i)
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\' || c < ' ':
			if i = u.stop(i); i < 0 {
				return i
			}
		default:
			u.high = u.high || c >= utf8.RuneSelf
			u.text[u.n] = c
			u.n++
			i++
		}
	}
	return u.fail(i, "")
}

// grow makes room for n bytes, and a character.
func (u *unquoting) grow(n int) {
	if n += utf8.UTFMax; len(u.text)-u.n < n {
		u.text = append(u.text, make([]byte, n+len(u.text))...)
	}
}

// stop reads what is not plain: an escape, the closing quote, or what should not be there.
func (u *unquoting) stop(i int) int {
	switch c := u.data[i]; {
	case c == '"':
		return i + 1
	case c < ' ':
		return u.fail(i, "control character in a string")
	case i+1 < len(u.data) && escapes[u.data[i+1]] != 0:
		u.ours = u.ours && u.data[i+1] != '/'
		u.text[u.n] = escapes[u.data[i+1]]
		u.n++
		return i + 2
	}
	u.ours = false
	if u.unicode(i) < 0 {
		return -1
	}
	r, k := char(u.data[i:])
	u.n += utf8.EncodeRune(u.text[u.n:], r)
	return i + k
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

// sound returns b as a string, with U+FFFD for each byte that is not UTF-8; high says that not all may be ASCII.
func sound(b []byte, high bool) string {
	if high && !utf8.Valid(b) {
		return string([]rune(string(b)))
	}
	return string(b)
}

// asIs says whether all that is not ASCII in a text stands in a literal just as it is.
func asIs(text string) bool {
	return !strings.Contains(text, "\u2028") && !strings.Contains(text, "\u2029") && !strings.Contains(text, "\ufffd")
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
