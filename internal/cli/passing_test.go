package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// What a digest and a conversion are given is gone with its line: whatever they keep must be a copy, or it would be what stands in the
// buffer later.

func call(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	var out, err bytes.Buffer
	if code := Run(context.Background(), args, IO{In: bytes.NewReader(in), Out: &out, Err: &err}); code != 0 {
		t.Fatalf("%v: exit %d, %s", args, code, err.String())
	}
	return out.Bytes()
}

func TestDigestKeepsWhatItShows(t *testing.T) {
	long := strings.Repeat("nothing to see in here, and more of it. ", 100)
	var events []event.Event
	source := event.Header{Session: "ses_1"}
	add := func(b event.Body) { events = append(events, event.Event{Header: source, Body: b}.Stamp()) }
	add(event.RunStarted{Format: event.Format, Program: "sluice", Provider: "p", Model: "m"})
	add(event.Prompt{ID: "m1", Text: "go"})
	for turn := 1; turn <= 300; turn++ {
		text := long
		if turn <= 3 { // plain, with an escape, and beyond ASCII
			text = []string{"There is a failed test, the first.\n", "Another\nfailed test\tthe second.\n", "A failed test für die dritte.\n"}[turn-1]
		}
		add(event.TurnStarted{Number: turn})
		add(event.TextDelta{ID: fmt.Sprint("b", turn), Text: text[:len(text)/3]})
		add(event.TextDelta{ID: fmt.Sprint("b", turn), Text: text[len(text)/3:]})
		add(event.Text{ID: fmt.Sprint("b", turn), Text: text})
		add(event.TurnEnded{Number: turn, Provider: "p", Model: "m", Finish: event.FinishStop})
	}
	add(event.ReplyDone{Prompt: "m1", Stop: "end_turn"})
	add(event.RunDone{Outcome: event.Done})

	for _, name := range []string{"native", "aictrl", "grok", "avenor", "enso", "aionrs"} {
		d, err := dialect.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		enc := d.NewEncoder(dialect.Options{})
		var stream []byte
		for i, e := range events {
			e.Seq = uint64(i + 1)
			stream = enc.Encode(stream, e)
		}
		var sum struct {
			Findings int `json:"findings"`
			Excerpts []struct{ Text string }
		}
		if err := json.Unmarshal(call(t, stream, "digest", "--json", "--dialect", name), &sum); err != nil {
			t.Fatal(err)
		}
		want := "[{There is a failed test, the first.} {failed test the second.} {A failed test für die dritte.}]"
		if name == "aionrs" { // it has no turns: all is one text
			want = "[{There is a failed test, the first.}]"
		}
		if got := fmt.Sprint(sum.Excerpts); sum.Findings != 3 || got != want {
			t.Errorf("%s: %d %s, want %s", name, sum.Findings, got, want)
		}
	}
}

func TestConvertKeepsLines(t *testing.T) {
	for _, name := range []string{"aictrl", "grok", "avenor", "enso", "aionrs"} {
		files, _ := filepath.Glob("../../dialect/testdata/" + name + "/recorded/*")
		var stream []byte
		for len(files) > 0 && len(stream) < 1<<20 { // several buffers
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				stream = append(stream, data...)
				if len(data) > 0 && data[len(data)-1] != '\n' {
					stream = append(stream, '\n')
				}
			}
		}
		if len(stream) == 0 {
			t.Fatalf("no streams of %s", name)
		}
		native := call(t, stream, "convert", "--from", name, "--to", "native")
		if back := call(t, native, "convert", "--from", "native", "--to", name); !bytes.Equal(back, stream) {
			t.Errorf("%s: what came back is another", name)
		}
		if same := call(t, stream, "convert", "--from", name, "--to", name); !bytes.Equal(same, stream) {
			t.Errorf("%s: what was to stay is another", name)
		}
	}
}
