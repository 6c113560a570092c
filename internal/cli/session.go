package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/journal"
)

// prepare finds out where to work, and begins the session's journal or goes on with it. The error of what the user typed is
// hinted; any other is of the journal.
func (r *runner) prepare() (*journal.Writer, error) {
	fresh := r.resume == ""
	if r.session == "" {
		r.session = newSession()
	}
	if r.ephemeral {
		var err error
		if r.home, err = os.MkdirTemp("", "sluice-"); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		if err := r.enterWorkspace(); err != nil {
			return nil, err
		}
		w, err := journal.Create(r.journal())
		if err == nil {
			w.Passing()
		}
		return w, err
	}
	state, err := config.State(os.Getenv)
	if err != nil {
		return nil, hinted{err, r.orHelp("--ephemeral keeps nothing")}
	}
	if !fresh {
		w, err := r.goOn(state)
		if !r.orNew || !errors.Is(err, errNoSession) {
			return w, err
		}
		fmt.Fprintf(r.io.Err, "sluice: %v: a new one begins\n", err)
		r.resume = ""
	}
	if err := r.enterWorkspace(); err != nil {
		return nil, err
	}
	r.home = filepath.Join(state, "sessions", r.session)
	w, err := journal.Create(r.journal())
	if errors.Is(err, fs.ErrExist) {
		return nil, hinted{fmt.Errorf("there is a session %q already", r.session), "--resume " + r.session + " goes on with it"}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (XDG_STATE_HOME names another place)", err)
	}
	return w, nil
}

// goOn opens the journal of an earlier run: what that left open is closed first. Folder and model are as they were, if nobody
// says otherwise.
func (r *runner) goOn(state string) (*journal.Writer, error) {
	id, given := r.resume, r.workspace
	if id == "latest" {
		if err := r.enterWorkspace(); err != nil {
			return nil, err
		}
		var err error
		if id, err = latestSession(state, r.workspace); err != nil {
			return nil, err
		}
	}
	home, err := findSession(state, id)
	if err != nil {
		return nil, err
	}
	r.session, r.home = filepath.Base(home), home
	if _, err := journal.Repair(r.journal()); err != nil {
		return nil, r.unusable(err)
	}
	w, err := journal.Resume(r.journal())
	if err != nil {
		return nil, r.unusable(err)
	}
	r.past(func(e event.Event) {
		if b, ok := e.Body.(event.RunStarted); ok {
			r.was = b
		}
	})
	r.workspace = first(given, r.was.Cwd)
	if err := r.enterWorkspace(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// unusable says why a session cannot be gone on with.
func (r *runner) unusable(err error) error {
	path := r.journal()
	r.home = "" // it is not ours
	if errors.Is(err, journal.ErrLocked) {
		return hinted{fmt.Errorf("session %s is being run by another process", r.session), "wait for it, or begin another one"}
	}
	return hinted{fmt.Errorf("session %s cannot be resumed: %w", r.session, err), "sluice lint " + path}
}

func (r *runner) journal() string { return filepath.Join(r.home, "journal.ndjson") }

// past tells what happened in the session before this run. Lines that cannot be read are passed over: they were told when they
// were written.
func (r *runner) past(tell func(event.Event)) {
	if r.resume == "" || r.home == "" {
		return
	}
	f, err := os.Open(r.journal())
	if err != nil {
		return
	}
	defer f.Close()
	for l, err := range journal.Scan(f, nil) {
		if err != nil {
			continue
		}
		if e, err := l.Event(); err == nil {
			tell(e)
		}
	}
}

// recall shows a sink what it would have shown before, so that its counters go on; a sink that has none does not care.
func recall(show event.Sink, e event.Event) {
	if s, ok := show.(interface{ Recall(event.Event) }); ok {
		s.Recall(e)
	}
}

// enterWorkspace finds the folder to work in, and what is configured there.
func (r *runner) enterWorkspace() error {
	at, err := filepath.Abs(first(r.workspace, "."))
	if err == nil {
		r.workspace = at // which is told also if there is no such folder
		at, err = filepath.EvalSymlinks(at)
	}
	if err == nil {
		r.workspace = at
		var info os.FileInfo
		if info, err = os.Stat(at); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", at)
		}
	}
	if err != nil {
		return hinted{err, r.orHelp("--workspace names the folder to work in")}
	}
	return r.configure()
}

// newSession makes a name: a UUID that sorts by time.
func newSession() string {
	var b [16]byte
	rand.Read(b[6:])
	ms := time.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
