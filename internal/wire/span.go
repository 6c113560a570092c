package wire

import (
	"bytes"
	"encoding/json"
	"iter"
)

// A Span is a value as it stands in the text that it was decoded from, and good as long as that: what may be large and is
// not always looked at.
type Span []byte

// Text returns a string's text, any other value as it stands, and nothing for null or none.
func (s Span) Text() string {
	if len(s) == 0 || s[0] == 'n' {
		return ""
	}
	if text, ok := Unquote(s); ok {
		return text
	}
	return string(s)
}

// Raw returns a copy of the value, nil for null or none.
func (s Span) Raw() json.RawMessage {
	if len(s) == 0 || s[0] == 'n' {
		return nil
	}
	return append(json.RawMessage(nil), s...)
}

// Get returns a member of the object that s is, nil if it is none or has none of that name. A key with escapes is not found.
func (s Span) Get(key string) Span {
	for name, value := range s.Members() {
		if string(name[1:len(name)-1]) == key {
			return value
		}
	}
	return nil
}

// Members gives the members of the object that s is, keys as literals. It does not look into them: s was checked when it was
// decoded.
func (s Span) Members() iter.Seq2[Span, Span] {
	return func(yield func(key, value Span) bool) {
		if len(s) < 2 || s[0] != '{' {
			return
		}
		for i := skipSpace(s, 1); i < len(s) && s[i] == '"'; {
			end := skipString(s, i)
			key := s[i:end:end]
			i = skipSpace(s, end) // the colon
			i = skipSpace(s, i+1)
			after := skipValue(s, i)
			if after <= i || len(key) < 2 || !yield(key, s[i:after:after]) {
				return
			}
			if i = skipSpace(s, after); i < len(s) && s[i] == ',' {
				i = skipSpace(s, i+1)
			}
		}
	}
}

// The skips below are for text that is known to be JSON; they are fast because they need not check it again.

func skipSpace(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(s []byte, i int) int {
	i++
	if near := s[min(i, len(s)):min(i+64, len(s))]; len(near) == 64 { // it may be long
		if n := bytes.IndexByte(near, '"'); n == 0 || n > 0 && near[n-1] != '\\' {
			return i + n + 1
		}
		i = min(i+within(s[i:]), len(s))
	}
	for i < len(s) {
		n := bytes.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		i += n + 1
		slashes := 0
		for s[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return i
}

// skipValue returns the index after the value that begins at i.
func skipValue(s []byte, i int) int {
	for depth := 0; i < len(s); {
		switch s[i] {
		case '"':
			i = skipString(s, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',':
			if depth == 0 {
				return i
			}
			i++
			continue
		case ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return i
}
