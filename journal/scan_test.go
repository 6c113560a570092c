package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// said is what a scan yielded, in words.
func said(r io.Reader) (list []string) {
	for line, err := range Scan(r, nil) {
		var torn *TornError
		var bad *LineError
		switch {
		case errors.As(err, &torn):
			list = append(list, fmt.Sprintf("torn at %d", torn.Offset))
		case errors.As(err, &bad):
			list = append(list, fmt.Sprintf("line %d at %d: %s", bad.Number, bad.Offset, bad.Raw))
		case err != nil:
			list = append(list, err.Error())
		default:
			list = append(list, fmt.Sprintf("%d %s", line.Seq, line.Kind))
		}
	}
	return list
}

func TestScan(t *testing.T) {
	const a, b = `{"seq":1,"kind":"text","body":{}}` + "\n", `{"body":{},"kind":"text","seq":2}` + "\n"
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"two", a + b, []string{"1 text", "2 text"}},
		{"bad in the middle", a + "x\n\n" + b, []string{"1 text", "line 2 at 34: x", "line 3 at 36: ", "2 text"}},
		{"no newline", a + b[:len(b)-1], []string{"1 text", "torn at 34"}},
		{"half", a + b[:9], []string{"1 text", "torn at 34"}},
		{"not JSON at the end", a + "x\n", []string{"1 text", "torn at 34"}},
		{"not JSON, then torn", a + "x\ny", []string{"1 text", "line 2 at 34: x", "torn at 36"}},
		{"no event at the end", a + "[]\n", []string{"1 text", "line 2 at 34: []"}},
	} {
		if diff := cmp.Diff(c.want, said(strings.NewReader(c.in))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := cmp.Diff(c.want, said(iotest.OneByteReader(strings.NewReader(c.in)))); diff != "" {
			t.Errorf("%s, byte by byte: %s", c.name, diff)
		}
	}
	broken := io.MultiReader(strings.NewReader(a+"x\n"+b[:9]), iotest.ErrReader(errors.New("no")))
	if diff := cmp.Diff([]string{"1 text", "line 2 at 34: x", "journal: no"}, said(broken)); diff != "" {
		t.Error(diff)
	}
}

func TestScanStops(t *testing.T) {
	in := strings.Repeat(`{"seq":1,"kind":"text","body":{}}`+"\nx\n[]\n", 3)
	for stop := range 9 {
		n := 0
		for range Scan(strings.NewReader(in), nil) {
			if n++; n > stop {
				break
			}
		}
	}
}

func TestScanLongLine(t *testing.T) {
	const size = 64 << 20
	long := event.Append(nil, event.Event{Header: event.Header{Seq: 1}, Body: event.ToolDone{Name: "bash", Output: strings.Repeat("x", size)}})
	in := append(long, "\n"+`{"seq":2,"kind":"text","body":{"text":"b"}}`+"\n"...)
	scan := func(want func(event.Header) bool) (lines []event.Line, allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for line, err := range Scan(bytes.NewReader(in), want) {
			if err != nil {
				t.Fatal(err)
			}
			b, err := line.Body()
			if line.Elided() != errors.Is(err, event.ErrElided) {
				t.Error("elided, but a body:", err)
			}
			if end, ok := b.(event.ToolDone); ok && len(end.Output) != size {
				t.Errorf("%d bytes of output", len(end.Output))
			}
			lines = append(lines, line)
		}
		runtime.ReadMemStats(&after)
		return lines, after.TotalAlloc - before.TotalAlloc
	}
	lines, allocated := scan(func(event.Header) bool { return false })
	if len(lines) != 2 || !lines[0].Elided() || lines[0].Seq != 1 || lines[1].Elided() || lines[1].Seq != 2 {
		t.Errorf("%d lines", len(lines))
	}
	if allocated > 1<<20 {
		t.Errorf("allocated %d bytes for a line that nobody wants", allocated)
	}
	lines, _ = scan(func(h event.Header) bool { return h.Kind == "tool.done" })
	if len(lines) != 2 || lines[0].Elided() {
		t.Error("a long line that is wanted was not kept")
	}
	in = in[:size/2]
	if got := said(bytes.NewReader(in)); len(got) != 1 || got[0] != "torn at 0" {
		t.Error(got)
	}
}

func FuzzScan(f *testing.F) {
	var whole []byte
	for _, e := range event.Samples()[3:6] {
		whole = append(event.Append(whole, e), '\n')
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-20])
	f.Add([]byte("x\n\n[]\n{\"seq\":1,\"kind\":\"text\",\"body\":{}}\n\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		want := bytes.Count(in, []byte("\n"))
		if len(in) > 0 && in[len(in)-1] != '\n' {
			want++ // the torn tail
		}
		got := 0
		for line, err := range Scan(bytes.NewReader(in), nil) {
			got++
			var bad *LineError
			switch {
			case errors.As(err, &bad):
				if !bytes.HasPrefix(in[bad.Offset:], bad.Raw) {
					t.Errorf("line %d is not at %d", bad.Number, bad.Offset)
				}
			case err == nil:
				line.Body()
			}
		}
		if got != want {
			t.Errorf("%d of %d lines", got, want)
		}
	})
}

func BenchmarkScanHeaders(b *testing.B) {
	text := strings.Repeat("some words of a file that was read; ", 200)
	h := event.Samples()[0].Header
	turn := func(deltas int) (list []event.Event) {
		for range deltas {
			list = append(list, event.Event{Header: h, Body: event.TextDelta{ID: "m1", Text: "some words " + text[:120]}})
		}
		call := h
		call.Call = "call_1"
		return append(list,
			event.Event{Header: h, Body: event.Text{Text: text[:600]}},
			event.Event{Header: call, Body: event.ToolCalled{Name: "read", Input: event.Raw(`{"path":"main.go"}`)}},
			event.Event{Header: h, Body: event.TurnEnded{Number: 1, Finish: event.FinishToolCalls}},
			event.Event{Header: call, Body: event.ToolDone{Name: "read", Output: text[:4200]}},
		)
	}
	for _, c := range []struct {
		name   string
		deltas int
	}{{"blocks", 0}, {"deltas", 120}} {
		var in []byte
		lines := 0
		for len(in) < 16<<20 {
			for _, e := range turn(c.deltas) {
				lines++
				e.Seq = uint64(lines)
				in = append(event.Append(in, e), '\n')
			}
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				n := 0
				for _, err := range Scan(bytes.NewReader(in), nil) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != lines {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(len(in)/lines), "B/line")
		})
	}
}

func ExampleScan() {
	journal := strings.NewReader(`{"seq":1,"kind":"run.started","body":{"format":1}}
{"seq":2,"kind":"text","body":{"text":"hello"}}
{"seq":3,"kind":"run.done","body":{}}
{"seq":4,"kin`)
	for line, err := range Scan(journal, nil) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(line.Seq, line.Kind)
	}
	// Output:
	// 1 run.started
	// 2 text
	// 3 run.done
	// journal: torn at byte 137
}
