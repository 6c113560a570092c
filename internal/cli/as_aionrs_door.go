package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/wire"
)

// An aionrsClient is whoever sends commands on stdin. It answers questions through the inbox; once stdin has ended nobody can, and
// a reply that asks is over.
type aionrsClient struct {
	gone atomic.Bool
	gate *gate.Gate
	stop func(*outcome.Cause)
}

// clientGone is why a reply ends whose question nobody can answer any more.
var clientGone = &outcome.Cause{Outcome: event.Cancelled, Reason: "the client has gone"}

// Asked implements [gate.Answerer]. The answer comes through the inbox.
func (c *aionrsClient) Asked(event.GateAsked, func(gate.Answer) error) {}

// Opened implements [gate.Attendant].
func (c *aionrsClient) Opened(event.GateAsked) {
	if c.gone.Load() {
		c.despair()
	}
}

// Closed implements [gate.Attendant].
func (c *aionrsClient) Closed(event.GateAsked) {}

// leave says that nobody is there any more.
func (c *aionrsClient) leave() {
	c.gone.Store(true)
	c.despair()
}

// despair ends the reply whose question nobody will answer, if there is one.
func (c *aionrsClient) despair() {
	if len(c.gate.Open()) > 0 {
		c.stop(clientGone)
	}
}

// commandLimit is how long a line may be.
const commandLimit = 64 << 20

// door lets the client's commands in until stdin ends.
func (c *aionrsClient) door(ctx context.Context, r *runner, inbox chan<- event.Command) {
	c.gate, c.stop = r.gate, r.talk.Stop
	d := &aionrsDoor{runner: r, ctx: ctx, inbox: inbox, used: map[string]bool{}, added: make(chan addedServer)}
	d.emit(event.Status{Phase: "waiting", Source: "agent"}) // from here on it takes messages
	commands := make(chan []byte)
	go readCommands(ctx, r.io.In, commands)
	for commands != nil || len(d.held) > 0 {
		select {
		case l, ok := <-commands:
			if !ok {
				commands = nil
				d.settle()
				c.leave()
				continue
			}
			d.take(l)
		case a := <-d.added:
			d.connected(a)
		case <-ctx.Done():
			return
		}
	}
	close(inbox)
}

// readCommands reads stdin to its end. A line ends with a newline and with nothing else; an empty one says nothing, and one that is
// too long is nil.
func readCommands(ctx context.Context, in io.Reader, out chan<- []byte) {
	defer close(out)
	if in == nil {
		return
	}
	lines := wire.NewLines(in)
	lines.Keep = func(head []byte) bool { return len(head) < commandLimit }
	for {
		line, err := lines.Next()
		if err != nil {
			return // a client whose stdin breaks has gone, too
		}
		if line = bytes.Clone(bytes.TrimSpace(line)); len(line) == 0 {
			continue
		}
		if lines.Cut() {
			line = nil
		}
		select {
		case out <- line:
		case <-ctx.Done():
			return
		}
	}
}

// An aionrsDoor does what the session need not know of, and passes on the rest.
type aionrsDoor struct {
	*runner
	ctx    context.Context
	inbox  chan<- event.Command
	used   map[string]bool  // ids of messages
	adding int              // servers that are being started
	added  chan addedServer // and those that are
	held   []event.Message  // messages that wait for them
}

func (d *aionrsDoor) emit(b event.Body) { d.line.src.Emit(event.Event{Body: b}) }

// take does what a line says.
func (d *aionrsDoor) take(line []byte) {
	if line == nil {
		d.talk.Protest(fmt.Sprintf("the command is longer than %d MB", commandLimit>>20))
		return
	}
	c, err := dialect.DecodeCommand(line)
	if err != nil {
		d.talk.Protest(err.Error())
		return
	}
	switch c := c.(type) {
	case event.Ping:
		d.emit(event.Custom{Name: "aionrs.pong"})
	case event.SetConfig:
		d.configure(c)
	case event.AddServer:
		d.add(c)
	case event.Message:
		d.message(c)
	case event.Stop:
		d.stop()
	default:
		d.send(c)
	}
}

// message passes on a message. One whose servers are being started waits for them.
func (d *aionrsDoor) message(m event.Message) {
	if d.used[m.ID] {
		d.talk.Protest(fmt.Sprintf("message.msg_id %q was used before: each message needs one of its own", m.ID))
		return
	}
	d.used[m.ID] = true
	for i, f := range m.Files {
		if !filepath.IsAbs(f) {
			m.Files[i] = filepath.Join(d.workspace, f)
		}
	}
	if d.adding > 0 {
		d.held = append(d.held, m)
		return
	}
	d.send(m)
}

// stop ends the reply that goes on. If none does, a message that waits for a server is what the client wants to have ended.
func (d *aionrsDoor) stop() {
	if len(d.held) > 0 {
		if d.settle(); d.talk.Idle() {
			d.send(d.held[0])
			d.held = d.held[1:]
		}
	}
	d.send(event.Stop{})
}

// settle waits until every command that was sent is done: what was answered is no open question. The inbox has room for one, so when
// the second of two that say nothing is in it, the session is done with all that came before them.
func (d *aionrsDoor) settle() {
	d.send(nil)
	d.send(nil)
}

func (d *aionrsDoor) send(c event.Command) {
	select {
	case d.inbox <- c:
	case <-d.ctx.Done():
	}
}
