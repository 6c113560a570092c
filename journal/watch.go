package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A watch tells that something changed at a path: the file grew, went, came, or another took its place. Folders are watched
// and not the file, since a file's own watch goes with it.
//
// Who uses it does so in this order, and no change falls between: arm, look, wait.
type watch struct {
	path  string
	notes *fsnotify.Watcher // nil if the system gives none: then we look now and then
	every time.Duration     // look at least so often; 0 means only when told
	on    []string          // the folders that are watched

	bell  chan struct{} // something changed since the last wait
	names atomic.Bool   // and it was more than a file's content: arm again
	done  chan struct{} // closed when listen has returned
}

// lookEvery is for systems that have no watch left to give.
const lookEvery = time.Second

func newWatch(path string, every time.Duration) *watch {
	w := &watch{path: path, every: every, bell: make(chan struct{}, 1), done: make(chan struct{})}
	if abs, err := filepath.Abs(path); err == nil {
		w.path = abs
	}
	w.names.Store(true)
	notes, err := fsnotify.NewWatcher()
	if err != nil {
		close(w.done)
		w.poll()
		return w
	}
	w.notes = notes
	go w.listen()
	return w
}

func (w *watch) close() {
	if w.notes != nil {
		w.notes.Close()
	}
	<-w.done
}

// poll makes up for notes that will not come.
func (w *watch) poll() {
	if w.every == 0 {
		w.every = lookEvery
	}
}

// listen turns notes into one ring of the bell, so that a slow reader keeps no queue.
func (w *watch) listen() {
	defer close(w.done)
	for {
		select {
		case note, ok := <-w.notes.Events:
			if !ok {
				return
			}
			if note.Op == fsnotify.Chmod {
				continue
			}
			if note.Op != fsnotify.Write {
				w.names.Store(true)
			}
		case _, ok := <-w.notes.Errors:
			if !ok {
				return
			}
			w.names.Store(true) // notes may have been lost
		}
		select {
		case w.bell <- struct{}{}:
		default:
		}
	}
}

// stale says whether names changed since arm was called.
func (w *watch) stale() bool { return w.names.Load() }

// arm watches the folders in which a change can matter now.
func (w *watch) arm() {
	w.names.Store(false)
	if w.notes == nil {
		return
	}
	for range 100 { // folders come and go while we look, but not for ever
		need, also := w.folders()
		all := slices.Concat(need, also)
		for _, f := range w.on {
			if !slices.Contains(all, f) {
				w.notes.Remove(f) // it may be gone
			}
		}
		w.on = all
		missed := false
		for i, f := range all {
			err := w.notes.Add(f)
			missed = missed || errors.Is(err, fs.ErrNotExist)
			if err != nil && !missed && i < len(need) {
				w.poll()
			}
		}
		if again, _ := w.folders(); !missed && slices.Equal(need, again) {
			return
		}
	}
	w.poll()
}

// folders returns the folder of the path and, if that is a symbolic link, of what it points to: of each the nearest that
// exists. Where nothing is at the path, the folders above matter also: that a folder was removed is told only by the one
// above it as long as somebody, like us, has a file open that was in it.
func (w *watch) folders() (need, also []string) {
	path := w.path
	for range 40 { // links, as many as systems follow
		folder := nearest(filepath.Dir(path))
		if !slices.Contains(need, folder) {
			need = append(need, folder)
		}
		if _, err := os.Lstat(path); err != nil {
			for up := filepath.Dir(folder); up != folder; folder, up = up, filepath.Dir(up) {
				also = append(also, up)
			}
		}
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return need, also
}

func nearest(folder string) string {
	for {
		info, err := os.Stat(folder)
		up := filepath.Dir(folder)
		if err == nil && info.IsDir() || up == folder {
			return folder
		}
		folder = up
	}
}

// wait returns when something changed since the last wait, or when ctx ends, with its error.
func (w *watch) wait(ctx context.Context) error {
	var tick <-chan time.Time
	if w.every > 0 {
		t := time.NewTimer(w.every)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.bell:
	case <-tick:
		w.names.Store(true)
	}
	return ctx.Err()
}

// holds says whether file is the one at the path.
func (w *watch) holds(file *os.File) bool {
	there, err := os.Stat(w.path)
	if err != nil {
		return false
	}
	ours, err := file.Stat()
	return err == nil && os.SameFile(there, ours)
}
