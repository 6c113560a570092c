// Package wire is JSON text as it stands on the wire.
//
// Agents print hundreds of megabytes of it, one value to a line, and every byte is read at least once. This package is a
// fast and strict subset of encoding/json, and its tests hold it to encoding/json: the same texts are valid, the same
// values come out, the same bytes go in.
//
//	            ┌─Unmarshal─▶ a Go value ─Append─┐
//	one line ───┤                                ├──▶ one line
//	            └─Doc.Parse─▶ a flat tree        │
//	              Valid, AppendRaw ──────────────┘
//
// It differs on purpose in three things: a key names a field only if it is spelled the same, to the letter; decoding
// validates as it goes, so after a [SyntaxError] the value may be half filled; and encoding cannot fail, what has no JSON
// is null.
package wire

import "fmt"

// maxDepth is how deep arrays and objects may nest, as in encoding/json.
const maxDepth = 10000

// A SyntaxError says where data stops being JSON.
type SyntaxError struct {
	Offset int // of the first byte that cannot stand there; the length of data if it ends too soon
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Reason)
}

// A TypeError says which field had a value of another type. Decoding goes on without it; the first one is returned at
// the end.
type TypeError struct {
	Field string // the way to it, as in "a.b[2].c"; empty for the whole value
	Want  string // a Go type
	Got   string // what JSON calls it: "string", "number 1.5"

	err error // what the type's own reader said
}

func (e *TypeError) Error() string {
	s := fmt.Sprintf("want %s, got %s", e.Want, e.Got)
	if e.err != nil {
		s = e.err.Error()
	}
	if e.Field == "" {
		return s
	}
	return "field " + e.Field + ": " + s
}

// Unwrap returns the error of the type's own UnmarshalJSON or UnmarshalText, if it has one.
func (e *TypeError) Unwrap() error { return e.err }

// Valid says whether data is one valid JSON value; white space around it is allowed.
func Valid(data []byte) bool {
	s := scanner{data: data}
	return s.whole()
}
