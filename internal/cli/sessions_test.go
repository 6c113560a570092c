package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/journal"
)

// rowOf reads the row of the only session there is.
func rowOf(t *testing.T, state string) sessionRow {
	t.Helper()
	list, err := sessionFolders(filepath.Join(state, "sessions"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return readRow(list[0])
}

func TestSessionRow(t *testing.T) {
	start := event.RunStarted{Format: 1, Cwd: "/src", Provider: "p", Model: "m"}
	turn := func(n int, dollars float64) event.Body {
		return event.TurnEnded{Number: n, Cost: event.Cost{Total: new(dollars)}}
	}
	done := func(dollars float64) event.Body {
		return event.RunDone{Outcome: event.Done, Cost: event.Cost{Total: new(dollars)}}
	}
	tests := []struct {
		name   string
		bodies []event.Body
		want   string
	}{
		{"done", []event.Body{start, event.Prompt{Text: "\n  fix\tit \x1b[31m \nall"}, turn(1, 0.5), done(0.5)}, "done 1 $0.5000 /src p/m fix it ?[31m"},
		{"no money", []event.Body{start, event.Prompt{Text: "x"}, event.TurnEnded{Number: 1}, event.RunDone{}}, "done 1 - /src p/m x"},
		{"failed", []event.Body{start, event.RunFailed{Outcome: event.Misuse}}, "usage 0 - /src p/m "},
		{"cancelled", []event.Body{start, event.RunCancelled{}}, "cancelled 0 - /src p/m "},
		{"killed", []event.Body{start, event.Prompt{Text: "x"}, turn(1, 0.25), event.ToolCalled{}}, "cut 1 $0.2500 /src p/m x"},
		{"nothing", nil, "cut 0 -   "},
		{"gone on with", []event.Body{start, event.Prompt{Text: "one"}, turn(1, 0.5), done(0.5), event.RunStarted{Format: 1, Cwd: "/elsewhere", Provider: "q", Model: "n"},
			event.Prompt{Text: "two"}, turn(2, 0.25), done(0.25)}, "done 2 $0.7500 /src q/n one"},
		{"with history", []event.Body{start, event.Prompt{Text: "old", Source: event.SourceHistory}, event.Prompt{Text: "new"}}, "cut 0 - /src p/m new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			keep(t, state, "s", time.Hour, tt.bodies...)
			r := rowOf(t, state)
			got := fmt.Sprintf("%s %d %s %s %s %s", r.State, r.Turns, r.costText(), r.Workspace, r.Model, strings.ReplaceAll(r.Prompt, "\ufffd", "?"))
			if got != tt.want {
				t.Errorf("%q, not %q", got, tt.want)
			}
			if len(tt.bodies) > 0 && time.Since(r.Started) < 50*time.Minute || time.Since(r.Written) < 50*time.Minute {
				t.Errorf("began %s, written %s", r.Started, r.Written)
			}
		})
	}
}

func TestSessionStates(t *testing.T) {
	state := t.TempDir()
	dir := keep(t, state, "s", 0, event.RunStarted{Format: 1}, event.Prompt{Text: "x"})
	path := filepath.Join(dir, journalName)
	w, err := journal.Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := rowOf(t, state); r.State != stateRunning {
		t.Errorf("while it is written: %s", r.State)
	}
	w.Close()
	if r := rowOf(t, state); r.State != stateCut {
		t.Errorf("when its writer is gone: %s", r.State)
	}
	if err := os.WriteFile(path, []byte("garbage\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := rowOf(t, state); r.State != stateDamaged {
		t.Errorf("when it is no journal: %s", r.State)
	}
}

// Of a long journal only the ends are read: what stands in the middle makes no difference, and takes no time.
func TestSessionLong(t *testing.T) {
	state := t.TempDir()
	dir := keep(t, state, "s", 0, event.RunStarted{Format: 1, Cwd: "/src"}, event.Prompt{Text: "first"}, event.TurnEnded{Number: 1})
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	line := func(seq uint64, b event.Body) []byte {
		return append(event.Append(nil, event.Event{Header: event.Header{Seq: seq, Session: "s"}, Body: b}), '\n')
	}
	const size = 1 << 30 // a hole
	f.WriteAt(append([]byte("\n"), line(500, event.TurnEnded{Number: 9999})...), size/2)
	end := append([]byte("\n"), line(900, event.TurnEnded{Number: 321})...)
	end = append(end, line(901, event.RunDone{Outcome: event.Done, Cost: event.Cost{Total: new(2.5)}})...)
	f.WriteAt(end, size)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r := rowOf(t, state)
	if r.State != "done" || r.Turns != 321 || r.costText() != "$2.5000+" || r.Prompt != "first" || r.Workspace != "/src" {
		t.Errorf("%+v", r)
	}
	// A last line that is longer than what is read.
	f, _ = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	f.Write(line(902, event.RunStarted{Format: 1}))
	f.Write(line(903, event.RunFailed{Outcome: event.Failed, Detail: strings.Repeat("x", 2*tailBytes)}))
	f.Close()
	if r := rowOf(t, state); r.State != "failed" {
		t.Errorf("%+v", r)
	}
}

func TestShortNames(t *testing.T) {
	var list []sessionFolder
	want := map[string]string{
		"019a8b3c-1111-7abc-8abc-0123456789ab": "019a8b3c-11", "019a8b3c-1222-7abc-8abc-0123456789ab": "019a8b3c-12", "0b000000-1222-7abc-8abc-0123456789ab": "0b000000",
		"one": "one", "one-more": "one-more", "the-name-of-a-nightly": "the-name-of-a-nightly",
	}
	for n := range want {
		list = append(list, sessionFolder{dir: "/x/" + n})
	}
	if diff := cmp.Diff(want, shortNames(list)); diff != "" {
		t.Error(diff)
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 59 * time.Second: "now", time.Minute: "1 min ago", 59 * time.Minute: "59 min ago", time.Hour: "1 h ago", 47 * time.Hour: "47 h ago", 48 * time.Hour: "2 days ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: %s, not %s", d, got, want)
		}
	}
	for s, want := range map[string]time.Duration{"30d": 720 * time.Hour, "2w": 336 * time.Hour, "12h": 12 * time.Hour, "0d": 0, "0s": 0} {
		if got, err := parseAge(s); got != want || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "30", "-1d", "-5h", "1dd", "1dw", "99999999999999d", "month"} {
		if got, err := parseAge(s); err == nil {
			t.Errorf("%q is %s", s, got)
		}
	}
}

// Whatever a journal says, the table has one line for it, which does not steer the terminal and is not wider.
func TestSessionTable(t *testing.T) {
	var rows []sessionRow
	for _, s := range []string{"plain", "\x1b]0;title\a\x1b[2J", "a\nb\rc", "日本語" + strings.Repeat("ö", 300), "\u202eback", ""} {
		rows = append(rows, sessionRow{ID: "id", Written: time.Now(), State: s, Workspace: "/home/me/" + s, Prompt: firstLine(s), Cost: new(0.5)})
	}
	for _, columns := range []int{0, 40, 100} {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		writeRows(out, rows, nil, tableOptions{width: columns, home: "/home/me", now: time.Now()})
		out.Flush()
		text := b.String()
		if n := strings.Count(text, "\n"); n != len(rows)+1 {
			t.Errorf("%d lines for %d sessions: %q", n, len(rows), text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && obeyed(r) }) {
			t.Errorf("%q", text)
		}
		if columns != 40 && !strings.Contains(text, "~/plain") {
			t.Errorf("no home: %q", text)
		}
		for line := range strings.Lines(text) {
			if columns > 0 && width(strings.TrimSpace(line)) > columns {
				t.Errorf("wider than %d: %q", columns, line)
			}
		}
	}
}

// sessionsRun runs a command line of sessions.
func sessionsRun(t *testing.T, state string, args ...string) (code int, out, complaint string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", filepath.Dir(state))
	var o, e bytes.Buffer
	code = Run(context.Background(), append([]string{"sessions"}, args...), IO{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func TestSessionsRemove(t *testing.T) {
	state := filepath.Join(t.TempDir(), "sluice")
	for i, id := range []string{"aa-1", "ab-2", "b-3", "c-4"} {
		keep(t, state, id, time.Duration(i)*20*24*time.Hour, in("/a", "x")...)
	}
	spill := filepath.Join(state, "sessions", "aa-1", "spill")
	os.Mkdir(spill, 0o700)
	outside := filepath.Join(t.TempDir(), "kept")
	os.WriteFile(outside, nil, 0o600)
	os.Symlink(filepath.Dir(outside), filepath.Join(spill, "link"))
	left := func() string {
		names, _ := sessionNames(filepath.Join(state, "sessions"))
		return strings.Join(names, " ")
	}
	w, err := journal.Resume(filepath.Join(state, "sessions", "b-3", journalName))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// One that does not exist, two that are meant, one that runs: the others go all the same.
	code, out, complaint := sessionsRun(t, state, "rm", "zz", "a", "b", "aa")
	if code != exitUsage || out != "aa-1\n" || left() != "ab-2 b-3 c-4" {
		t.Errorf("%d %q, left: %s", code, out, left())
	}
	for _, want := range []string{`no session "zz"`, `2 sessions begin with "a"`, "session b-3 is running"} {
		if !strings.Contains(complaint, want) {
			t.Errorf("%q is not said: %s", want, complaint)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("what a link led to was removed:", err)
	}

	for _, tt := range []struct {
		args, out, left string
	}{
		{"--older 100d", "", "ab-2 b-3 c-4"},
		{"--keep 3", "", "ab-2 b-3 c-4"},
		{"--keep 1 --older 50d --dry-run", "c-4\n", "ab-2 b-3 c-4"},
		{"--dry-run", "c-4\n", "ab-2 b-3 c-4"},
		{"--older 10d --keep 1", "c-4\n", "ab-2 b-3"},
		{"--keep 0", "ab-2\n", "b-3"}, // it runs
	} {
		code, out, complaint := sessionsRun(t, state, append([]string{"prune"}, strings.Fields(tt.args)...)...)
		if code != exitOK || out != tt.out || complaint != "" || left() != tt.left {
			t.Errorf("%s: %d %q %q, left: %s", tt.args, code, out, complaint, left())
		}
	}
	for _, args := range []string{"--older soon", "--keep -1", "now"} {
		if code, out, complaint := sessionsRun(t, state, "prune", args); code != exitUsage || out != "" || !strings.Contains(complaint, "hint: ") {
			t.Errorf("%s: %d %q %q", args, code, out, complaint)
		}
	}
}

func TestSessionsList(t *testing.T) {
	state := filepath.Join(t.TempDir(), "sluice")
	if code, out, complaint := sessionsRun(t, state); code != exitOK || out != "" || !strings.Contains(complaint, "no session yet") {
		t.Errorf("%d %q %q", code, out, complaint)
	}
	here, err := theWorkspace("")
	if err != nil {
		t.Fatal(err)
	}
	keep(t, state, "one", 2*time.Hour, in("/a", "first")...)
	keep(t, state, "two", time.Hour, in(here, "second")...)
	_, out, _ := sessionsRun(t, state)
	if !regexp.MustCompile(`(?s)^session .*\ntwo +1 h ago +done +0 +- +\S+ +second\none +2 h ago +done +0 +- +/a +first\n$`).MatchString(out) {
		t.Error(out)
	}
	if _, out, complaint := sessionsRun(t, state, "-n", "1"); strings.Contains(out, "first") || !strings.Contains(complaint, "1 more") {
		t.Error(out, complaint)
	}
	if _, out, _ := sessionsRun(t, state, "--here", "--json"); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, `{"id":"two","state":"done","started":"`) {
		t.Error(out)
	}
	if _, out, _ := sessionsRun(t, state, "path", "latest"); out != filepath.Join(state, "sessions", "two", journalName)+"\n" {
		t.Error(out)
	}
	if _, out, _ := sessionsRun(t, state, "show", "o"); !strings.Contains(out, "outcome   done") && !strings.Contains(out, "outcome  done") {
		t.Error(out)
	}
	if code, _, complaint := sessionsRun(t, state, "show", "three"); code != exitUsage || !strings.Contains(complaint, "hint: sluice sessions lists them") {
		t.Error(complaint)
	}
}

// A thousand sessions are listed in no time.
func BenchmarkSessions(b *testing.B) {
	state := b.TempDir()
	turn := []event.Body{event.TurnStarted{}, event.Text{Text: strings.Repeat("word ", 200)}, event.ToolCalled{Name: "bash"}, event.TurnEnded{}, event.ToolDone{Output: strings.Repeat("line\n", 400)}}
	bodies := []event.Body{event.RunStarted{Format: 1, Cwd: "/src"}, event.Prompt{Text: "x"}}
	for range 50 {
		bodies = append(bodies, turn...)
	}
	dir := keep(b, state, "s", 0, append(bodies, event.RunDone{})...)
	data, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 999 {
		d := filepath.Join(state, "sessions", fmt.Sprintf("s%d", i))
		os.MkdirAll(d, 0o700)
		os.WriteFile(filepath.Join(d, journalName), data, 0o600)
	}
	b.SetBytes(int64(1000 * len(data)))
	for b.Loop() {
		list, _ := sessionFolders(filepath.Join(state, "sessions"))
		if rows := readRows(list); len(rows) != 1000 || rows[999].State != "done" {
			b.Fatal(rows[999])
		}
	}
}
