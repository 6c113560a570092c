package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/journal"
)

// A session is a folder under the state folder, named by its id; its journal is in it. This file finds one.

// journalName is the journal's name in a session's folder.
const journalName = "journal.ndjson"

// findSession returns the folder of the session with this name, or with the only name that begins so.
func findSession(state, name string) (dir string, err error) {
	if name == "" || checkSession(name) != nil {
		return "", noSession(name)
	}
	root := filepath.Join(state, "sessions")
	if hasJournal(filepath.Join(root, name)) {
		return filepath.Join(root, name), nil
	}
	names, err := sessionNames(root)
	if err != nil {
		return "", err
	}
	var found []string
	for _, n := range names {
		if strings.HasPrefix(n, name) && hasJournal(filepath.Join(root, n)) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return "", noSession(name)
	case 1:
		return filepath.Join(root, found[0]), nil
	}
	return "", hinted{fmt.Errorf("%d sessions begin with %q", len(found), name), "type more of it: " + found[0] + " or " + found[1]}
}

func noSession(name string) error {
	return hinted{fmt.Errorf("there is no session %q", name), "sluice sessions lists them"}
}

// latestSession returns the session that was written to last, of those that worked in this folder; an empty workspace means
// any folder. One in which nobody said anything yet does not count: there is nothing to go on with.
func latestSession(state, workspace string) (id string, err error) {
	list, err := sessionFolders(filepath.Join(state, "sessions"))
	if err != nil {
		return "", err
	}
	for _, f := range list { // the newest first
		head, err := readHead(filepath.Join(f.dir, journalName))
		if err == nil && head.asked && (workspace == "" || head.started.Cwd == workspace) {
			return filepath.Base(f.dir), nil
		}
	}
	if workspace == "" {
		return "", hinted{errors.New("there is no session yet"), "sluice run begins one"}
	}
	return "", hinted{fmt.Errorf("%w in %s", errNoSession, workspace), "sluice sessions lists those of other folders"}
}

// errNoSession says that nothing ran in a folder yet.
var errNoSession = errors.New("there is no session")

// A sessionFolder is a session that was not opened yet.
type sessionFolder struct {
	dir     string
	written time.Time // when its journal was last written to
	size    int64     // of its journal
}

// sessionFolders lists the sessions, the one that was written to last first.
func sessionFolders(root string) ([]sessionFolder, error) {
	names, err := sessionNames(root)
	if err != nil {
		return nil, err
	}
	list := make([]sessionFolder, 0, len(names))
	for _, n := range names {
		dir := filepath.Join(root, n)
		if info, err := os.Lstat(filepath.Join(dir, journalName)); err == nil && info.Mode().IsRegular() {
			list = append(list, sessionFolder{dir, info.ModTime(), info.Size()})
		}
	}
	slices.SortFunc(list, func(a, b sessionFolder) int {
		if c := b.written.Compare(a.written); c != 0 {
			return c
		}
		return strings.Compare(b.dir, a.dir) // names that we make sort by time
	})
	return list, nil
}

// sessionNames lists the folders that could be sessions. If nothing ran yet there are none.
func sessionNames(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && checkSession(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func hasJournal(dir string) bool {
	folder, err := os.Lstat(dir)
	if err != nil || !folder.IsDir() {
		return false
	}
	file, err := os.Lstat(filepath.Join(dir, journalName))
	return err == nil && file.Mode().IsRegular()
}

// A sessionHead is how a session began.
type sessionHead struct {
	at      time.Time // of its first event
	started event.RunStarted
	prompt  event.Prompt
	asked   bool // there was a prompt
}

// headLines is how far a prompt is looked for.
const headLines = 64

// readHead reads a journal up to its first prompt.
func readHead(path string) (h sessionHead, err error) {
	file, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer file.Close()
	want := func(h event.Header) bool { return h.Kind == "run.started" || h.Kind == "prompt" }
	n := 0
	for line, err := range journal.Scan(file, want) {
		if n++; n > headLines {
			break
		}
		if err != nil {
			continue // a line that is damaged; the next may not be
		}
		if h.at.IsZero() {
			h.at = line.At
		}
		if !want(line.Header) || !line.Top() {
			continue
		}
		switch body, _ := line.Body(); b := body.(type) {
		case event.RunStarted:
			if h.started.Format == 0 {
				h.started = b
			}
		case event.Prompt:
			if b.Source != event.SourceHistory {
				h.prompt, h.asked = b, true
				return h, nil
			}
		}
	}
	return h, nil
}
