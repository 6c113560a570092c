package tool

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	defaultKeep  = 2 << 20  // bytes of output that are kept as they are
	defaultSpill = 64 << 20 // bytes of output in a file
	excerpt      = 20_000   // bytes of head and of tail, of what is not kept
	pace         = 50 * time.Millisecond
)

// A capture takes the output of a command: it passes it on live, a few times a second, and keeps it. What is too much to keep
// goes to a file, and only its beginning and end stay.
type capture struct {
	out   func(string) // nil: nobody looks
	keep  int
	spill spill

	mu    sync.Mutex
	head  []byte // all, as long as it is not too much
	tail  []byte // the last bytes, once it is
	total int64
	lines int
	err   error // the file cannot be written

	live  []byte // not yet passed on
	shown int    // bytes passed on
	told  time.Time
	timer *time.Timer
	over  bool
}

// Write takes a piece. It is slow if the one who looks is.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return len(p), nil
	}
	c.store(p)
	if c.out != nil && c.shown <= c.keep {
		c.live = append(c.live, p...)
		if wait := pace - time.Since(c.told); wait <= 0 || len(c.live) > 64<<10 {
			c.show()
		} else if c.timer == nil {
			c.timer = time.AfterFunc(wait, c.tick)
		}
	}
	return len(p), nil
}

func (c *capture) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if !c.over {
		c.show()
	}
}

// show passes on what is there, but for a character that is not complete.
func (c *capture) show() {
	n := wholeRunes(c.live)
	if n == 0 {
		return
	}
	text := strings.ToValidUTF8(string(c.live[:n]), "\uFFFD")
	c.live = append(c.live[:0], c.live[n:]...)
	c.shown += n
	c.out(text)
	c.told = time.Now()
	if c.shown > c.keep {
		c.live = nil
		c.out("\n[… there is more; it is not shown live]\n")
	}
}

func (c *capture) store(p []byte) {
	whole := c.total <= int64(c.keep)
	c.total += int64(len(p))
	c.lines += strings.Count(string(p), "\n")
	if whole && c.total <= int64(c.keep) {
		c.head = append(c.head, p...)
		return
	}
	if whole { // from here on it is too much
		c.err = c.spill.write(c.head)
		c.tail = append(append(c.tail, c.head[min(len(c.head), excerpt):]...), p...)
		c.head = append([]byte(nil), c.head[:min(len(c.head), excerpt)]...)
	} else {
		c.tail = append(c.tail, p...)
	}
	if c.err == nil {
		c.err = c.spill.write(p)
	}
	if len(c.tail) > 4*excerpt {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-excerpt:]...)
	}
}

// finish ends the capture: nothing is passed on any more after it.
func (c *capture) finish() (output, file string, truncated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.out != nil && len(c.live) > 0 {
		c.out(strings.ToValidUTF8(string(c.live), "\uFFFD"))
	}
	valid := func(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
	if c.total <= int64(c.keep) {
		return valid(c.head), "", false
	}
	c.spill.close()
	head := wholeLines(string(c.head))
	tail := wholeTail(string(c.tail[max(0, len(c.tail)-excerpt):]))
	lines := c.lines - strings.Count(head, "\n") - strings.Count(tail, "\n")
	file = c.spill.path
	if c.err != nil {
		file = ""
	}
	middle := note(c.total-int64(len(head)+len(tail)), lines, file)
	if c.spill.full() {
		middle += fmt.Sprintf("[the file has only the first %d MB]\n", c.spill.limit>>20)
	}
	return valid([]byte(head)) + middle + valid([]byte(tail)), file, true
}

// A spill is a file for what is too long to be shown. It is made when it is needed.
type spill struct {
	dir   string
	limit int64
	path  string
	file  *os.File
	size  int64
}

func (s *spill) full() bool { return s.size >= s.limit }

// write appends as much as there is room for.
func (s *spill) write(p []byte) error {
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	if room := s.limit - s.size; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return err
}

func (s *spill) open() (err error) {
	if err = os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	s.path = filepath.Join(s.dir, "output-"+strings.ToLower(rand.Text()[:12])+".txt")
	s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	return err
}

func (s *spill) close() {
	if s.file != nil {
		s.file.Close()
	}
}
