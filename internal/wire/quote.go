package wire

import (
	"bytes"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. What is not UTF-8 in it is written as U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if len(s) >= enough {
		if dst, ok := latest.append(dst, s); ok {
			return dst
		}
	}
	dst = append(slices.Grow(dst, len(s)+2), '"')
	i := 0
	for i+escapeEnd <= len(s) {
		chunk := s[i:min(len(s), i+escapeChunk)]
		n := len(dst)
		dst = slices.Grow(dst, 2*len(chunk))
		read, wrote := escape(dst[n:cap(dst)], chunk)
		dst = dst[:n+wrote]
		if i += read; len(chunk)-read >= escapeEnd { // it is something else
			const more = 512 // as there will be more of them
			dst, i = appendQuoted(dst, s, i, min(i+more, len(s)))
		}
	}
	dst, _ = appendQuoted(dst, s, i, len(s))
	return append(dst, '"')
}

// appendQuoted appends what stands in s from i to end, or a little further if a character does. It returns where that is.
func appendQuoted(dst []byte, s string, i, end int) ([]byte, int) {
	from := i
	for i = plain(s, i, end); i < end; i = plain(s, i, end) {
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
		if letters[c] != 0 {
			dst = append(dst, '\\', letters[c])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
		i++
		from = i
	}
	return append(dst, s[from:i]...), i
}

const hex = "0123456789abcdef"

// letters has what stands after the backslash for characters that have a letter.
var letters = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// plain returns the index of the first byte from i on that does not go into a JSON string just as it is; end if there is none
// before.
func plain(s string, i, end int) int {
	for ; i+8 <= end; i += 8 {
		w := s[i : i+8]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		if stop := stops(x) | x&highs; stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for i < end && ' ' <= s[i] && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
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
	if !ValidUTF8(raw) {
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
