package dialect

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-dev/sluice/event"
)

// nativeClean returns our journals by name.
func nativeClean(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/native/clean/*.ndjson")
	if err != nil || len(paths) < 5 {
		t.Fatal(err, paths)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		if files[filepath.Base(p)], err = os.ReadFile(p); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// nativeRead gives the events of a journal.
func nativeRead(t *testing.T, data []byte, o StreamOptions) (events []event.Event) {
	t.Helper()
	for e, err := range Read(bytes.NewReader(data), &native, o) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func nativeWrite(events []event.Event, o Options) (out []byte) {
	enc := native.NewEncoder(o)
	for _, e := range events {
		out = enc.Encode(out, e)
	}
	return out
}

// nativeBroken returns the rules that a stream breaks, and those that it has notes for.
func nativeBroken(data []byte) (broken, notes []string) {
	l := NewLinter(&native, func(d Diagnostic) {
		if d.Note {
			notes = append(notes, d.Rule)
		} else {
			broken = append(broken, d.Rule)
		}
	})
	for line := range bytes.Lines(data) {
		l.Line(bytes.TrimSuffix(line, []byte("\n")), false)
	}
	l.Close()
	slices.Sort(broken)
	slices.Sort(notes)
	return slices.Compact(broken), slices.Compact(notes)
}

func TestNativeClean(t *testing.T) {
	for name, data := range nativeClean(t) {
		t.Run(name, func(t *testing.T) {
			if len(data) >= 8<<10 {
				t.Errorf("%d bytes", len(data))
			}
			if broken, notes := nativeBroken(data); broken != nil || notes != nil {
				t.Errorf("broken %v, notes %v", broken, notes)
			}
			told := nativeRead(t, data, StreamOptions{AsTold: true})
			if mended := nativeRead(t, data, StreamOptions{After: 100}); !reflect.DeepEqual(told, mended) {
				t.Error(cmp.Diff(told, mended))
			}
			if out := nativeWrite(told, Options{}); !bytes.Equal(out, data) {
				t.Errorf("it became\n%s", out)
			}
			if d := Recognise(data); d != &native {
				t.Errorf("it was taken for %v", d)
			}
		})
	}
}

// Together the journals say every field of every kind.
func TestNativeCleanSaysEverything(t *testing.T) {
	said := map[string]bool{}
	for _, data := range nativeClean(t) {
		for _, e := range nativeRead(t, data, StreamOptions{AsTold: true}) {
			nativeVisit(reflect.ValueOf(e.Body), string(e.Kind), func(path string, v reflect.Value) { said[path] = said[path] || !v.IsZero() })
			nativeVisit(reflect.ValueOf(e.Header), "header", func(path string, v reflect.Value) { said[path] = said[path] || !v.IsZero() })
		}
	}
	check := func(path string, _ reflect.Value) {
		if !said[path] {
			t.Errorf("no journal says %s", path)
		}
	}
	nativeVisit(reflect.ValueOf(event.Header{}), "header", check)
	for _, b := range event.Kinds() {
		nativeVisit(reflect.ValueOf(b), string(b.Kind()), check)
	}
}

func nativeVisit(v reflect.Value, path string, f func(string, reflect.Value)) {
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(t.Elem())
		}
		nativeVisit(v.Elem(), path, f)
	case t.Kind() == reflect.Slice && t != reflect.TypeFor[event.Raw]():
		if v.Len() == 0 {
			v = reflect.MakeSlice(t, 1, 1)
		}
		for i := range v.Len() {
			nativeVisit(v.Index(i), path, f)
		}
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			name := path + "." + t.Field(i).Name
			f(name, v.Field(i))
			nativeVisit(v.Field(i), name, f)
		}
	}
}

func TestNativeRules(t *testing.T) {
	for _, r := range nativeRules {
		slug := strings.TrimPrefix(r.ID, "native/")
		t.Run(slug, func(t *testing.T) {
			a, err := txtar.ParseFile("testdata/native/lint/" + slug + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Files {
				broken, notes := nativeBroken(f.Data)
				want, wantNotes := []string(nil), []string(nil)
				if f.Name == "catch" {
					if want = []string{r.ID}; r.Note {
						want, wantNotes = nil, want
					}
				} else {
					notes = slices.DeleteFunc(notes, func(id string) bool { return id != r.ID })
				}
				if !slices.Equal(broken, want) || !slices.Equal(notes, wantNotes) {
					t.Errorf("%s: broken %v, notes %v", f.Name, broken, notes)
				}
			}
		})
	}
}

func TestNativeNoOrigin(t *testing.T) {
	for name, data := range nativeClean(t) {
		out := nativeWrite(nativeRead(t, data, StreamOptions{}), Options{NoOrigin: true})
		if broken, notes := nativeBroken(out); broken != nil || notes != nil {
			t.Errorf("%s: broken %v, notes %v", name, broken, notes)
		}
		if bytes.Contains(out, []byte(`"foreign"`)) || bytes.Contains(out, []byte(`"of":`)) {
			t.Errorf("%s: it has origins:\n%s", name, out)
		}
		if bytes.Contains(data, []byte(`"foreign"`)) == bytes.Equal(out, data) {
			t.Errorf("%s: it became\n%s", name, out)
		}
	}
}

// Whatever is missing, doubled or out of place in a journal, it is whole when it was read.
func TestNativeMends(t *testing.T) {
	for name, data := range nativeClean(t) {
		lines := slices.Collect(bytes.Lines(data))
		check := func(what string, at int, lines [][]byte) {
			t.Helper()
			events := nativeRead(t, bytes.Join(lines, nil), StreamOptions{})
			for i, e := range events[1:] {
				if e.Seq <= events[i].Seq {
					t.Errorf("%s, %s at line %d: number %d after %d", name, what, at+1, e.Seq, events[i].Seq)
				}
			}
			broken, _ := nativeBroken(nativeWrite(events, Options{}))
			broken = slices.DeleteFunc(broken, func(id string) bool { return id == "native/seq" || id == "native/of" }) // lines are missing
			if len(broken) > 0 {
				t.Errorf("%s, %s at line %d: %v", name, what, at+1, broken)
			}
			out := nativeWrite(events, Options{NoOrigin: true})
			if broken, _ := nativeBroken(out); broken != nil {
				t.Errorf("%s, %s at line %d: %v\n%s", name, what, at+1, broken, out)
			}
		}
		for i := range lines {
			if testing.Short() && i%5 != 0 {
				continue
			}
			check("cut", i, lines[:i])
			check("head off", i, lines[i:])
			check("missing", i, slices.Delete(slices.Clone(lines), i, i+1))
			check("doubled", i, slices.Insert(slices.Clone(lines), i, lines[i]))
			if i > 0 {
				swapped := slices.Clone(lines)
				swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
				check("swapped", i, swapped)
			}
		}
	}
}

// However a journal is cut, one end comes last and nothing is lost.
func TestNativeCutEverywhere(t *testing.T) {
	data := nativeClean(t)["guest.ndjson"]
	for n := range data {
		events := nativeRead(t, data[:n], StreamOptions{})
		ends := 0
		for _, e := range events {
			if _, ok := event.AsRunEnd(e.Body); ok {
				ends++
			}
		}
		if _, ok := event.AsRunEnd(events[len(events)-1].Body); !ok || ends != 1 {
			t.Fatalf("cut at byte %d: %d ends", n, ends)
		}
	}
}

var nativeReason = regexp.MustCompile(` at byte \d+: [a-z ]+`)

func TestNativeDecoder(t *testing.T) {
	tests := []struct{ name, line, want string }{ // want as it is written again, without the end
		{"as it stands", `{"seq":9,"session":"s","agent":"a","call":"c","of":7,"kind":"diag","body":{"text":"t"}}`, `{"seq":9,"session":"s","agent":"a","call":"c","of":7,"kind":"diag","body":{"text":"t"}}`},
		{"any order", `{"body":{"text":"t"},"kind":"diag","seq":9}`, `{"seq":9,"kind":"diag","body":{"text":"t"}}`},
		{"a kind from tomorrow", `{"seq":9,"kind":"x","body":{"a":[1]}}`, `{"seq":9,"kind":"x","body":{"a":[1]}}`},
		{"a type from tomorrow", `{"seq":9,"call":"c","kind":"tool.done","body":{"name":"n","exit":"0","more":1}}`, `{"seq":9,"call":"c","kind":"tool.done","body":{"name":"n","exit":"0","more":1}}`},
		{"not JSON", `{"seq":9,`, `{"seq":1,"kind":"foreign","body":{"dialect":"native","line":"{\"seq\":9,"}}
{"seq":2,"kind":"diag","body":{"text":"event: invalid JSON","source":"native"}}`},
		{"broken in the body", `{"seq":9,"kind":"diag","body":{"text":}}`, `{"seq":1,"kind":"foreign","body":{"dialect":"native","line":"{\"seq\":9,\"kind\":\"diag\",\"body\":{\"text\":}}"}}
{"seq":2,"kind":"diag","body":{"text":"event: invalid JSON","source":"native"}}`},
		{"no event", `{"type":"step_start"}`, `{"seq":1,"kind":"foreign","body":{"dialect":"native","line":"{\"type\":\"step_start\"}"}}
{"seq":2,"kind":"diag","body":{"text":"event: no kind","source":"native"}}`},
		{"not UTF-8", "\xff", `{"seq":1,"kind":"foreign","body":{"dialect":"native","base64":"/w=="}}
{"seq":2,"kind":"diag","body":{"text":"event: invalid JSON","source":"native"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := nativeReason.ReplaceAllString(string(nativeWrite(nativeRead(t, []byte(tt.line+"\n"), StreamOptions{AsTold: true}), Options{})), "")
			if diff := cmp.Diff(tt.want+"\n", got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A body that cannot be read still opens and ends what its kind does.
func TestNativeUnreadable(t *testing.T) {
	journal := []byte(`{"seq":1,"kind":"run.started","body":{"format":1}}
{"seq":2,"kind":"prompt","body":{"id":7}}
{"seq":3,"kind":"turn.started","body":{"number":"1"}}
{"seq":4,"call":"c1","kind":"tool.called","body":{"name":"bash"}}
{"seq":5,"kind":"turn.ended","body":{"usage":0}}
{"seq":6,"call":"c1","kind":"tool.done","body":{"name":"bash","exit":"0"}}
{"seq":7,"kind":"reply.done","body":{"stop":true}}
{"seq":8,"kind":"run.done","body":{"outcome":1}}
`)
	if out := nativeWrite(nativeRead(t, journal, StreamOptions{}), Options{}); !bytes.Equal(out, journal) {
		t.Errorf("it became\n%s", out)
	}
}

// What had to be put in moves the numbers after it, and Of follows.
func TestNativeMoved(t *testing.T) {
	got := string(nativeWrite(nativeRead(t, []byte(`{"seq":1,"kind":"run.started","body":{"format":1}}
not JSON
{"seq":2,"kind":"foreign","body":{"dialect":"grok","line":"x"}}
{"seq":3,"of":2,"kind":"notice","body":{"text":"a"}}
{"seq":9,"of":2,"kind":"notice","body":{"text":"b"}}
{"seq":10,"kind":"run.done","body":{"outcome":"done"}}
`), StreamOptions{}), Options{}))
	want := `{"seq":1,"kind":"run.started","body":{"format":1}}
{"seq":2,"kind":"foreign","body":{"dialect":"native","line":"not JSON"}}
{"seq":3,"kind":"diag","body":{"text":"event: invalid JSON","source":"native"}}
{"seq":4,"kind":"foreign","body":{"dialect":"grok","line":"x"}}
{"seq":5,"of":4,"kind":"notice","body":{"text":"a"}}
{"seq":9,"of":4,"kind":"notice","body":{"text":"b"}}
{"seq":10,"kind":"run.done","body":{"outcome":"done"}}
`
	if diff := cmp.Diff(want, nativeReason.ReplaceAllString(got, "")); diff != "" {
		t.Error(diff)
	}
}

// What was read from another dialect is whole, with its lines and without.
func TestNativeFromOthers(t *testing.T) {
	for _, d := range All() {
		paths, err := filepath.Glob("testdata/" + d.Name + "/recorded/*.ndjson")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, noOrigin := range []bool{false, true} {
				var out []byte
				enc := native.NewEncoder(Options{})
				for e, err := range Read(bytes.NewReader(data), d, StreamOptions{NoOrigin: noOrigin}) {
					if err != nil {
						t.Fatal(err)
					}
					out = enc.Encode(out, e)
				}
				if broken, _ := nativeBroken(out); broken != nil {
					t.Errorf("%s: %v", p, broken)
				}
				if again := nativeWrite(nativeRead(t, out, StreamOptions{}), Options{}); !bytes.Equal(again, out) {
					t.Errorf("%s: read again it is another", p)
				}
			}
		}
	}
}

// Every sample event is what the shapes say.
func TestNativeShapes(t *testing.T) {
	var diagnostics []Diagnostic
	l := NewLinter(&native, func(d Diagnostic) { diagnostics = append(diagnostics, d) })
	for _, e := range event.Samples() {
		l.Line(event.Append(nil, e), false)
	}
	for _, b := range event.Kinds() { // and nothing but what must be there
		l.Line(event.Append(nil, event.Event{Header: event.Header{Seq: 1}, Body: b}), false)
	}
	for _, d := range diagnostics {
		if !strings.HasPrefix(d.Rule, "native/") && d.Rule != "type-unknown" {
			t.Errorf("%+v", d)
		}
	}
	broken, _ := nativeBroken([]byte(`{"seq":1,"kind":"run.started","body":{"format":"1","rules":[{"permission":"a"}],"capabilities":1}}
{"seq":2.5,"kind":"run.done","body":{"outcome":"done","usage":{"input":-1},"duration_ms":1.5}}
`))
	if want := []string{"field-number", "field-type", "missing-field"}; !slices.Equal(broken, want) {
		t.Errorf("broken %v, want %v", broken, want)
	}
}
