package wire

import "unicode/utf8"

// Most of what is read and written are long strings with many escapes. Here is what is done with them, byte by byte; where there is
// assembly for it, that is used, and must do the same but for where it ends.

// unescapeBytes copies what is plain in a string literal, and the character for each escape of one letter. It ends at anything else: the
// closing quote, a control character, another escape; or close to the end of src. dst is no shorter than src. High says that there
// may be bytes beyond ASCII, slash that a slash was escaped.
func unescapeBytes(dst, src []byte) (read, wrote int, high, slash bool) {
	for read+escapeEnd <= len(src) {
		c := src[read]
		read++
		switch {
		case c == '\\' && escapes[src[read]] != 0:
			slash = slash || src[read] == '/'
			c = escapes[src[read]]
			read++
		case c == '"' || c == '\\' || c < ' ':
			return read - 1, wrote, high, slash
		case c >= utf8.RuneSelf:
			high = true
		}
		dst[wrote] = c
		wrote++
	}
	return read, wrote, high, slash
}

// escapeBytes copies what is plain in a text, and an escape for each character that has one of one letter. It ends at anything else:
// other control characters, what is not ASCII; or close to the end of src. dst is at least twice as long as src.
func escapeBytes(dst []byte, src string) (read, wrote int) {
	for read+escapeEnd <= len(src) {
		c := src[read]
		if c >= utf8.RuneSelf || c < ' ' && letters[c] == 0 {
			break
		}
		read++
		if letters[c] != 0 {
			dst[wrote] = '\\'
			c = letters[c]
			wrote++
		}
		dst[wrote] = c
		wrote++
	}
	return read, wrote
}

// stretchBytes says how many bytes from the beginning on are plain in a string literal, or end close to the end of src; and whether
// any beyond ASCII may be among them.
func stretchBytes(src []byte) (n int, high bool) {
	n, seen := run(src, 0)
	return n, seen&highs != 0
}

// withinBytes says how many bytes are within a string literal: up to its closing quote, or close to the end of src. Where it ends
// nothing is escaped by what stands before; that may be one beyond src. Escapes are not checked.
func withinBytes(src []byte) (n int) {
	for n+64 <= len(src) && src[n] != '"' {
		if src[n] == '\\' {
			n++
		}
		n++
	}
	return n
}

// asciiBytes says whether all bytes are ASCII.
func asciiBytes(src []byte) bool {
	for _, c := range src {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// ValidUTF8 is [utf8.Valid], and faster where all is ASCII.
func ValidUTF8(b []byte) bool { return ascii(b) || utf8.Valid(b) }
