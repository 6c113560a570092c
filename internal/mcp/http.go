package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	sideTime  = 2 * time.Second  // for the side stream to begin
	sideAgain = time.Second      // before it is asked for again, the first time
	sideMost  = 30 * time.Second // and the last
)

// A courier is what stands between the client and the network for a server with an address. It gives each request the
// server's headers, ends all of them with the connection, bounds what comes back, and keeps the side stream.
type courier struct {
	*sdk.StreamableClientTransport
	base    http.RoundTripper
	home    *url.URL
	headers map[string]string
	ctx     context.Context // of the connection
	cancel  context.CancelFunc
	cancels atomic.Int32

	mu      sync.Mutex
	fault   error
	refused string // it does not let us in
}

func openHTTP(l *link) (*courier, error) {
	home, err := url.Parse(l.server.URL)
	if err != nil {
		return nil, err
	}
	client := *l.hub.opt.Client
	c := &courier{base: client.Transport, home: home, headers: l.server.Headers}
	if c.base == nil {
		c.base = http.DefaultTransport
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	client.Transport, client.Timeout = c, 0 // a stream may last; calls have limits of their own
	c.StreamableClientTransport = &sdk.StreamableClientTransport{Endpoint: l.server.URL, HTTPClient: &client, MaxEventSize: messageLimit, MaxRetries: 2}
	return c, nil
}

// RoundTrip sends a request.
func (c *courier) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(c.ctx, cancel)
	release := func() { stop(); cancel() }
	req = req.Clone(ctx)
	if req.URL.Scheme == c.home.Scheme && req.URL.Host == c.home.Host { // else we were sent elsewhere
		for name, value := range c.headers {
			req.Header.Set(name, value)
		}
	}
	if req.Method == http.MethodGet && req.Header.Get("Last-Event-ID") == "" {
		return c.side(req, release)
	}
	if isCancel(req) {
		defer c.cancels.Add(1)
	}
	resp, err := c.base.RoundTrip(req)
	if err != nil {
		release()
		return nil, err
	}
	c.mu.Lock()
	c.refused = ""
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		c.refused = fmt.Sprintf("it does not let us in (%s): set an Authorization header for it", oneLine(resp.Status, 80))
	}
	locked := c.refused != ""
	c.mu.Unlock()
	if locked { // whatever else it says, it is no answer
		resp.Body.Close()
		release()
		resp.Body = http.NoBody
		return resp, nil
	}
	room := int64(messageLimit)
	if isStream(resp) {
		room = -1 // its events are bounded one by one
	}
	resp.Body = &body{ReadCloser: resp.Body, release: release, room: room}
	return resp, nil
}

// isCancel says whether a request tells the server to give up a call.
func isCancel(req *http.Request) bool {
	if req.GetBody == nil || req.ContentLength > 4<<10 {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var m struct{ Method string }
	return json.NewDecoder(body).Decode(&m) == nil && m.Method == cancelled
}

func isStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// A body is a response's. It is no longer than there is room for, if that is not negative.
type body struct {
	io.ReadCloser
	release func()
	room    int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.room < 0 {
		return n, err
	}
	if b.room -= int64(n); b.room < 0 {
		return 0, fmt.Errorf("the answer has more than %d MB", messageLimit>>20)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// side asks for the side stream, on which a server may speak when it was not asked. It is optional: one that does not begin is
// not waited for, and one that ends does not end the connection.
func (c *courier) side(req *http.Request, release func()) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		resp, err := c.base.RoundTrip(req)
		got <- answer{resp, err}
	}()
	none := &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
	select {
	case a := <-got:
		if a.err == nil && isStream(a.resp) {
			a.resp.Body = &sideStream{base: c.base, req: req, body: a.resp.Body, release: release}
			return a.resp, nil
		}
		if a.err == nil {
			a.resp.Body.Close()
		}
		release()
		return none, nil
	case <-time.After(sideTime):
		release()
		if a := <-got; a.err == nil {
			a.resp.Body.Close()
		}
		return none, nil
	}
}

// A sideStream is read as if it never ended. When it does, it is asked for again, as long as the server has one.
type sideStream struct {
	base    http.RoundTripper
	req     *http.Request
	body    io.ReadCloser // nil: there is none any more
	release func()
	wait    time.Duration
}

func (s *sideStream) Read(p []byte) (int, error) {
	ctx := s.req.Context()
	for s.body != nil {
		n, err := s.body.Read(p)
		if n > 0 {
			s.wait = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		s.body.Close()
		s.wait = min(max(2*s.wait, sideAgain), sideMost)
		select {
		case <-time.After(s.wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		s.body = s.again()
		return copy(p, "\n\n"), nil // an event that was cut is over
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// again asks for the stream. One that cannot be had now may be had later; one that is refused is gone.
func (s *sideStream) again() io.ReadCloser {
	resp, err := s.base.RoundTrip(s.req)
	switch {
	case err != nil:
		return io.NopCloser(errReader{err})
	case isStream(resp):
		return resp.Body
	}
	resp.Body.Close()
	if resp.StatusCode >= 500 {
		return io.NopCloser(errReader{errors.New(resp.Status)})
	}
	return nil
}

func (s *sideStream) Close() error {
	s.release()
	if s.body != nil {
		return s.body.Close()
	}
	return nil
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func (c *courier) cut(why error) {
	c.mu.Lock()
	if c.fault == nil {
		c.fault = why
	}
	c.mu.Unlock()
	c.cancel()
}

func (c *courier) shut() { c.cancel() }

func (c *courier) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.refused != "":
		return c.refused
	case c.fault != nil:
		return c.fault.Error()
	}
	return ""
}

var over = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (c *courier) told() int32 { return c.cancels.Load() }

func (c *courier) ended() <-chan struct{} { return over }
