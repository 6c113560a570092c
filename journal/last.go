package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// Last returns the last event of a journal. It reads from the end, so that the journal's length does not matter, and passes
// over a torn tail. If there is no event, the error is io.EOF.
func Last(path string) (event.Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return event.Line{}, fmt.Errorf("journal: %w", err)
	}
	defer file.Close()
	e, err := readEnd(file)
	return e.line, err
}

// An ending is what stands at the end of a journal.
type ending struct {
	line event.Line // the last whole event
	end  int64      // where it ends, and a torn tail begins
	size int64      // of the file
}

// torn is the length of the torn tail.
func (e ending) torn() int64 { return e.size - e.end }

// readEnd finds the last whole event. The error is io.EOF if there is none. A torn tail is what stands after the last newline,
// and before it at most one line that is not JSON: more than that is damage, or no journal at all.
func readEnd(file *os.File) (e ending, err error) {
	info, err := file.Stat()
	if err != nil {
		return e, fmt.Errorf("journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return e, fmt.Errorf("journal: %s is not a regular file", file.Name())
	}
	e.size = info.Size()
	if e.end, err = lineStart(file, e.size); err != nil {
		return e, err
	}
	for skipped := false; e.end > 0; skipped = true {
		start, err := lineStart(file, e.end-1)
		if err != nil {
			return e, err
		}
		raw := make([]byte, e.end-1-start)
		if _, err := file.ReadAt(raw, start); err != nil {
			return e, fmt.Errorf("journal: %w", err)
		}
		if wire.Valid(raw) {
			if e.line, err = event.Parse(raw); err != nil {
				return e, fmt.Errorf("journal: %s, byte %d: %w", file.Name(), start, err)
			}
			return e, nil
		}
		if skipped {
			return e, fmt.Errorf("journal: %s, byte %d: not JSON, nor is the line after it", file.Name(), start)
		}
		e.end = start
	}
	return e, io.EOF
}

// checkCut says whether the tail may be cut off. If no event stands before it, it must look like a first event: nobody's
// other file is emptied by mistake.
func (e ending) checkCut(file *os.File) error {
	if e.end > 0 || e.size == 0 {
		return nil
	}
	first := []byte(`{"seq":1,`)
	head := make([]byte, min(e.size, int64(len(first))))
	if _, err := file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if bytes.HasPrefix(first, bytes.TrimRight(head, "\x00")) { // a power cut leaves zeros
		return nil
	}
	return fmt.Errorf("journal: %s is not a journal", file.Name())
}

// lineStart returns where the line begins that ends at end: after the newline before it, or at 0. It reads backwards in
// blocks, and keeps one.
func lineStart(r io.ReaderAt, end int64) (int64, error) {
	block := make([]byte, min(end, 64<<10))
	for end > 0 {
		b := block[:min(end, int64(len(block)))]
		end -= int64(len(b))
		if _, err := r.ReadAt(b, end); err != nil {
			return 0, fmt.Errorf("journal: %w", err)
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return end + int64(i) + 1, nil
		}
	}
	return 0, nil
}
