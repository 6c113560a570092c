package guest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/terminal"
)

// Bounds of what is held of a guest.
const (
	spoolSize = 64 << 20 // of lines that were read and not yet told; then the guest has to wait
	lineSize  = 64 << 20 // of one line; the rest of a longer one is thrown away
	noiseLine = 2 << 10  // of a line of noise
	noiseSize = 256 << 10
)

// A word is something that came from the process.
type word struct {
	line  []byte
	noise bool       // from stderr
	torn  bool       // the line was cut, by its end or by its length
	exit  *proc.Exit // instead of a line: it is over

	channel *message // instead of a line: what came through a channel
	screen  *string  // instead of a line: what a terminal shows now
}

// A link is a running process and the lines between us.
type link struct {
	kill   func()            // ends it, and all that it started
	amiss  atomic.Value      // why it was ended, if that was its own doing: a string
	on     terminal.Terminal // that it is on, if it is
	broker *broker           // of its channel, if it has one
	words  chan word         // in order; the last one is the exit
	spool  spool
	post   post
	over   chan struct{} // nobody listens any more
	hung   sync.Once
}

func newLink() *link {
	l := &link{words: make(chan word), over: make(chan struct{})}
	l.spool.more = sync.NewCond(&l.spool.mu)
	l.post.more = sync.NewCond(&l.post.mu)
	return l
}

// open starts a process that is spoken to by lines. One that closes its stdout has that much time to leave.
func open(g *proc.Group, c proc.Cmd, grace time.Duration) (*link, error) {
	l := newLink()
	out, noise := &splitter{to: &l.spool}, &splitter{to: &l.spool, noise: true}
	c.Stdout, c.Stderr = out, noise
	p, err := g.Start(c)
	if err != nil {
		return nil, err
	}
	l.kill = p.Kill
	go func() {
		exit := p.Wait()
		out.flush()
		noise.flush()
		l.spool.put(word{exit: &exit})
		l.post.close()
	}()
	go l.listen()
	go l.post.deliver(p)
	go func() {
		<-p.Silent()
		select {
		case <-p.Done():
		case <-time.After(grace):
			l.expel("it closed its stdout, and stayed")
		}
	}()
	return l, nil
}

// expel ends a process that can no longer be spoken with.
func (l *link) expel(why string) {
	if l.amiss.CompareAndSwap(nil, why) {
		l.kill()
	}
}

// fault is why it was expelled, empty if it was not.
func (l *link) fault() string {
	why, _ := l.amiss.Load().(string)
	return why
}

// lastWords is how long what a killed process had said is still listened to.
const lastWords = time.Second

// end kills the process. There may be more of its lines than anybody has time for.
func (l *link) end() {
	late := time.AfterFunc(lastWords, l.spool.drop)
	defer late.Stop()
	l.kill()
	<-l.over
}

// listen passes on what was read.
func (l *link) listen() {
	for {
		w, ok := l.spool.take()
		if !ok {
			return
		}
		select {
		case l.words <- w:
		case <-l.over:
			return
		}
		if w.exit != nil {
			return
		}
	}
}

// send writes a line to the guest, without waiting for it to read.
func (l *link) send(line []byte) {
	if !l.post.add(append(line, '\n')) && l.fault() == "" {
		go l.expel("it did not read what it was told")
	}
}

// hangUp says that nothing more will be asked.
func (l *link) hangUp() { l.hung.Do(l.post.close) }

// close forgets the process, which is over or will be.
func (l *link) close() {
	l.hangUp()
	close(l.over)
	l.spool.close()
}

// A spool holds what was read until somebody has time for it.
type spool struct {
	mu     sync.Mutex
	more   *sync.Cond // something was put, taken or closed
	words  []word
	size   int
	noise  int  // bytes of noise so far
	deaf   bool // nobody has time for more than the exit
	closed bool
}

// wordSize is about what a word takes beside its line.
const wordSize = 128

// put adds a word. Who puts too much waits; too much noise is thrown away.
func (s *spool) put(w word) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.noise {
		if s.noise > noiseSize {
			return
		}
		if s.noise += len(w.line) + 1; s.noise > noiseSize {
			w.line = []byte("it says too much on stderr: the rest is left out")
		}
	}
	for s.size > spoolSize && !s.closed && !s.deaf && w.exit == nil {
		s.more.Wait()
	}
	if !s.closed && (!s.deaf || w.exit != nil) {
		s.words = append(s.words, w)
		s.size += len(w.line) + wordSize
		s.more.Broadcast()
	}
}

// drop forgets what was put and what will be, up to the exit.
func (s *spool) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words = slices.DeleteFunc(s.words, func(w word) bool { return w.exit == nil })
	s.size, s.deaf = 0, true
	s.more.Broadcast()
}

// take returns the next word, when there is one.
func (s *spool) take() (word, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.words) == 0 && !s.closed {
		s.more.Wait()
	}
	if len(s.words) == 0 {
		return word{}, false
	}
	w := s.words[0]
	s.words[0] = word{}
	s.words = s.words[1:]
	if s.size -= len(w.line) + wordSize; s.size < 0 {
		s.size = 0
	}
	s.more.Broadcast()
	return w, true
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.words = true, nil
	s.more.Broadcast()
}

// A splitter makes lines of what a process writes.
type splitter struct {
	to    *spool
	noise bool
	part  []byte
	cut   bool // the line is too long: the rest of it is skipped
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	limit := lineSize
	if s.noise {
		limit = noiseLine
	}
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if room := limit - len(s.part); len(piece) > room {
			piece, s.cut = piece[:room], true
		}
		s.part = append(s.part, piece...)
		if whole {
			s.end(s.cut)
		}
	}
	return n, nil
}

func (s *splitter) end(torn bool) {
	s.to.put(word{line: s.part, noise: s.noise, torn: torn})
	s.part, s.cut = nil, false
}

// flush passes on a last line that has no newline.
func (s *splitter) flush() {
	if len(s.part) > 0 {
		s.end(true)
	}
}

// A post writes lines to a guest that may not read.
type post struct {
	mu     sync.Mutex
	more   *sync.Cond
	lines  [][]byte
	size   int // of them
	closed bool
}

// postSize bounds what a guest does not read: a prompt may be long, but answers are short. It is less in a test.
var postSize = 64 << 20

// add takes a line, unless too much waits already.
func (p *post) add(line []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return true // it is gone, or about to go
	}
	if p.size > postSize {
		return false
	}
	p.lines = append(p.lines, line)
	p.size += len(line) + wordSize
	p.more.Signal()
	return true
}

func (p *post) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.more.Signal()
}

// deliver writes until the post is closed, and then closes the guest's stdin. A guest that is gone is heard of elsewhere.
func (p *post) deliver(to *proc.Process) {
	w := to.Stdin()
	defer w.Close()
	for {
		p.mu.Lock()
		for len(p.lines) == 0 && !p.closed {
			p.more.Wait()
		}
		lines := p.lines
		p.lines = nil
		p.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		for _, line := range lines {
			if _, err := w.Write(line); err != nil {
				return
			}
			p.mu.Lock()
			p.size -= len(line) + wordSize
			p.mu.Unlock()
		}
	}
}

// oneLine makes noise fit to be shown.
func oneLine(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), noiseLine)]), "\uFFFD")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, s))
}
