package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/sluice-dev/sluice/event"
)

// A Writer appends events to a journal. It is an [event.Sink], and safe for use by several goroutines.
type Writer struct {
	mu      sync.Mutex
	file    *os.File
	release func() // gives the lock back
	last    uint64
	size    int64 // up to the end of the last whole line
	dirty   bool  // something is not yet forced to the disk
	passing bool  // and nothing need be
	buf     []byte
	broken  error
}

// boundary lists the kinds after which the file is forced to the disk. run.started needs none: a prompt follows.
var boundary = map[event.Kind]bool{
	"prompt":     true,
	"turn.ended": true,
	"tool.done":  true, "tool.failed": true, "tool.denied": true, "tool.cancelled": true,
	"reply.done": true, "reply.failed": true, "reply.cancelled": true,
	"run.done": true, "run.failed": true, "run.cancelled": true,
}

// bufferKeep is how large a buffer may be to be used again.
const bufferKeep = 1 << 20

// Create begins a journal. The file must not exist; folders that are missing are made. Both are for the user only.
func Create(path string) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	release, err := lock(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	syncFolder(filepath.Dir(path))
	return &Writer{file: file, release: release}, nil
}

// Resume goes on with a journal after its last event. A torn tail is cut off first.
func Resume(path string) (*Writer, error) {
	w, _, err := resume(path)
	return w, err
}

// resume also returns the last event, and how many bytes it cut off.
func resume(path string) (_ *Writer, e ending, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, e, fmt.Errorf("journal: %w", err)
	}
	release, err := lock(file)
	if err != nil {
		file.Close()
		return nil, e, err
	}
	w := &Writer{file: file, release: release}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if e, err = readEnd(file); err != nil && err != io.EOF {
		return nil, e, err
	}
	if err == nil && e.line.Seq == 0 {
		return nil, e, fmt.Errorf("journal: %s: the last event has no number", path)
	}
	if err = e.checkCut(file); err != nil {
		return nil, e, err
	}
	if e.torn() > 0 {
		if err = file.Truncate(e.end); err != nil {
			return nil, e, fmt.Errorf("journal: %w", err)
		}
		w.dirty = true
	}
	w.last, w.size = e.line.Seq, e.end
	return w, e, nil
}

// Put appends the event with one write. Its number must be the next one. If the event cannot be written whole, the file is
// cut back to where it was, and this and every later Put returns the error.
func (w *Writer) Put(e event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	if e.Seq != w.last+1 {
		return fmt.Errorf("journal: event %d cannot follow event %d", e.Seq, w.last)
	}
	e = e.Stamp()
	w.buf = append(event.Append(w.buf[:0], e), '\n')
	_, err := w.file.Write(w.buf)
	if err == nil && boundary[e.Kind] && !w.passing {
		err = w.file.Sync()
	}
	if err != nil {
		w.broken = fmt.Errorf("journal: event %d: %w", e.Seq, err)
		w.file.Truncate(w.size) // what cannot be cut now, Resume cuts
		return w.broken
	}
	w.last = e.Seq
	w.size += int64(len(w.buf))
	w.dirty = !boundary[e.Kind]
	if cap(w.buf) > bufferKeep {
		w.buf = nil
	}
	return nil
}

// Passing says that nobody keeps the file beyond the run: nothing is forced to the disk from now on.
func (w *Writer) Passing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passing = true
}

// Last returns the number of the last event, 0 if there is none.
func (w *Writer) Last() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

var errClosed = errors.New("journal: the writer is closed")

// Close forces the rest to the disk and gives the journal free.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == errClosed {
		return nil
	}
	var err error
	if w.dirty && !w.passing && w.broken == nil {
		err = w.file.Sync()
	}
	w.broken = errClosed
	w.release()
	err = errors.Join(err, w.file.Close())
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// syncFolder makes a new file's name last. Not every system can; the file is good without.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		d.Sync()
		d.Close()
	}
}
