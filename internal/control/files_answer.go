package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fsnotify/fsnotify"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/plain"
)

// This file is how Files takes answers.

// A response is what is in an answer file.
type response struct {
	Outcome   string `json:"outcome,omitempty"` // selected, if it does not say; or cancelled
	RequestID string `json:"request_id,omitempty"`
	OptionID  string `json:"option_id"`
	Message   string `json:"message"`
}

const (
	maxMessage  = 64 << 10
	maxResponse = 1 << 20 // of the whole file: every byte of a message may be an escape
)

// The outcomes of an answer.
const (
	Selected  = "selected"
	Cancelled = "cancelled"
)

// watch looks for answers whenever something changes in the folder, until it is stopped.
func (f *Files) watch() (stop func()) {
	every := filePoll
	var changed <-chan fsnotify.Event
	var lost <-chan error
	notes, err := fsnotify.NewWatcher()
	if err == nil {
		changed, lost = notes.Events, notes.Errors
		err = notes.Add(filepath.Dir(f.Base)) // without it we only look now and then
	}
	if err != nil {
		every = filePoll / 4
	}
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			f.look()
			select {
			case <-over:
				if notes != nil {
					notes.Close()
				}
				return
			case <-changed:
			case <-lost:
			case <-tick.C:
			}
		}
	})
	return func() {
		close(over)
		running.Wait()
	}
}

// A taken answer is on its way to its question.
type taken struct {
	p        *paper
	response response
	path     string
}

// look takes the answers that are there.
func (f *Files) look() {
	f.mu.Lock()
	var list []taken
	for _, p := range f.open {
		if p.answer == nil || p.err != nil || p.given {
			continue
		}
		if r, ok := f.read(p, p.path+".response"); ok {
			list = append(list, taken{p, r, p.path + ".response"})
		}
	}
	if p := f.shown; p != nil && p.answer != nil && !p.given {
		path := f.Base + ".req.response"
		if r, ok := f.read(p, path); ok {
			if to := f.meant(p, r, path); to != nil {
				list = append(list, taken{to, r, path})
			}
		}
	}
	for _, t := range list {
		t.p.given, t.p.taken = true, t.path == f.Base+".req.response"
	}
	f.mu.Unlock()
	for _, t := range list { // the gate calls back: not under the lock
		f.give(t)
	}
	f.mu.Lock()
	wrong := f.wrong
	f.wrong = nil
	f.mu.Unlock()
	for _, tell := range wrong {
		tell()
	}
}

// read reads an answer, if one is there and whole. What is not, its writer may still be at.
func (f *Files) read(p *paper, path string) (r response, ok bool) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return r, false
	}
	defer root.Close()
	data, err := plain.Read(root, filepath.Base(path), maxResponse)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, false
	case err != nil:
		f.reject(p, path, err)
		return r, false
	}
	if err := json.Unmarshal(data, &r); err != nil {
		if json.Valid(data) { // nobody is still at it
			f.reject(p, path, errors.New("it is no object with texts in it"))
		}
		return r, false
	}
	if err := r.check(data); err != nil {
		f.reject(p, path, err)
		return r, false
	}
	if own := p.path + ".response"; path == own && r.RequestID != "" && r.RequestID != p.asked.Request {
		f.reject(p, path, fmt.Errorf("it is for request %q", r.RequestID))
		return r, false
	}
	return r, true
}

// check says what is wrong with an answer that is JSON.
func (r response) check(data []byte) error {
	switch {
	case r.Outcome != "" && r.Outcome != Selected && r.Outcome != Cancelled:
		return fmt.Errorf("there is no outcome %q: it is selected or cancelled", r.Outcome)
	case r.OptionID == "" && r.Outcome != Cancelled:
		return errors.New("it names no option_id")
	case len(r.Message) > maxMessage:
		return fmt.Errorf("its message is longer than %d bytes", maxMessage)
	case !utf8.Valid(data), broken(data, r.Message):
		return errors.New("its message is not UTF-8")
	}
	return nil
}

// broken says whether a message has half of a surrogate pair: the decoder has put U+FFFD in its place.
func broken(data []byte, message string) bool {
	const mark = "\ufffd"
	return strings.Contains(message, mark) && !bytes.Contains(data, []byte(mark)) && !bytes.Contains(bytes.ToLower(data), []byte(`\ufffd`))
}

// meant finds the question that an answer in BASE.req.response is for: the one that it names or, if it names none, the one that is
// out there. If another was out there before, and nobody took its answer, this may be that answer, come late: one such is let go.
func (f *Files) meant(p *paper, r response, path string) *paper {
	switch to := f.find(r.RequestID); {
	case r.RequestID != "" && (to == nil || to.answer == nil || to.given):
		f.reject(p, path, fmt.Errorf("it is for request %q, which is not open", r.RequestID))
		return nil
	case r.RequestID != "":
		return to
	case f.stale > 0:
		f.stale--
		f.reject(p, path, fmt.Errorf("it names no request_id, and may be for one that is over: say \"request_id\":%q", p.asked.Request))
		return nil
	}
	return p
}

// reject takes away an answer that cannot be taken, so that another can be given. f.mu is held.
func (f *Files) reject(p *paper, path string, err error) {
	err = fmt.Errorf("the answer in %s was not taken: %w", plain.Name(path), errors.Join(err, remove(path)))
	f.wrong = append(f.wrong, func() { f.tell(p.asked, err) })
}

// give brings an answer to the gate.
func (f *Files) give(t taken) {
	a := gate.Answer{Option: t.response.OptionID, Reason: t.response.Message, By: event.ByFile}
	if t.response.Outcome == Cancelled {
		a.Option = ""
		if a.Reason == "" {
			a.Reason = "the permission handler cancelled it"
		}
	}
	err := t.p.answer(a)
	if err == nil || errors.Is(err, gate.ErrLate) {
		return // Closed takes everything away
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.p.given, t.p.taken = false, false
	f.reject(t.p, t.path, err)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
