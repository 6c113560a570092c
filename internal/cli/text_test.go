package cli

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/journal"
)

var updateText = flag.Bool("update-text", false, "write testdata/text anew")

// writes keeps each write apart.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// told returns what a sink writes of events, and checks that it writes at most once for each.
func told(t *testing.T, o textOptions, events ...event.Event) string {
	t.Helper()
	var w writes
	s := newText(&w, o)
	for _, e := range events {
		before := len(w)
		if err := s.Put(e.Stamp()); err != nil {
			t.Fatal(err)
		}
		if len(w) > before+1 {
			t.Fatalf("%d writes for one %s", len(w)-before, e.Body.Kind())
		}
	}
	return strings.Join(w, "")
}

// screen is what a terminal shows in the end: lines that were drawn anew are gone, colours too.
func screen(text string) string {
	lines := strings.Split(colours.ReplaceAllString(text, ""), "\n")
	for i, l := range lines {
		if at := strings.LastIndex(l, eraseLine); at >= 0 {
			lines[i] = l[at+len(eraseLine):]
		}
	}
	return strings.Join(lines, "\n")
}

var colours = regexp.MustCompile(`\x1b\[[0-9]+m`)

// cleanJournals gives the events of the journals that the dialects are tested with.
func cleanJournals(t *testing.T) map[string][]event.Event {
	t.Helper()
	paths, err := filepath.Glob("../../dialect/testdata/native/clean/*.ndjson")
	if err != nil || len(paths) < 5 {
		t.Fatal(err, paths)
	}
	all := map[string][]event.Event{}
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		name := strings.TrimSuffix(filepath.Base(p), ".ndjson")
		for l, err := range journal.Scan(f, nil) {
			if err != nil {
				t.Fatal(p, err)
			}
			e, err := l.Event()
			if err != nil {
				t.Fatal(p, err)
			}
			all[name] = append(all[name], e)
		}
	}
	return all
}

// The goldens hold each journal as a log, and as a terminal gets it, with ESC and CR made visible and each write ended by ⏎.
func TestTextGolden(t *testing.T) {
	for name, events := range cleanJournals(t) {
		t.Run(name, func(t *testing.T) {
			var live writes
			s := newText(&live, textOptions{Colour: true, Live: true})
			for _, e := range events {
				if err := s.Put(e); err != nil {
					t.Fatal(err)
				}
			}
			visible := strings.NewReplacer("\x1b", "␛", "\r", "␍")
			got := txtar.Format(&txtar.Archive{Files: []txtar.File{
				{Name: "plain", Data: []byte(told(t, textOptions{}, events...))},
				{Name: "live", Data: []byte(visible.Replace(strings.Join(live, "⏎") + "⏎\n"))},
			}})
			file := filepath.Join("testdata", "text", name+".txt")
			if *updateText {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err, "; go test -update-text writes it")
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Error("want, got:", d)
			}
		})
	}
}

// What stays on a terminal is what a log has.
func TestTextLiveIsPlain(t *testing.T) {
	for name, events := range cleanJournals(t) {
		if name == "guest" {
			continue // something comes while the model speaks: see TestTextInterrupted
		}
		plain := told(t, textOptions{}, events...)
		live := screen(told(t, textOptions{Colour: true, Live: true}, events...))
		if d := cmp.Diff(plain, live); d != "" {
			t.Error(name, "plain, live:", d)
		}
	}
}

// Every whole block of the top agent is there once, deltas or not.
func TestTextOnce(t *testing.T) {
	h := event.Header{Session: "s"}
	block := []event.Event{
		{Header: h, Body: event.TextDelta{ID: "b", Text: "\n\nOne "}},
		{Header: h, Body: event.TextDelta{ID: "b", Text: "line.\r\n\r"}},
		{Header: h, Body: event.TextDelta{ID: "b", Text: "\nAnother.\n\n"}},
		{Header: h, Body: event.Text{ID: "b", Text: "\n\nOne line.\r\n\r\nAnother.\n\n"}},
	}
	next := event.Event{Header: h, Body: event.Text{ID: "c", Text: "Next."}}
	short := block[:2:2] // the last deltas were never told
	blank := []event.Event{
		{Header: h, Body: event.TextDelta{ID: "w", Text: "\n"}}, {Header: h, Body: event.Text{ID: "w", Text: "\n"}},
		{Header: h, Body: event.Text{ID: "v", Text: " \n"}},
	}
	nameless := []event.Event{
		{Header: h, Body: event.TextDelta{Text: "One line.\n\nAnother."}}, {Header: h, Body: event.Text{ID: "b", Text: "One line.\n\nAnother."}},
	}
	const want = "One line.\n\nAnother.\n\nNext.\n"
	for name, events := range map[string][]event.Event{
		"whole":    append(block[:len(block):len(block)], next),
		"short":    append(short, block[3], next),
		"blank":    append(append(blank, block...), next),
		"nameless": append(nameless, next),
	} {
		for _, o := range []textOptions{{}, {Live: true}} {
			if got := told(t, o, events...); got != want {
				t.Errorf("%s, %+v: %q", name, o, got)
			}
		}
	}
}

func TestTextStreams(t *testing.T) {
	var w writes
	s := newText(&w, textOptions{Live: true})
	for _, text := range []string{"I ", "look", "."} {
		if err := s.Put(event.Event{Body: event.TextDelta{ID: "b", Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(writes{"I ", "look", "."}, w); d != "" {
		t.Error("each delta is shown when it comes:", d)
	}
}

// A retry: the attempt that was given up is marked, the new one is told from its beginning.
func TestTextGivenUp(t *testing.T) {
	events := []event.Event{
		{Body: event.TextDelta{ID: "b1", Text: "I th"}},
		{Body: event.Text{ID: "b1", Text: "I th", Partial: true}},
		{Body: event.Retry{Attempt: 1, Limit: 4, Wait: 1500, Class: "overloaded", Status: 529, Message: "overloaded"}},
		{Body: event.TextDelta{ID: "b2", Text: "I think so."}},
		{Body: event.Text{ID: "b2", Text: "I think so."}},
	}
	const want = "I th … given up\n\n  ↻ overloaded (529) · trying again in 1.5s · 1 of 4\n\nI think so.\n"
	for _, o := range []textOptions{{}, {Live: true, Colour: true}} {
		if got := screen(told(t, o, events...)); got != want {
			t.Errorf("%+v: %q", o, got)
		}
	}
}

// Calls run at once and end in any order; each agent counts its own.
func TestTextParallel(t *testing.T) {
	at := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	seq := uint64(0)
	ev := func(after time.Duration, agent, call string, b event.Body) event.Event {
		seq++
		return event.Event{Header: event.Header{Seq: seq, At: at.Add(after), Agent: agent, Call: call}, Body: b}
	}
	events := []event.Event{
		ev(0, "", "c1", event.ToolCalled{Name: "bash", Title: "sleep 9"}),
		ev(0, "", "c2", event.ToolCalled{Name: "bash", Title: "false"}),
		ev(0, "task-1", "c1", event.ToolCalled{Name: "read", Title: "main.go"}),
		ev(0, "", "c1", event.ToolStarted{Name: "bash"}),
		ev(0, "", "c2", event.ToolStarted{Name: "bash"}),
		ev(time.Second, "task-1", "c1", event.ToolStarted{Name: "read"}),
		ev(2*time.Second, "", "c2", event.ToolFailed{Name: "bash", Exit: new(1), Error: "exit status 1"}),
		ev(3*time.Second, "task-1", "c1", event.ToolDone{Name: "read", Output: "package main\n\nfunc main() {}"}),
		ev(9*time.Second, "", "c1", event.ToolDone{Name: "bash", Exit: new(0)}),
	}
	const want = "  ✗ bash false · 2s · exit 1\n    ✓ read main.go · 2s · 3 lines\n  ✓ bash sleep 9 · 9s\n"
	live := told(t, textOptions{Live: true}, events...)
	if got := screen(live); got != want {
		t.Errorf("%q", got)
	}
	for _, status := range []string{"… bash false and 1 more", "… read main.go and 2 more", "… read main.go and 1 more · 1s", "… bash sleep 9 · 3s"} {
		if !strings.Contains(live, status) {
			t.Errorf("no status line says %q in %q", status, live)
		}
	}
}

// Lines that come while the model speaks stand on lines of their own.
func TestTextInterrupted(t *testing.T) {
	got := told(t, textOptions{Live: true},
		event.Event{Body: event.TextDelta{ID: "b", Text: "I wait"}},
		event.Event{Body: event.Notice{Text: "disk nearly full"}},
		event.Event{Body: event.TextDelta{ID: "b", Text: " no more."}},
		event.Event{Body: event.Text{ID: "b", Text: "I wait no more."}})
	if want := "I wait\n\n  i disk nearly full\n\n no more.\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestTextDenied(t *testing.T) {
	call := event.Header{Session: "s", Call: "c1"}
	deny := func(a event.GateAnswer) string {
		return told(t, textOptions{},
			event.Event{Header: call, Body: event.ToolCalled{Name: "bash", Title: "it's"}},
			event.Event{Header: call, Body: event.GateDenied(a)},
			event.Event{Header: call, Body: event.ToolDenied{Name: "bash", Title: "it's", Error: a.Reason}})
	}
	for _, c := range []struct {
		answer event.GateAnswer
		want   string
	}{
		{event.GateAnswer{By: event.ByRule, Rule: &event.Rule{Permission: "bash", Pattern: "it *", Action: "deny"}, Reason: "no"},
			"  ⊘ bash it's · denied by the rule bash(it *)\n    no\n"},
		{event.GateAnswer{By: event.ByNobody, Permission: "bash", Patterns: []string{"it's"}},
			"  ⊘ bash it's · denied: nobody was there to ask\n    to let it pass: --allow 'bash(it'\\''s)'\n"},
		{event.GateAnswer{By: event.ByNobody, Permission: "bash", Reason: "to let it pass: --allow 'bash(it *)'"},
			"  ⊘ bash it's · denied: nobody was there to ask\n    to let it pass: --allow 'bash(it *)'\n"},
		{event.GateAnswer{By: event.ByClient, Scope: "always"}, "  ⊘ bash it's · denied from now on by the client\n"},
	} {
		if got := deny(c.answer); got != c.want {
			t.Errorf("%+v: %q", c.answer, got)
		}
	}
	alone := told(t, textOptions{}, event.Event{Body: event.GateDenied{Tool: "bash", By: event.ByFile, Reason: "not today"}})
	if want := "  ⊘ bash · denied by an answer file\n    not today\n"; alone != want {
		t.Errorf("%q", alone)
	}
}

func TestTextDiff(t *testing.T) {
	diff := "--- a/x\n+++ b/x\n@@ -1,30 +1,30 @@\n--- a removed comment\n+++ counted\n" + strings.Repeat(" same\n", 3) + strings.Repeat("-old\n+\tnew\n", 6)
	got := told(t, textOptions{Colour: true}, event.Event{Body: event.ToolDone{Name: "edit", Title: "x", Type: "diff", Output: diff}})
	for _, want := range []string{"+7 −7", "\x1b[31m--- a removed comment", "\x1b[32m+    new", "\x1b[2m… +6 lines"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Contains(got, "a/x") || strings.Count(got, "\n") != 1+maxDiff+1 {
		t.Errorf("not folded: %q", got)
	}
	said := told(t, textOptions{}, event.Event{Body: event.ToolDone{Name: "edit", Type: "diff", Output: "+a\n", Metadata: event.Raw(`{"added":40,"removed":2}`)}})
	if !strings.Contains(said, "+40 −2") {
		t.Errorf("the tool knows better: %q", said)
	}
}

func TestTextEnds(t *testing.T) {
	turn := event.Event{Body: event.TurnEnded{Usage: event.Usage{Input: new(int64(1234))}}}
	for _, c := range []struct {
		events []event.Event
		want   string
	}{
		{[]event.Event{{Body: event.RunFailed{Outcome: event.Misuse, Reason: "no key"}}}, "✗ could not start\n  reason  no key\n"},
		{[]event.Event{{Body: event.RunDone{Outcome: event.Done, Cost: event.Cost{Total: new(0.0)}}}}, "✓ done\n  cost    $0\n"},
		{[]event.Event{turn, {Body: event.RunDone{Outcome: event.Done, Duration: new(int64(61000))}}}, "✓ done · 1m01s · 1 turn\n  tokens  1.2k in\n  cost    unknown\n"},
		{[]event.Event{{Body: event.RunCancelled{}}}, "✗ cancelled\n"},
		{[]event.Event{{Body: event.RunFailed{Outcome: "from.tomorrow", Inferred: true}}}, "✗ from.tomorrow\n          nobody said so: this end was inferred\n"},
		{[]event.Event{{Body: event.RunDone{Outcome: event.Done, Changes: &event.Changes{Files: strings.Split("a b c d e f g h", " "), Untracked: []string{"i"}, Added: 3}}}},
			"✓ done\n  changed a, b, c, d, e, f, g, h and 1 more · +3 −0\n"},
	} {
		if d := cmp.Diff(c.want, told(t, textOptions{}, c.events...)); d != "" {
			t.Error("want, got:", d)
		}
	}
	for _, o := range []event.Outcome{
		event.Done, event.Misuse, event.Unavailable, event.Failed, event.Internal, event.Denied, event.Budget, event.Unverified,
		event.Timeout, event.Stalled, event.Cancelled,
	} {
		if outcomes[o] == "" {
			t.Errorf("no words for %q", o)
		}
	}
}

func TestTextNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 20 * time.Millisecond: "20ms", 999 * time.Millisecond: "999ms", 999700 * time.Microsecond: "1s", 3440 * time.Millisecond: "3.4s",
		59960 * time.Millisecond: "1m00s", 123 * time.Second: "2m03s", time.Hour - time.Millisecond: "1h00m", 62 * time.Minute: "1h02m",
	} {
		if got := humanSpan(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1k", 1234: "1.2k", 18_934: "18.9k", 99_960: "100k", 180_000: "180k", 999_600: "1M", 2_500_000: "2.5M", 5e12: "5000G"} {
		if got := humanCount(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "$0", 0.00001: "< $0.0001", 0.01234: "$0.0123", 12.5: "$12.5000"} {
		if got := humanCost(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
}

var errGone = errors.New("gone")

type goneWriter struct{}

func (goneWriter) Write([]byte) (int, error) { return 0, errGone }

func TestTextWriterGone(t *testing.T) {
	if err := newText(goneWriter{}, textOptions{}).Put(event.Event{Body: event.Notice{Text: "x"}}); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

// A long answer in small pieces costs what its pieces cost.
func BenchmarkTextDeltas(b *testing.B) {
	s := newText(io.Discard, textOptions{Live: true, Colour: true})
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Put(event.Event{Body: event.TextDelta{ID: "b", Text: "word"}})
	}
}
