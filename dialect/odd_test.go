package dialect

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// wantOneEnd checks that a stream was made whole: run.started before all else, one run's end, and last.
func wantOneEnd(t testing.TB, events []event.Event) {
	t.Helper()
	starts, ends := 0, 0
	for i, e := range events {
		if _, ok := event.AsRunEnd(e.Body); ok {
			if ends++; i != len(events)-1 {
				t.Fatalf("%s is not last", e.Kind)
			}
		}
		if e.Kind == "run.started" {
			starts++
		}
	}
	if starts != 1 || ends != 1 {
		t.Fatalf("%d starts and %d ends", starts, ends)
	}
}

func foreignLines(events []event.Event) (n int) {
	for _, e := range events {
		if e.Kind == "foreign" {
			n++
		}
	}
	return n
}

func TestCutAtEveryByte(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		t.Parallel()
		if len(s.data) > 8<<10 {
			return
		}
		var events []event.Event
		keep := func(e event.Event) { events = append(events, e) }
		for cut := range len(s.data) {
			if testing.Short() && cut%97 != 0 {
				continue
			}
			events = events[:0]
			stream, lines := NewStream(s.d, StreamOptions{}), 0
			for line := range bytes.Lines(s.data[:cut]) {
				whole, ended := bytes.CutSuffix(line, []byte("\n"))
				stream.Line(whole, !ended, keep)
				lines++
			}
			stream.Close(keep)
			wantOneEnd(t, events)
			if n := foreignLines(events); s.d != &native && n != lines {
				t.Fatalf("cut at %d: %d lines, %d foreign events", cut, lines, n)
			}
		}
	})
}

// A stream that was cut becomes whole again: its lines are kept as they were, and what is missing is added. In other words,
// a cut stream of any dialect is clean in every dialect.
func TestCutStreamsAreMadeWhole(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		for _, s := range samples(t, d, "clean") {
			lines := bytes.SplitAfter(s.data, []byte("\n"))
			for n := range lines {
				if testing.Short() && n%5 != 0 {
					continue
				}
				for _, half := range []bool{false, true} {
					part := bytes.Join(lines[:n], nil)
					if half {
						part = append(part, lines[n][:len(lines[n])/2]...)
					}
					if len(part) == 0 {
						continue
					}
					events := decodeAll(t, part, d, StreamOptions{})
					for _, to := range dialects {
						out := encodeAll(events, to, Options{NoOrigin: true})
						wantClean(t, out, to, fmt.Sprintf("%s cut after line %d, to %s", s.name, n, to.Name))
					}
					if d.encoder == nil {
						continue
					}
					out := encodeAll(events, d, Options{Repair: true})
					wantClean(t, out, d, fmt.Sprintf("%s cut after line %d, repaired", s.name, n))
					if d != &native && !bytes.HasPrefix(out, bytes.Join(lines[:n], nil)) {
						t.Errorf("%s cut after line %d: the lines were not kept", s.name, n)
					}
					if t.Failed() {
						return
					}
				}
			}
		}
	})
}

func TestHoweverTheBytesCome(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		want := decodeAll(t, s.data, s.d, StreamOptions{})
		var got []event.Event
		for e, err := range Read(iotest.OneByteReader(bytes.NewReader(s.data)), s.d, StreamOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOddBytesAreBorneAndKept(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)
	odd := []string{
		"", "\n", " ", "null", "17", `"text"`, "[]", "[{}]", "{}", "{", "}", `{"type":1}`, `{"type":null}`, `{"event":[]}`, `{"type":"text"}`,
		"\x00", "\xff\xfe", `{"type":"text","text":"` + "\xff" + `"}`, `{"kind":"text","body":7}`, "\ufeff{}", deep, strings.Repeat("[", 20000),
		"log line, not JSON", "\x1b[31mred\x1b[0m", `{"type":"text","type":"error"}`,
	}
	each(t, func(t *testing.T, d *Dialect) {
		clean := samples(t, d, "clean")[0].data
		types := []string{}
		for _, l := range d.shapes().lines {
			for _, v := range []string{"null", "7", `"x"`, "[]", "[7]", "{}", `{"type":7}`, "1e400", "-1"} {
				fields := []string{fmt.Sprintf("%q:%q", d.shapes().key, l.name)}
				for _, f := range d.shapes().all(&l) {
					if f.name != d.shapes().key {
						fields = append(fields, fmt.Sprintf("%q:%s", f.name, v))
					}
				}
				types = append(types, "{"+strings.Join(fields, ",")+"}")
			}
		}
		for _, sep := range []string{"\n", "\r\n"} {
			lines := slices.Concat(strings.Split(strings.TrimSpace(string(clean)), "\n"), odd, types)
			for i := range lines {
				if sep == "\r\n" {
					lines[i] = strings.TrimSuffix(lines[i], "\r")
				}
			}
			in := "\ufeff" + strings.Join(lines, sep)
			events := decodeAll(t, []byte(in), d, StreamOptions{})
			wantOneEnd(t, events)
			lintAll([]byte(in), d)
			if d == &native {
				continue
			}
			if d.encoder != nil {
				if got := encodeAll(throughNative(t, events), d, Options{}); string(got) != in {
					t.Error("the lines did not come back as they were")
				}
			}
			for _, to := range dialects {
				wantClean(t, encodeAll(events, to, Options{NoOrigin: true}), to, "odd "+d.Name+" → "+to.Name)
			}
		}
	})
}

func TestALineOf64MegabytesIsBorne(t *testing.T) {
	if testing.Short() {
		return
	}
	each(t, func(t *testing.T, d *Dialect) {
		clean := samples(t, d, "clean")[0].data
		head, rest, _ := bytes.Cut(clean, []byte("\n"))
		long := fmt.Sprintf(`{"%s":"text","text":"%s"}`, d.shapes().key, strings.Repeat("0123456789abcdef", 4<<20))
		in := io.MultiReader(bytes.NewReader(head), strings.NewReader("\n"+long+"\n"), bytes.NewReader(rest))
		n, max := 0, 0
		var last event.Event
		for e, err := range Read(in, d, StreamOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := e.Body.(event.Foreign); ok {
				n++
				max = maxOf(max, len(f.Line))
			}
			last = e
		}
		if _, ok := event.AsRunEnd(last.Body); !ok {
			t.Errorf("the last event is %s", last.Kind)
		}
		if want := bytes.Count(clean, []byte("\n")) + 1; d != &native && (n != want || max != len(long)) {
			t.Errorf("%d lines, the longest %d; want %d and %d", n, max, want, len(long))
		}
	})
}

func maxOf(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Reading, telling and linting a stream again and again takes no more memory than once.
func TestMemoryDoesNotGrowWithTheStream(t *testing.T) {
	each(t, func(t *testing.T, d *Dialect) {
		clean := samples(t, d, "clean")
		var one []byte
		for _, s := range clean {
			one = append(one, s.data...)
		}
		heap := func(times int) uint64 {
			to := d
			if d.encoder == nil {
				to = &native
			}
			enc := to.NewEncoder(Options{NoOrigin: true})
			l := NewLinter(d, func(Diagnostic) {})
			s := NewStream(d, StreamOptions{})
			var buf []byte
			for range times {
				for line := range bytes.Lines(one) {
					l.Line(line, false)
					s.Line(line, false, func(e event.Event) { buf = enc.Encode(buf[:0], e) })
				}
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			runtime.KeepAlive(enc)
			runtime.KeepAlive(l)
			runtime.KeepAlive(s)
			return m.HeapAlloc
		}
		long := 600
		if testing.Short() {
			long = 60
		}
		heap(20)
		few := heap(20)
		if many := heap(long); many > few+4<<20 {
			t.Errorf("%d bytes after 20 times, %d after %d", few, many, long)
		}
	})
}
