package dialect

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// The conformance suite runs over every dialect in the tables; what is asked of encoders, over those that have one. A new one is
// picked up by being there; what it is tested with stands in testdata/NAME:
//
//	clean/     streams that are what the specification says, with every line and every field
//	recorded/  streams of the real program, and verdict.txt: which rules each of them breaks
//	examples.ndjson, identity.txt, lint/
var update = flag.Bool("update", false, "write verdict.txt anew")

// A sample is a stream of testdata.
type sample struct {
	name string
	d    *Dialect
	data []byte
}

func samples(t testing.TB, d *Dialect, kind string) (list []sample) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", d.Name, kind, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, sample{filepath.Base(f), d, data})
	}
	return list
}

// each runs f over every dialect that is read.
func each(t *testing.T, f func(t *testing.T, d *Dialect)) {
	for _, d := range sources {
		t.Run(d.Name, func(t *testing.T) { f(t, d) })
	}
}

// eachTold runs f over every dialect that is written.
func eachTold(t *testing.T, f func(t *testing.T, d *Dialect)) {
	for _, d := range dialects {
		t.Run(d.Name, func(t *testing.T) { f(t, d) })
	}
}

// eachSample runs f over the clean and the recorded streams of every dialect.
func eachSample(t *testing.T, f func(t *testing.T, s sample)) {
	each(t, func(t *testing.T, d *Dialect) {
		for _, s := range slices.Concat(samples(t, d, "clean"), samples(t, d, "recorded")) {
			t.Run(s.name, func(t *testing.T) { f(t, s) })
		}
	})
}

func decodeAll(t testing.TB, data []byte, d *Dialect, o StreamOptions) (events []event.Event) {
	t.Helper()
	for e, err := range Read(bytes.NewReader(data), d, o) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func encodeAll(events []event.Event, d *Dialect, o Options) (out []byte) {
	enc := d.NewEncoder(o)
	for _, e := range events {
		out = enc.Encode(out, e)
	}
	return out
}

// lintAll returns what is wrong with a stream, notes left out.
func lintAll(data []byte, d *Dialect) (found []Diagnostic) {
	l := NewLinter(d, func(x Diagnostic) {
		if !x.Note {
			found = append(found, x)
		}
	})
	for line := range bytes.Lines(data) {
		whole := bytes.HasSuffix(line, []byte("\n"))
		l.Line(bytes.TrimSuffix(line, []byte("\n")), !whole)
	}
	l.Close()
	return found
}

func wantClean(t *testing.T, data []byte, d *Dialect, what string) {
	t.Helper()
	found := lintAll(data, d)
	if len(found) == 0 {
		return
	}
	t.Errorf("%s breaks %s: %d times, first %s, line %d: %s", what, d.Name, len(found), found[0].Rule, found[0].Line, found[0].Message)
	for i, line := range strings.Split(string(data), "\n") {
		if n := found[0].Line; i+1 >= n-4 && i+1 <= n+1 {
			t.Logf("%4d %s", i+1, clip(line)+" …"+line[max(0, len(line)-80):])
		}
	}
}

// throughNative writes events as a journal and reads them back: what a second process would see.
func throughNative(t testing.TB, events []event.Event) []event.Event {
	t.Helper()
	return decodeAll(t, encodeAll(events, &native, Options{}), &native, StreamOptions{})
}

func TestEveryDialectHasItsParts(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		if only := slices.Contains(readOnly, d); only != (d.encoder == nil) {
			t.Error("it has an encoder and is in the table of those that are only read, or neither")
		}
		if d.Name == "" || d.Doc == "" || d.decoder == nil || d.shapes == nil || d.checker == nil || d.score == nil || len(d.rules) == 0 {
			t.Error("a part is missing")
		}
		if d != &native && len(samples(t, d, "clean")) == 0 {
			t.Error("there is no clean stream in testdata")
		}
		for _, l := range d.Losses() {
			if l.Why == "" || l.Fate == "" {
				t.Errorf("loss of %s.%s has no reason or fate", l.Kind, l.Field)
			}
		}
		for _, entries := range newLosses(d.Losses(), nil).byKind {
			for _, e := range entries {
				if e.Field != "" && !isHeader(e.Field) && e.path == nil {
					t.Errorf("loss of %s: there is no field %q", e.Kind, e.Field)
				}
			}
		}
	})
}

func TestEncodersBearEverything(t *testing.T) {
	eachTold(t, func(t *testing.T, d *Dialect) {
		all := event.Samples()
		back := slices.Clone(all)
		slices.Reverse(back)
		streams := [][]event.Event{all, back}
		for _, e := range all {
			streams = append(streams, []event.Event{e}, []event.Event{{Header: e.Header}})
		}
		for _, events := range streams {
			for _, o := range []Options{{}, {NoOrigin: true}, {Repair: true}, {Deltas: true, NoThoughts: true}} {
				o.Loss = func(Loss) {}
				out := encodeAll(events, d, o)
				if o.NoOrigin || o.Repair {
					wantLines(t, out)
				}
			}
		}
	})
}

func wantLines(t *testing.T, out []byte) {
	t.Helper()
	for line := range bytes.Lines(out) {
		if !json.Valid(line) || line[0] != '{' || !bytes.HasSuffix(line, []byte("\n")) {
			t.Fatalf("not a whole line of JSON: %q", line)
		}
	}
}

func TestThroughNativeAndBackIsTheIdentity(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		events := throughNative(t, decodeAll(t, s.data, s.d, StreamOptions{}))
		if s.d == &native || s.d.encoder == nil {
			return // a journal is copied, not told anew
		}
		if got := encodeAll(events, s.d, Options{}); !bytes.Equal(got, s.data) {
			t.Error(cmp.Diff(string(s.data), string(got)))
		}
	})
}

func TestEachLineIsOneForeignEvent(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		if s.d == &native {
			return
		}
		var lines [][]byte
		for _, e := range decodeAll(t, s.data, s.d, StreamOptions{}) {
			if f, ok := e.Body.(event.Foreign); ok {
				lines = append(lines, f.Bytes())
			}
		}
		want := bytes.Split(bytes.TrimSuffix(s.data, []byte("\n")), []byte("\n"))
		if !slices.EqualFunc(want, lines, bytes.Equal) { // a difference of megabytes is slow to see that there is none
			t.Error(cmp.Diff(want, lines))
		}
	})
}

func TestWhatIsReadIsAWholeJournal(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		events := decodeAll(t, s.data, s.d, StreamOptions{})
		wantClean(t, encodeAll(events, &native, Options{}), &native, "the journal")
		wantClean(t, encodeAll(events, &native, Options{NoOrigin: true}), &native, "the journal without its lines")
		bare := decodeAll(t, s.data, s.d, StreamOptions{NoOrigin: true})
		wantClean(t, encodeAll(bare, &native, Options{}), &native, "the journal read without lines")
	})
}

func TestTranslationsAreClean(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		events := decodeAll(t, s.data, s.d, StreamOptions{})
		for _, to := range dialects {
			wantClean(t, encodeAll(events, to, Options{NoOrigin: true}), to, s.d.Name+" → "+to.Name)
		}
	})
}

func TestCleanStreamsAreClean(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		for _, s := range samples(t, d, "clean") {
			wantClean(t, s.data, d, s.name)
			if got := Recognise(s.data); got != d {
				t.Errorf("%s is not recognised", s.name)
			}
		}
	})
}

func TestVerdicts(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		var b strings.Builder
		for _, s := range samples(t, d, "recorded") {
			rules := map[string]bool{}
			for _, x := range lintAll(s.data, d) {
				rules[x.Rule] = true
			}
			verdict := []string{"clean"}
			if len(rules) > 0 {
				verdict = nil
				for r := range rules {
					verdict = append(verdict, r)
				}
				slices.Sort(verdict)
			}
			fmt.Fprintf(&b, "%s: %s\n", s.name, strings.Join(verdict, " "))
			if got := Recognise(s.data); got != d && len(s.data) > 200 {
				t.Errorf("%s is not recognised", s.name)
			}
		}
		file := filepath.Join("testdata", d.Name, "verdict.txt")
		if *update && b.Len() > 0 {
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(file)
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEveryLineTypeAndFieldIsInACleanStream(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		if d == &native {
			return // package event checks its samples
		}
		seen := map[string]bool{}
		for _, s := range samples(t, d, "clean") {
			for line := range bytes.Lines(s.data) {
				var v map[string]any
				if json.Unmarshal(line, &v) == nil {
					if typ, _ := v[d.shapes().key].(string); typ != "" {
						mark(seen, typ, v)
					}
				}
			}
		}
		for _, l := range d.shapes().lines {
			wantSeen(t, seen, l.name, d.shapes().all(&l))
		}
	})
}

func mark(seen map[string]bool, path string, v any) {
	seen[path] = true
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			mark(seen, path+"."+k, x)
		}
	case []any:
		for _, x := range v {
			mark(seen, path+"[]", x)
		}
	}
}

func wantSeen(t *testing.T, seen map[string]bool, path string, fields []field) {
	t.Helper()
	if !seen[path] {
		t.Errorf("no clean stream has %s", path)
		return
	}
	for _, f := range fields {
		at := path + "." + f.name
		switch {
		case f.fields != nil:
			wantSeen(t, seen, at, f.fields)
		case f.each != nil && f.each.fields != nil:
			wantSeen(t, seen, at+"[]", f.each.fields)
		case !seen[at]:
			t.Errorf("no clean stream has %s", at)
		}
	}
}
