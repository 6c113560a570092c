package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/sluice-dev/sluice/internal/wire"
)

// FollowOptions say how to follow a file.
type FollowOptions struct {
	FromEnd bool          // leave out the lines that are already there
	Poll    time.Duration // also look so often, for file systems that do not tell of changes, like NFS; 0 means never
}

// Follow reads the lines of a file that grows, without their newlines, until ctx ends. A line is good until the next one. The
// file need not be a journal.
//
//   - A file that is not there yet is waited for, and so is the rest of a line.
//   - If the file is truncated, it is read again from its start.
//   - If another file takes its place, the old one is read to its end, then the new one from its start. A file that was
//     removed or renamed is read on until another is there.
//   - A last line without a newline is yielded as it stands when its file is truncated or replaced.
//   - A file that cannot grow, like a pipe, is read to its end.
//
// A symbolic link is followed, also when it is pointed elsewhere. An error ends the iteration; the end of ctx is none.
func Follow(ctx context.Context, path string, opt FollowOptions) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f := &follower{ctx: ctx, path: path, watch: newWatch(path, opt.Poll)}
		defer f.close()
		err := f.open(opt.FromEnd)
		for err == nil {
			lines := wire.NewLines(f)
			var line []byte
			for line, err = lines.Next(); err == nil; line, err = lines.Next() {
				if ctx.Err() != nil || !yield(line, nil) {
					return
				}
			}
			if err == io.EOF {
				err = f.next()
			}
		}
		if err != io.EOF && ctx.Err() == nil {
			yield(nil, fmt.Errorf("journal: %w", err))
		}
	}
}

// A follower reads a file and, where it ends, waits. It says io.EOF when the file will not go on.
type follower struct {
	ctx   context.Context
	path  string
	watch *watch

	pipe io.ReadCloser // instead of file, if it is not a regular one
	file *os.File
	at   int64
	seen []byte // the last bytes that were read: if they change, the file was written anew
	cut  bool   // the file was truncated
	gone bool   // another file took its place
}

// seenKeep is how many bytes before our place are compared.
const seenKeep = 256

func (f *follower) close() {
	f.watch.close()
	f.closeFile()
}

func (f *follower) closeFile() {
	if f.file != nil {
		f.file.Close()
	}
	if f.pipe != nil {
		f.pipe.Close()
	}
	f.file, f.pipe = nil, nil
}

// open opens the file, once it is there. If it is there at once, fromEnd goes to its last line's end.
func (f *follower) open(fromEnd bool) error {
	for {
		if f.watch.stale() {
			f.watch.arm()
		}
		err := f.try()
		if err == nil && fromEnd && f.file != nil {
			return f.toEnd()
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fromEnd = false
		if err := f.watch.wait(f.ctx); err != nil {
			return err
		}
	}
}

func (f *follower) try() error {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder", f.path)
	case !info.Mode().IsRegular():
		f.pipe, err = openPipe(f.ctx, f.path)
		return err
	}
	f.file, err = os.Open(f.path)
	f.at, f.seen, f.cut, f.gone = 0, f.seen[:0], false, false
	return err
}

// toEnd passes over the whole lines that are there.
func (f *follower) toEnd() error {
	size, err := f.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if f.at, err = lineStart(f.file, size); err != nil {
		return err
	}
	before := make([]byte, min(f.at, seenKeep))
	if _, err = f.file.ReadAt(before, f.at-int64(len(before))); err != nil {
		return err
	}
	f.remember(before)
	_, err = f.file.Seek(f.at, io.SeekStart)
	return err
}

// next goes on after io.EOF: with the same file from its start, or with the one that took its place.
func (f *follower) next() error {
	switch {
	case f.pipe != nil:
		return io.EOF
	case f.cut:
		f.at, f.seen, f.cut = 0, f.seen[:0], false
		_, err := f.file.Seek(0, io.SeekStart)
		return err
	}
	f.closeFile()
	return f.open(false)
}

func (f *follower) Read(p []byte) (int, error) {
	if f.pipe != nil {
		return f.pipe.Read(p)
	}
	for {
		if f.rewritten() {
			f.cut = true
			return 0, io.EOF
		}
		n, err := f.file.Read(p)
		switch {
		case n > 0:
			f.at += int64(n)
			f.remember(p[:n])
			return n, f.ctx.Err()
		case err != io.EOF || f.gone:
			return 0, err
		case f.watch.stale():
			f.watch.arm()
			f.gone = f.replaced() // what the old one got before is still to be read
		default:
			if err := f.watch.wait(f.ctx); err != nil {
				return 0, err
			}
		}
	}
}

// replaced says whether another file is there. That none is there says nothing yet.
func (f *follower) replaced() bool {
	_, err := os.Stat(f.path)
	return err == nil && !f.watch.holds(f.file)
}

func (f *follower) remember(p []byte) {
	if p = p[max(0, len(p)-seenKeep):]; len(p) < seenKeep {
		f.seen = append(f.seen, p...)
		f.seen = f.seen[max(0, len(f.seen)-seenKeep):]
		return
	}
	f.seen = append(f.seen[:0], p...)
}

// rewritten says whether the file was truncated: it is shorter than what we read, or has grown again and is not what we read.
func (f *follower) rewritten() bool {
	var buf [seenKeep]byte
	now := buf[:len(f.seen)]
	_, err := f.file.ReadAt(now, f.at-int64(len(now)))
	return err == io.EOF || err == nil && !bytes.Equal(now, f.seen)
}
