package secret

import (
	"bytes"
	"testing"
)

// In whatever pieces it is written, what comes out is what would come out of the whole.
func TestWriterInPieces(t *testing.T) {
	r := New([]Value{{"TOKEN", "hunter2-hunter2"}, {"OTHER_TOKEN", "hunter3-hunter3"}})
	text := "a hunter2-hunter2 b aHVudGVyMi1odW50ZXIy c \xff hunter3-hunter hunter2"
	want := r.String(text)
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := r.Writer(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
	var out bytes.Buffer
	w := new(Redactor).Writer(&out)
	w.Write([]byte("hunter2-hunter2"))
	if w.Close(); out.String() != "hunter2-hunter2" {
		t.Error(out.String())
	}
}
