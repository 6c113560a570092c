package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/journal"
)

// keep writes the journal of a session, as old as it is said to be.
func keep(t testing.TB, state, id string, age time.Duration, bodies ...event.Body) string {
	t.Helper()
	path := filepath.Join(state, "sessions", id, journalName)
	w, err := journal.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	at := time.Now().Add(-age)
	src := event.NewSource(id, 0, w, nil, func() time.Time { return at })
	for _, b := range bodies {
		if _, err := src.Emit(event.Event{Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(path)
}

func in(cwd, prompt string) []event.Body {
	return []event.Body{event.RunStarted{Format: 1, Cwd: cwd}, event.Catalog{}, event.Prompt{Text: prompt}, event.ReplyDone{}, event.RunDone{Outcome: event.Done}}
}

func TestFindSession(t *testing.T) {
	state := t.TempDir()
	abc := keep(t, state, "abc", 0, in("/a", "x")...)
	abcd := keep(t, state, "abcd", 0, in("/a", "x")...)
	abce := keep(t, state, "abce-1", 0, in("/a", "x")...)
	os.Mkdir(filepath.Join(state, "sessions", "abx"), 0o700) // no journal
	os.Symlink(abc, filepath.Join(state, "sessions", "link"))
	os.WriteFile(filepath.Join(state, "secret"), nil, 0o600)
	for name, want := range map[string]string{
		"abc": abc, "abcd": abcd, "abce": abce, "abce-1": abce,
		"": "no session", "ab": "3 sessions begin", "abx": "no session", "link": "no session", "li": "no session", "z": "no session",
		"../sessions/abc": "no session", ".": "no session", "..": "no session", "abc/": "no session", "abc\x00": "no session",
	} {
		got, err := findSession(state, name)
		if err != nil {
			got = err.Error()
		}
		if got != want && !(err != nil && strings.Contains(got, want)) {
			t.Errorf("%q: %s, not %s", name, got, want)
		}
	}
	if _, err := findSession(filepath.Join(state, "nowhere"), "abc"); err == nil || !strings.Contains(err.Error(), "no session") {
		t.Errorf("without any session: %v", err)
	}
}

func TestLatestSession(t *testing.T) {
	state := t.TempDir()
	if _, err := latestSession(state, "/a"); err == nil {
		t.Error("found one of none")
	}
	keep(t, state, "old", 3*time.Hour, in("/a", "x")...)
	keep(t, state, "new", 2*time.Hour, in("/a", "x")...)
	keep(t, state, "other", time.Hour, in("/b", "x")...)
	keep(t, state, "silent", 0, event.RunStarted{Format: 1, Cwd: "/a"}, event.RunFailed{Outcome: event.Misuse})
	keep(t, state, "empty", 0)
	for workspace, want := range map[string]string{"/a": "new", "/b": "other", "": "other", "/c": ""} {
		got, err := latestSession(state, workspace)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; not %q", workspace, got, err, want)
		}
	}
	// Going on with a session makes it the latest.
	now := time.Now()
	if err := os.Chtimes(filepath.Join(state, "sessions", "old", journalName), now, now); err != nil {
		t.Fatal(err)
	}
	if got, _ := latestSession(state, "/a"); got != "old" {
		t.Errorf("%q", got)
	}
}
