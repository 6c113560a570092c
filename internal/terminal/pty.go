//go:build unix

package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/sluice-dev/sluice/internal/proc"
)

// Open starts a program on a pseudo-terminal.
func Open(o Options) (Terminal, error) {
	cols, rows := o.size()
	ours, theirs, err := pty.Open()
	if err != nil {
		return nil, err
	}
	if err := pty.Setsize(ours, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		ours.Close()
		theirs.Close()
		return nil, err
	}
	p := &pseudo{ours: ours, changed: make(chan struct{}, 1), read: make(chan struct{})}
	p.screen = vt10x.New(vt10x.WithSize(cols, rows), vt10x.WithWriter(answers{p}))
	p.process, err = o.Group.Start(proc.Cmd{Args: o.Args, Dir: o.Dir, Env: o.Env, Terminal: theirs})
	if err != nil {
		ours.Close()
		return nil, err
	}
	go p.show()
	return p, nil
}

// pseudo is a pseudo-terminal and the screen behind it.
type pseudo struct {
	ours    *os.File
	process *proc.Process
	changed chan struct{}
	read    chan struct{} // all that the program showed has been read

	mu     sync.Mutex
	screen vt10x.Terminal
	broken bool // the emulator met something that it cannot show
}

// show reads what the program writes, until nobody has the terminal open.
func (p *pseudo) show() {
	defer close(p.read)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.ours.Read(buf)
		if n > 0 {
			p.draw(buf[:n])
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// draw puts bytes on the screen. They are a stranger's, and must not take us with them.
func (p *pseudo) draw(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if recover() != nil {
			p.broken = true
		}
	}()
	if !p.broken {
		p.screen.Write(b)
	}
}

// answers are what the screen says when the program asks it something. They are written beside, since drawing must not wait for a
// program that does not read.
type answers struct{ p *pseudo }

func (a answers) Write(b []byte) (int, error) {
	text := string(b)
	go io.WriteString(a.p.ours, text)
	return len(b), nil
}

func (p *pseudo) Kind() string { return "pty" }

func (p *pseudo) Screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return ""
	}
	return trimmed(p.screen.String())
}

func (p *pseudo) Changed() <-chan struct{} { return p.changed }

func (p *pseudo) Type(keys string) error {
	select {
	case <-p.process.Done():
		return ErrExited
	default:
	}
	_, err := io.WriteString(p.ours, keys)
	return err
}

func (p *pseudo) Paste(text string) error {
	return p.Type("\x1b[200~" + printable(text) + "\x1b[201~")
}

func (p *pseudo) Exited() <-chan struct{} { return p.process.Done() }

func (p *pseudo) Exit() proc.Exit { return p.process.Wait() }

func (p *pseudo) Close() {
	p.process.Kill()
	p.process.Wait()
	p.ours.Close()
	<-p.read
}

func (p *pseudo) String() string { return fmt.Sprintf("pty of %d", p.process.Pid()) }
