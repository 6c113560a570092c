// Package journal keeps a run's events in a file, one line each, and reads them back.
//
//	Source ──Put──▶ Writer ──one write(2)──▶ file ──Scan, Tail, Last──▶ Line
//
// There is one writer, which holds a lock on the file, and any number of readers, which hold none: the file only grows, and
// whoever wants to know what happens in a run reads it. A reader cannot be too slow, and one who comes back says from which
// number on.
//
// What was put is in the file when [Writer.Put] returns, so a process that is killed loses nothing. At most the event that was
// being written is there in part: a torn tail. Readers leave it alone, [Resume] cuts it off, and [Repair] also ends what
// the dead writer left open.
//
// A power cut can cost more: the system may still hold what was written. The file is forced to the disk where a run would
// not want to go back behind (a prompt, a finished turn, the end of a tool call, of a reply, of the run) and not in
// between, since a disk cannot keep up with deltas. So a power cut costs at most what came after the last such event,
// plus what a disk loses that lies about having written. Lines that it left unreadable before the end stay where they are;
// [Scan] tells them and goes on.
//
// [Follow] reads lines of any file that grows, also one that is not a journal.
package journal

import (
	"errors"
	"fmt"
)

// ErrLocked says that another process writes the journal.
var ErrLocked = errors.New("another process writes this journal")

func locked(path string) error {
	return fmt.Errorf("journal: %s: %w (to see which: lsof %[1]q)", path, ErrLocked)
}

// A TornError says that the last line has no newline or is not JSON: its writer was stopped in it.
type TornError struct {
	Path   string // empty if the reader has no name
	Offset int64  // where the line begins
}

func (e *TornError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("journal: torn at byte %d", e.Offset)
	}
	return fmt.Sprintf("journal: %s: torn at byte %d", e.Path, e.Offset)
}

// A LineError says that a line is not an event.
type LineError struct {
	Number int   // of the line, from 1
	Offset int64 // where it begins
	Raw    []byte
	Err    error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("journal: line %d (byte %d): %v", e.Number, e.Offset, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }
