package wire

import (
	"encoding/binary"
	"math/bits"
)

// A scanner walks over JSON and checks it. Its methods take the index where something begins and return the index after
// it, or a negative one when it is not JSON; fault then says why. Methods that take the beginning of a value, a key or a
// string expect it to lie within data.
type scanner struct {
	data   []byte
	depth  int
	spaced bool // white space was seen outside strings
	fault  SyntaxError
}

// flags are what a string holds besides plain ASCII.
type flags uint8

const (
	escaped flags = 1 << iota // a backslash
	wide                      // a byte beyond ASCII, perhaps not UTF-8
)

func (s *scanner) fail(i int, reason string) int {
	if i >= len(s.data) {
		i, reason = len(s.data), "unexpected end"
	}
	s.fault = SyntaxError{Offset: i, Reason: reason}
	return -1
}

// whole says whether data is one value.
func (s *scanner) whole() bool {
	i := s.begin()
	if i >= 0 {
		i = s.end(s.value(i))
	}
	return i >= 0
}

// begin returns where the value in data begins.
func (s *scanner) begin() int {
	i := s.space(0)
	if i >= len(s.data) {
		return s.fail(i, "")
	}
	return i
}

// end checks that nothing follows the value that ended at i.
func (s *scanner) end(i int) int {
	if i >= 0 {
		if i = s.space(i); i < len(s.data) {
			return s.fail(i, "text after the value")
		}
	}
	return i
}

// space skips white space. Most JSON on the wire has none, so that the first test is all there is to it.
func (s *scanner) space(i int) int {
	if i < len(s.data) && s.data[i] > ' ' {
		return i
	}
	return s.spaces(i)
}

func (s *scanner) spaces(i int) int {
	for ; i < len(s.data); i++ {
		switch s.data[i] {
		case ' ', '\n', '\t', '\r':
			s.spaced = true
		default:
			return i
		}
	}
	return i
}

func (s *scanner) value(i int) int {
	switch s.data[i] {
	case '"':
		i, _ = s.str(i)
		return i
	case '{':
		i, done := s.enter(i, '}')
		for !done {
			if _, i, _ = s.key(i); i < 0 {
				return i
			}
			if i = s.value(i); i < 0 {
				return i
			}
			i, done = s.next(i, '}')
		}
		return i
	case '[':
		i, done := s.enter(i, ']')
		for !done {
			if i = s.value(i); i < 0 {
				return i
			}
			i, done = s.next(i, ']')
		}
		return i
	}
	return s.atom(i)
}

// atom is a value that holds no others and is not a string.
func (s *scanner) atom(i int) int {
	switch s.data[i] {
	case 't':
		return s.word(i, "true")
	case 'f':
		return s.word(i, "false")
	case 'n':
		return s.word(i, "null")
	}
	return s.number(i)
}

func (s *scanner) word(i int, w string) int {
	if end := i + len(w); end <= len(s.data) && string(s.data[i:end]) == w {
		return end
	}
	n := 1
	for i+n < len(s.data) && s.data[i+n] == w[n] {
		n++
	}
	return s.fail(i+n, "expected "+w)
}

func (s *scanner) number(i int) int {
	data := s.data
	if data[i] == '-' {
		i++
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	case i < len(data) && '1' <= data[i] && data[i] <= '9':
		i = digits(data, i+1)
	default:
		return s.fail(i, "expected a value")
	}
	if i < len(data) && data[i] == '.' {
		from := i + 1
		if i = digits(data, from); i == from {
			return s.fail(i, "expected a digit")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		from := i
		if i = digits(data, from); i == from {
			return s.fail(i, "expected a digit")
		}
	}
	return i
}

// digits returns the index of the first byte from i on that is not a digit.
func digits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}

// enter steps into the object or array that opens at i. It returns where its first member begins; or, done, where it
// ends if it is empty.
func (s *scanner) enter(i int, closing byte) (next int, done bool) {
	if s.depth++; s.depth > maxDepth {
		return s.fail(i, "nested too deep"), true
	}
	i = s.space(i + 1)
	if i >= len(s.data) {
		return s.fail(i, ""), true
	}
	if s.data[i] == closing {
		s.depth--
		return i + 1, true
	}
	return i, false
}

// next steps from the end of a member to the beginning of the next one; or, done, to the end of the object or array.
func (s *scanner) next(i int, closing byte) (next int, done bool) {
	i = s.space(i)
	if i < len(s.data) && s.data[i] == ',' {
		if i = s.space(i + 1); i < len(s.data) {
			return i, false
		}
	}
	if i < len(s.data) && s.data[i] == closing {
		s.depth--
		return i + 1, true
	}
	return s.fail(i, "expected ',' or '"+string(rune(closing))+"'"), true
}

// key reads a key and the colon. It returns where the key ends and where its value begins.
func (s *scanner) key(i int) (end, value int, f flags) {
	if s.data[i] != '"' {
		i = s.fail(i, "expected a key")
		return i, i, 0
	}
	end, f = s.str(i)
	if end < 0 {
		return end, end, f
	}
	i = s.space(end)
	if i >= len(s.data) || s.data[i] != ':' {
		return end, s.fail(i, "expected ':'"), f
	}
	if i = s.space(i + 1); i >= len(s.data) {
		return end, s.fail(i, ""), f
	}
	return end, i, f
}

// str reads the string whose opening quote is at i.
func (s *scanner) str(i int) (end int, f flags) {
	data := s.data
	var seen uint64 // every byte of the string so far, for their high bits
	i++
	for {
		if i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			stop := stops(x)
			if stop == 0 {
				seen |= x
				i += 8
				continue
			}
			seen |= x & (stop - 1) &^ stop
			i += bits.TrailingZeros64(stop) / 8
		}
		if i >= len(data) {
			return s.fail(i, ""), f
		}
		switch c := data[i]; {
		case c == '"':
			if seen&highs != 0 {
				f |= wide
			}
			return i + 1, f
		case c == '\\':
			f |= escaped
			if i+1 < len(data) && escapes[data[i+1]] != 0 {
				i += 2
			} else if i = s.unicode(i); i < 0 {
				return i, f
			}
		case c < ' ':
			return s.fail(i, "control character in a string"), f
		default: // among the last seven bytes
			seen |= uint64(c)
			i++
		}
	}
}

// unicode checks the \uXXXX that should begin at i.
func (s *scanner) unicode(i int) int {
	data := s.data
	i++
	if i >= len(data) || data[i] != 'u' {
		return s.fail(i, "unknown escape")
	}
	for n := 1; n <= 4; n++ {
		if i+n >= len(data) || unhex[data[i+n]] == 0 {
			return s.fail(i+n, "expected a hex digit")
		}
	}
	return i + 5
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops finds the first of eight bytes, the lowest, that ends a run of plain string: a quote, a backslash or a control
// character. The lowest bit set is that byte's high bit; bits above it mean nothing.
func stops(x uint64) uint64 {
	// Subtraction sets the high bit of a byte that was too small for it; those that had it before do not count.
	return (((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones) | (x - ' '*ones)) &^ x & highs
}

// escapes has the character for each letter that may follow a backslash, but for u.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unhex has one more than the value of each hex digit.
var unhex = func() (t [256]byte) {
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i) + 1
	}
	for i, c := range []byte("ABCDEF") {
		t[c] = byte(i) + 11
	}
	return t
}()
