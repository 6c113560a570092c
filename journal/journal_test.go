package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/event"
)

func TestMain(m *testing.M) {
	if job := os.Getenv("JOURNAL_TEST_CHILD"); job != "" {
		child(job, os.Args[1])
		return
	}
	goleak.VerifyTestMain(m)
}

// write makes a journal of events, numbered from 1, and returns its path.
func write(t testing.TB, events ...event.Event) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, events...)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// put appends events with the numbers that come next.
func put(t testing.TB, w *Writer, events ...event.Event) {
	t.Helper()
	for _, e := range events {
		e.Seq = w.Last() + 1
		if err := w.Put(e); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the events of a journal, which must be whole and numbered from 1.
func read(t testing.TB, path string) (events []event.Event) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for line, err := range Scan(file, nil) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := line.Event()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
		if e.Seq != uint64(len(events)) {
			t.Fatalf("event %d has number %d", len(events), e.Seq)
		}
	}
	return events
}

func delta(text string) event.Event {
	return event.Event{Header: event.Header{Session: "s"}, Body: event.TextDelta{Text: text}}.Stamp()
}

func TestRoundTrip(t *testing.T) {
	samples := event.Samples()
	path := write(t, samples...)
	if diff := cmp.Diff(samples, read(t, path)); diff != "" {
		t.Error(diff)
	}
	w, err := Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	if w.Last() != uint64(len(samples)) {
		t.Errorf("resumed after %d, want %d", w.Last(), len(samples))
	}
	put(t, w, samples...)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	got := read(t, path)
	if len(got) != 2*len(samples) {
		t.Fatalf("%d events, want %d", len(got), 2*len(samples))
	}
	last, err := Last(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := last.Event()
	if diff := cmp.Diff(got[len(got)-1], e); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "run.ndjson")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", p, info.Mode(), err, want)
		}
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := Resume(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("resumed nothing: %v", err)
	}
}

func TestPutRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, delta("a"))
	for _, seq := range []uint64{0, 1, 3} {
		e := delta("b")
		e.Seq = seq
		if w.Put(e) == nil {
			t.Errorf("took event %d after event 1", seq)
		}
	}
	put(t, w, event.Event{Body: event.ToolCalled{Name: "x", Input: event.Raw("{\n\"a\":\n1}")}}) // still one line
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error("closed twice:", err)
	}
	e := delta("c")
	e.Seq = 3
	if w.Put(e) == nil {
		t.Error("took an event after Close")
	}
	if n := len(read(t, path)); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestLast(t *testing.T) {
	long := delta(strings.Repeat("x", 64<<20))
	path := write(t, delta("a"), long)
	line, err := Last(path)
	if err != nil || line.Seq != 2 {
		t.Fatalf("%d, %v", line.Seq, err)
	}
	if b, err := line.Body(); err != nil || len(b.(event.TextDelta).Text) != 64<<20 {
		t.Error("the long body is not there:", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	if line, err := Last(path); err != nil || line.Seq != 1 {
		t.Errorf("before a torn tail: %d, %v", line.Seq, err)
	}
	empty := write(t)
	if _, err := Last(empty); err != io.EOF {
		t.Errorf("of an empty journal: %v", err)
	}
	if err := os.WriteFile(empty, []byte(`{"seq":1,"ki`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Last(empty); err != io.EOF {
		t.Errorf("of a torn first line: %v", err)
	}
}

// Whatever is no journal is refused, and left as it is.
func TestNoJournal(t *testing.T) {
	for _, text := range []string{
		"hello", "hello\n", "{\n  \"name\": \"x\"\n}\n", `{"name":"x"}`, "{\"name\":\"x\"}\n", "a\nb\nc\n",
		`{"seq":1,"kind":"notice","body":{}}` + "\nb\nc\nd",
		`{"kind":"notice","body":{}}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(path); err == nil {
			t.Errorf("%q: resumed", text)
		}
		if _, err := Repair(path); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: repaired, or not one line: %v", text, err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestRepair(t *testing.T) {
	at := time.Date(2026, 8, 22, 10, 11, 12, 0, time.UTC)
	top := event.Header{At: at, Session: "s"}
	call := top
	call.Call = "c1"
	open := []event.Event{
		{Header: top, Body: event.RunStarted{Format: 1}},
		{Header: top, Body: event.Prompt{ID: "p", Text: "x"}},
		{Header: top, Body: event.TurnStarted{Number: 1}},
		{Header: top, Body: event.TextDelta{Text: "he"}},
		{Header: top, Body: event.TextDelta{Text: "llo"}},
		{Header: call, Body: event.ToolCalled{Name: "bash"}},
	}
	path := write(t, open...)
	r, err := Repair(path)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []event.Kind
	for _, h := range r.Appended {
		kinds = append(kinds, h.Kind)
	}
	want := []event.Kind{"tool.cancelled", "turn.ended", "reply.failed", "run.failed"}
	if !slices.Equal(kinds, want) || r.Cut != 0 || r.Last != 10 {
		t.Errorf("%v: %+v", kinds, r)
	}
	if end, ok := event.AsRunEnd(read(t, path)[9].Body); !ok || !end.Inferred {
		t.Errorf("%+v", end)
	}
	untouched(t, path)

	// A second run in the same journal is ended as the first was.
	w, err := Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, open[:2]...)
	w.Close()
	if r, err = Repair(path); err != nil || len(r.Appended) != 2 || r.Last != 14 {
		t.Errorf("%v, %v", r, err)
	}
	untouched(t, path)

	// Noise after the end opens nothing.
	if w, err = Resume(path); err != nil {
		t.Fatal(err)
	}
	put(t, w, event.Event{Body: event.Diag{Text: "bye"}})
	w.Close()
	untouched(t, path)
}

func untouched(t *testing.T, path string) {
	t.Helper()
	before, _ := os.ReadFile(path)
	old := time.Unix(1e9, 0)
	os.Chtimes(path, old, old)
	r, err := Repair(path)
	if err != nil || !r.Whole() || r.String() != "it is whole" {
		t.Errorf("%v, %v", r, err)
	}
	after, _ := os.ReadFile(path)
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(old) || !bytes.Equal(before, after) {
		t.Error("a whole journal was touched")
	}
}

// However a journal's end is cut, it can be resumed and repaired, and no whole event is lost.
func TestCutEverywhere(t *testing.T) {
	top := event.Header{Session: "s"}
	whole, err := os.ReadFile(write(t,
		event.Event{Header: top, Body: event.RunStarted{Format: 1}},
		event.Event{Header: top, Body: event.Prompt{ID: "p"}},
		event.Event{Header: top, Body: event.Text{Text: "ü\n\x00"}},
	))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for n := range len(whole) + 1 {
		events := bytes.Count(whole[:n], []byte("\n"))
		tails := map[string][]byte{
			"cut":    whole[:n],
			"zeroed": append(whole[:n:n], make([]byte, 100)...),
			"mixed":  append(append(whole[:n:n], make([]byte, 100)...), '\n'),
		}
		for name, data := range tails {
			path := filepath.Join(dir, "j")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			w, err := Resume(path)
			if err != nil {
				t.Fatalf("%s at %d: %v", name, n, err)
			}
			if w.Last() != uint64(events) {
				t.Fatalf("%s at %d: resumed after %d, want %d", name, n, w.Last(), events)
			}
			put(t, w, delta("on"))
			w.Close()
			read(t, path)

			os.WriteFile(path, data, 0o600)
			r, err := Repair(path)
			if err != nil {
				t.Fatalf("%s at %d: %v", name, n, err)
			}
			if got := read(t, path); uint64(len(got)) != r.Last || !runEnd(got[len(got)-1].Kind) {
				t.Fatalf("%s at %d: %v", name, n, r)
			}
		}
	}
}

// What nobody keeps is not forced to the disk; what somebody keeps is.
func TestPassing(t *testing.T) {
	for _, passing := range []bool{false, true} {
		r, pipe, err := os.Pipe() // which cannot be forced anywhere
		if err != nil {
			t.Fatal(err)
		}
		w := &Writer{file: pipe, release: func() {}}
		if passing {
			w.Passing()
		}
		if err := w.Put(event.Event{Header: event.Header{Seq: 1}, Body: event.Prompt{Text: "p"}}); (err == nil) != passing {
			t.Errorf("passing %t: %v", passing, err)
		}
		w.Close()
		r.Close()
	}
}
