package secret

import (
	"bytes"
	"errors"
	"testing"
)

func TestWriter(t *testing.T) {
	const whole = "a hunter2-marlin! b \xff\x00 hunter2-mar"
	for _, r := range []*Redactor{{}, one1("hunter2-marlin!")} {
		want := r.String(whole)
		for step := 1; step <= len(whole); step++ {
			var out bytes.Buffer
			w := r.Writer(&out)
			for i := 0; i < len(whole); i += step {
				piece := whole[i:min(i+step, len(whole))]
				if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Error(n, err)
				}
			}
			if err := w.Close(); err != nil || out.String() != want {
				t.Errorf("in pieces of %d: %q, %v; not %q", step, out.String(), err, want)
			}
			if w.Close(); out.String() != want {
				t.Errorf("closed twice: %q", out.String())
			}
		}
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriterFull(t *testing.T) {
	w := one1("hunter2-marlin!").Writer(full{})
	if _, err := w.Write([]byte("hunter2")); err != nil {
		t.Error("what is held was written:", err)
	}
	if _, err := w.Write([]byte("!")); !errors.Is(err, errFull) {
		t.Error(err)
	}
	w.Write([]byte("hun"))
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
