package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// established is the version of the protocol that is offered first: its handshake is the one that servers know. The newest
// protocol has another, and nobody can say what a server does that never heard of it.
const established = "2025-11-25"

// A carrier takes messages to a server and back.
type carrier interface {
	sdk.Transport
	cut(error)              // breaks the connection; the first error is why
	shut()                  // leaves nothing behind; the connection is closed or cut
	why() string            // it is over, in one line; empty: as far as is known, it is not
	ended() <-chan struct{} // closed when why will not know more
	told() int32            // how many calls the server was told to give up
}

// A peer is one connection to a server.
type peer struct {
	carrier
	session *sdk.ClientSession
	done    chan struct{} // closed when the connection is over
	givenUp atomic.Int32  // calls

	mu        sync.Mutex
	calls     int
	listeners map[string]*listener // by progress token
}

// connect makes a connection, as long as ctx lasts.
func (l *link) connect(ctx context.Context) (*peer, error) {
	p, err := l.dial(ctx, established)
	if _, refused := answered(err); refused {
		return l.dial(ctx, "") // the newest
	}
	return p, err
}

func (l *link) dial(ctx context.Context, version string) (*peer, error) {
	c, err := l.open()
	if err != nil {
		return nil, err
	}
	p := &peer{carrier: c, done: make(chan struct{}), listeners: map[string]*listener{}}
	stop := context.AfterFunc(ctx, func() { c.cut(context.Cause(ctx)) })
	p.session, err = l.client(p).Connect(ctx, c, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if !stop() || err != nil {
		if ctx.Err() != nil {
			c.cut(context.Cause(ctx))
			err = errors.New(c.why())
		} else {
			err = p.explain(ctx, err)
		}
		l.hub.work.Go(func() {
			c.cut(err)
			c.shut()
		})
		return nil, err
	}
	l.hub.work.Go(func() {
		_ = p.session.Wait() // why it ended is known better elsewhere
		close(p.done)
	})
	return p, nil
}

// open begins what carries the messages.
func (l *link) open() (carrier, error) {
	if l.server.URL != "" {
		return openHTTP(l)
	}
	return openChild(l)
}

// over says whether the connection has ended.
func (p *peer) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// answered says whether an error is the server's answer, and which. Some of the client's own look like one.
func answered(err error) (*jsonrpc.Error, bool) {
	const rejected = -32005 // nothing was sent
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok && e.Code != rejected
}

// explain says why something did not work out.
func (p *peer) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, refused := answered(err); refused {
		return err
	}
	if p.carrier.why() == "" { // the connection broke: its end is near, and has a reason
		select {
		case <-p.ended():
		case <-time.After(closeTime / 2):
		}
	}
	if why := p.carrier.why(); why != "" {
		return errors.New(why)
	}
	return err
}

// wrapping is what the client puts before an error.
var wrapping = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((calling|sending) "[^"]*": |rejected by transport: )+`)
})

// brief is what an error of the client says, without the steps that led there, and without an address, which may hold a key.
func brief(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, io.EOF) {
		return "the connection broke"
	}
	return oneLine(wrapping().ReplaceAllString(err.Error(), ""), lineLimit)
}

// why says why a connection that is over has ended.
func (p *peer) why() string {
	if why := p.carrier.why(); why != "" {
		return why
	}
	if err := p.session.Wait(); err != nil {
		return brief(err)
	}
	return "it closed the connection"
}

// close ends the connection, politely as long as that does not take long. The server may work on calls that nobody waits for:
// it is told first.
func (p *peer) close() {
	for end := time.Now().Add(closeTime / 2); p.told() < p.givenUp.Load() && !p.over() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan struct{})
	go func() {
		p.session.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeTime):
		p.cut(errOver)
		select {
		case <-closed:
		case <-time.After(closeTime): // somebody does not take our events
		}
	}
	p.shut()
}

// version is what the server says it is.
func (p *peer) version() string {
	info := p.session.InitializeResult().ServerInfo
	if info == nil {
		return ""
	}
	return oneLine(strings.TrimSpace(info.Name+" "+info.Version), 80)
}

// A listener takes the progress of a call.
type listener struct {
	mu   sync.Mutex
	out  func(string) // nil: the call is over
	room int          // bytes that may still come
}

// liveLimit is how much a call may say of its progress, in bytes.
const liveLimit = 64 << 10

// listen gives out the progress of a call that carries the token, until it is released.
func (p *peer) listen(out func(string)) (token string, release func()) {
	l := &listener{out: out, room: liveLimit}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	token = fmt.Sprintf("call-%d", p.calls)
	p.listeners[token] = l
	return token, func() {
		p.mu.Lock()
		delete(p.listeners, token)
		p.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out = nil
	}
}

func (p *peer) progress(n *sdk.ProgressNotificationParams) {
	p.mu.Lock()
	l := p.listeners[fmt.Sprint(n.ProgressToken)]
	p.mu.Unlock()
	if l == nil {
		return
	}
	text := fmt.Sprintf("%g", n.Progress)
	if n.Total > 0 {
		text += fmt.Sprintf("/%g", n.Total)
	}
	text = strings.TrimSpace(text+" "+oneLine(n.Message, lineLimit)) + "\n"
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil && l.room >= len(text) {
		l.room -= len(text)
		l.out(text)
	}
}
