package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesComeWholeHoweverTheyAreRead(t *testing.T) {
	long := strings.Repeat("x", 3*lineBuffer)
	in := "a\n\n" + long + "\r\nb\n" + long + "y\nlast"
	want := []string{"a", "", long + "\r", "b", long + "y", "last"}
	for name, r := range map[string]io.Reader{
		"in bulk":      strings.NewReader(in),
		"byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		"in halves":    iotest.HalfReader(strings.NewReader(in)),
		"data and end": iotest.DataErrReader(strings.NewReader(in)),
	} {
		l := NewLines(r)
		var offset int64
		for i, w := range want {
			l.Buffered() // looking ahead changes nothing
			line, err := l.Next()
			if err != nil || string(line) != w {
				t.Fatalf("%s: line %d: got %d bytes, %v; want %d", name, i, len(line), err, len(w))
			}
			if offset += int64(len(w)) + 1; l.Torn() {
				offset--
			}
			if l.Offset() != offset {
				t.Fatalf("%s: line %d: offset %d, want %d", name, i, l.Offset(), offset)
			}
			if torn := i == len(want)-1; l.Torn() != torn {
				t.Fatalf("%s: line %d: torn %v", name, i, l.Torn())
			}
		}
		if _, err := l.Next(); err != io.EOF {
			t.Fatalf("%s: after the end: %v", name, err)
		}
	}
}

func TestLinesNobodyWantsAreSkippedInConstantMemory(t *testing.T) {
	rest := io.MultiReader(strings.NewReader("head"), io.LimitReader(zeros{}, 64<<20), strings.NewReader("\nnext\n"))
	l := NewLines(rest)
	l.Keep = func(head []byte) bool { return !bytes.HasPrefix(head, []byte("head")) }
	line, err := l.Next()
	if err != nil || !l.Cut() || !bytes.HasPrefix(line, []byte("head")) || len(line) > lineBuffer {
		t.Fatalf("got %d bytes, cut %v, %v", len(line), l.Cut(), err)
	}
	if line, err = l.Next(); string(line) != "next" || l.Cut() || err != nil {
		t.Fatalf("after it: %q, cut %v, %v", line, l.Cut(), err)
	}
	if want := int64(4 + 64<<20 + 1 + 5); l.Offset() != want {
		t.Fatalf("offset %d, want %d", l.Offset(), want)
	}
}

func TestLinesGiveBackTheMemoryOfALongLine(t *testing.T) {
	l := NewLines(io.MultiReader(io.LimitReader(zeros{}, 3*lineKeep), strings.NewReader("\na\nb\n")))
	for _, want := range []int{3 * lineKeep, 1, 1} {
		line, err := l.Next()
		if err != nil || len(line) != want {
			t.Fatalf("got %d bytes, %v; want %d", len(line), err, want)
		}
	}
	if len(l.buf) > lineKeep {
		t.Fatalf("the buffer still has %d bytes", len(l.buf))
	}
}

func TestLinesTellAReadErrorAfterWhatWasWhole(t *testing.T) {
	broken := errors.New("broken")
	l := NewLines(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)))
	if line, err := l.Next(); string(line) != "a" || err != nil {
		t.Fatal(string(line), err)
	}
	for range 2 {
		if line, err := l.Next(); err != broken {
			t.Fatal(string(line), err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func ExampleLines() {
	l := NewLines(strings.NewReader("one\ntwo\n"))
	for line, err := l.Next(); err == nil; line, err = l.Next() {
		fmt.Println(string(line))
	}
	// Output:
	// one
	// two
}
