//go:build unix

// Package standin plays other agents, so that they can be driven in tests where they are not installed: a test program that is called
// by their names becomes them.
package standin

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
)

// Claude is claude: with -p it speaks stream-json, and else it is on a terminal.
func Claude() {
	if slices.Contains(os.Args, "-p") {
		Stream()
		return
	}
	Terminal()
}

// A stand reads a client's lines and writes an agent's.
type stand struct {
	in  *bufio.Reader
	out *bufio.Writer
}

// newStand is one on stdin and stdout.
func newStand() *stand {
	return &stand{bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)}
}

// say writes a line.
func (s *stand) say(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	s.raw(string(line) + "\n")
}

// raw writes a text as it is.
func (s *stand) raw(text string) {
	s.out.WriteString(text)
	s.out.Flush()
}

// hear returns the next line; nil at the end.
func (s *stand) hear() map[string]any {
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		return nil
	}
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		panic(err)
	}
	return v
}

type obj = map[string]any

// at follows names into an object.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// text is the text there.
func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}
