package control

import (
	"context"
	"net"
	"sync"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// A guest is one connection.
type guest struct {
	server *Server
	conn   *rpc.Conn

	mu    sync.Mutex
	feeds []*feed
	all   *Subscribe // it wants what every run says, also those that come later
	gone  bool
}

// lineMost is how long a request may be.
const lineMost = 16 << 20

func newGuest(s *Server, c net.Conn) *guest {
	g := &guest{server: s}
	g.conn = rpc.New(c, c, rpc.Options{Handle: g.handle, MaxLine: lineMost})
	return g
}

// serve answers what the connection asks. Who has said all that he wants to say is still answered, and given what is there.
func (g *guest) serve() {
	_ = g.conn.Run() // however it ends, the connection is over
	g.drain(g.server.ctx)
	g.server.mu.Lock()
	delete(g.server.guests, g)
	g.server.mu.Unlock()
	g.conn.Close()
}

// added tells of a run that has just come. The server's lock is held.
func (g *guest) added(r *served) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all != nil && !g.gone {
		d, err := lookup(g.all.Format)
		if err != nil {
			return // it was looked up before
		}
		begin := make(chan struct{})
		close(begin)
		g.feed(r, Subscribe{Replay: true}, d, begin)
	}
}

// drain gives the connection what the journals have now, and lets its feeds go.
func (g *guest) drain(ctx context.Context) {
	g.mu.Lock()
	g.gone = true
	feeds := g.feeds
	g.feeds = nil
	g.mu.Unlock()
	for _, f := range feeds {
		f.drain(ctx)
	}
	_ = g.conn.Flush(ctx) // if it cannot be written, nobody reads
}
