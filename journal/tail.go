package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/sluice-dev/sluice/event"
)

// Tail reads a journal as [Scan] does, from the event with the number from on, and then what is appended, as it comes. A
// half-written last line is waited for. It ends without an error when ctx ends, and with one when the journal is not there or
// is taken away.
func Tail(ctx context.Context, path string, from uint64) iter.Seq2[event.Line, error] {
	return func(yield func(event.Line, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(event.Line{}, fmt.Errorf("journal: %w", err))
			return
		}
		defer file.Close()
		t := &tail{ctx: ctx, file: file, watch: newWatch(path, 0)}
		defer t.watch.close()
		s := scanner{path: path, want: func(h event.Header) bool { return h.Seq >= from }}
		s.begin(t, 0)
		var next uint64 = 1
		for {
			var torn *TornError
			open := true
			s.scan(func(l event.Line, err error) bool {
				bad := (*LineError)(nil)
				switch {
				case ctx.Err() != nil:
					open = false
				case errors.As(err, &torn):
				case err == nil && l.Seq < from:
					next = l.Seq + 1
				case errors.As(err, &bad) && next < from:
				default:
					open = yield(l, err)
				}
				return open
			})
			switch {
			case !open || t.failed || ctx.Err() != nil:
				return
			case torn == nil:
				yield(event.Line{}, fmt.Errorf("journal: %s became shorter than what was read of it", path))
				return
			}
			// The line may be finished, or cut off and another written in its place: it is read anew.
			if err := t.rewind(torn.Offset); err != nil {
				if ctx.Err() == nil {
					yield(event.Line{}, fmt.Errorf("journal: %w", err))
				}
				return
			}
			s.begin(t, torn.Offset)
		}
	}
}

// A tail reads a journal and, where it ends, waits. Only in the middle of a line it says io.EOF, and when the journal was cut.
type tail struct {
	ctx    context.Context
	file   *os.File
	watch  *watch
	at     int64
	half   bool // what was read ends in the middle of a line
	gone   bool // the file is no longer at its path
	failed bool // Read returned an error, and Scan has told it
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.read(p)
	t.failed = err != nil && err != io.EOF
	return n, err
}

func (t *tail) read(p []byte) (int, error) {
	for {
		n, err := t.file.Read(p)
		if n > 0 {
			t.at += int64(n)
			t.half = p[n-1] != '\n'
			return n, t.ctx.Err()
		}
		if err != io.EOF || t.half {
			return 0, err
		}
		if info, err := t.file.Stat(); err != nil || info.Size() < t.at {
			return 0, io.EOF
		}
		if err := t.grow(); err != nil {
			return 0, err
		}
	}
}

// grow returns when there may be more to read.
func (t *tail) grow() error {
	if t.gone {
		return fmt.Errorf("%s was taken away: %w", t.watch.path, fs.ErrNotExist)
	}
	if t.watch.stale() {
		t.watch.arm()
		t.gone = !t.watch.holds(t.file)
		return t.ctx.Err()
	}
	return t.watch.wait(t.ctx)
}

// rewind goes back to the beginning of a torn line and, if it was only half there, waits for a change first.
func (t *tail) rewind(offset int64) error {
	if t.half {
		if err := t.grow(); err != nil {
			return err
		}
	}
	t.at, t.half = offset, false
	_, err := t.file.Seek(offset, io.SeekStart)
	return err
}
