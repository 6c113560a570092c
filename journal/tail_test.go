package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// A heard is what an iterator yielded.
type heard struct {
	text string
	err  error
}

// tailing runs Tail until the test ends and sends what it yields.
func tailing(t *testing.T, path string, from uint64) <-chan heard {
	ctx, cancel := context.WithCancel(t.Context())
	c, done := make(chan heard), make(chan struct{})
	go func() {
		defer close(done)
		defer close(c)
		for line, err := range Tail(ctx, path, from) {
			select {
			case c <- heard{string(line.Raw()), err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

func TestTail(t *testing.T) {
	samples := event.Samples()
	half := len(samples) / 2
	path := write(t, samples[:half]...)
	lines := tailing(t, path, 5)
	var got []event.Event
	next := func() {
		h := <-lines
		if h.err != nil {
			t.Fatal(h.err)
		}
		e, err := mustParse(t, h.text).Event()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	for range half - 4 {
		next()
	}
	w, err := Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, e := range samples[half:] {
		put(t, w, e)
		next()
	}
	if diff := cmp.Diff(samples[4:], got); diff != "" {
		t.Error(diff)
	}
}

func mustParse(t *testing.T, raw string) event.Line {
	t.Helper()
	l, err := event.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return l
}

// A torn line that Resume cuts off, and another in its place, are not mixed up, whatever the reader has seen.
func TestTailOverResume(t *testing.T) {
	path := write(t, delta("a"))
	lines := tailing(t, path, 0)
	for n := range 100 {
		mustParse(t, (<-lines).text)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		file.WriteString(`{"seq":9,"kind":"text.delta","body":{"text":"` + strings.Repeat("torn", n*n))
		file.Close()
		w, err := Resume(path)
		if err != nil {
			t.Fatal(err)
		}
		put(t, w, delta(strings.Repeat("on", 2*n*n)))
		w.Close()
	}
	if h := <-lines; h.err != nil || mustParse(t, h.text).Seq != 101 {
		t.Error(h)
	}
}

func TestTailHalfLine(t *testing.T) {
	path := write(t, delta("a"))
	lines := tailing(t, path, 2)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	whole := `{"seq":2,"kind":"text.delta","body":{"text":"b"}}`
	for _, piece := range []string{whole[:1], whole[1:20], whole[20:], "\n"} {
		select {
		case h := <-lines:
			t.Fatal("too early:", h)
		default:
		}
		file.WriteString(piece)
	}
	if h := <-lines; h.err != nil || h.text != whole {
		t.Error(h)
	}
}

func TestTailEnds(t *testing.T) {
	for _, err := range Tail(t.Context(), filepath.Join(t.TempDir(), "none"), 0) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	path := write(t, delta("a"), delta("b"))
	for range Tail(t.Context(), path, 0) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range Tail(ctx, path, 2) {
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
	lines := tailing(t, path, 2)
	<-lines
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if h := <-lines; h.err == nil || !strings.Contains(h.err.Error(), "shorter") {
		t.Error(h)
	}
	path = write(t, delta("a"))
	lines = tailing(t, path, 1)
	<-lines
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if h := <-lines; !errors.Is(h.err, fs.ErrNotExist) {
		t.Error(h)
	}
	if h, open := <-lines; open {
		t.Error(h)
	}
}
