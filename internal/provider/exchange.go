package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// An exchange is one request and its answer over HTTP. It ends with the caller's context, or when the server says nothing
// for too long; and it knows which of the two it was.
//
//	x := begin(ctx, idle, key)
//	defer x.end()
//	res, err := x.send(func(ctx context.Context) (*http.Response, error) { … })
//	events, err := x.events(res)
//	…
//	a.fail(x.failure(err))
type exchange struct {
	ctx     context.Context // the request's
	asked   context.Context // the caller's
	cancel  context.CancelCauseFunc
	idle    time.Duration
	timer   *time.Timer    // runs while we wait for the server, not while we do something with what it said
	answer  *http.Response // nil until it has begun
	broken  error          // of reading it
	secrets []string       // what no error may show
}

var errSilent = errors.New("silent")

// begin begins an exchange. An idle of 0 lets the server be silent as long as it likes.
func begin(ctx context.Context, idle time.Duration, secrets ...string) *exchange {
	x := &exchange{asked: ctx, idle: idle, secrets: secrets}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if idle > 0 {
		x.timer = time.AfterFunc(idle, func() { x.cancel(errSilent) })
		x.timer.Stop()
	}
	return x
}

// end gives back what the exchange holds. A connection whose answer is read to its end serves the next request, so a little
// is given to reading what may follow the last event: the end of the body, most often.
func (x *exchange) end() {
	if x.answer != nil && x.ctx.Err() == nil {
		x.timer = time.AfterFunc(drainTime, func() { x.cancel(nil) })
		_, _ = io.CopyN(io.Discard, x.answer.Body, drainLimit)
	}
	x.pause()
	x.cancel(nil)
	if x.answer != nil {
		_ = x.answer.Body.Close()
	}
}

const (
	drainTime  = 50 * time.Millisecond
	drainLimit = 4 << 10
)

func (x *exchange) wait() {
	if x.timer != nil {
		x.timer.Reset(x.idle)
	}
}

func (x *exchange) pause() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// send sends the request. A status that is not 2xx is an error.
func (x *exchange) send(do func(context.Context) (*http.Response, error)) (*http.Response, error) {
	x.wait()
	res, err := do(x.ctx)
	x.pause()
	if err != nil {
		return nil, err
	}
	if err := x.refusal(res); err != nil {
		return nil, err
	}
	x.answer = res
	return res, nil
}

// refusal is the error that a status says, if it says one. It closes the body then.
func (x *exchange) refusal(res *http.Response) error {
	if res.StatusCode/100 == 2 {
		return nil
	}
	x.wait()
	body, _ := io.ReadAll(io.LimitReader(res.Body, errorLimit)) // what came of it is better than nothing
	x.pause()
	_ = res.Body.Close()
	return statusError(res.StatusCode, res.Header, body, x.secrets)
}

// errorLimit is how much of an error's body is read.
const errorLimit = 64 << 10

// refuse is [exchange.refusal] as the vendors' clients take it, so that none of them reads an error's body its own way.
func (x *exchange) refuse(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(r)
	if err != nil {
		return nil, err
	}
	if err := x.refusal(res); err != nil {
		return nil, err
	}
	return res, nil
}

// body is the answer as it comes.
func (x *exchange) body(res *http.Response) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		x.wait()
		n, err := res.Body.Read(p)
		x.pause()
		x.broken = err
		return n, err
	})
}

// events reads the answer as server-sent events. An answer of another type is an error, in its own words if it has some.
func (x *exchange) events(res *http.Response) (*sse, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind == "" || kind == "text/event-stream" {
		return newSSE(x.body(res)), nil
	}
	head, _ := io.ReadAll(io.LimitReader(x.body(res), errorLimit))
	e := &Error{Class: Server, Message: fmt.Sprintf("the server answered with %s, not with a stream of events", kind), Err: errNotSSE}
	if code, message := errorBody(head); message != "" {
		e.Code, e.Message = code, message
	}
	return nil, e.clean(x.secrets)
}

// failure is the error that an answer ends with, made of whatever went wrong: an [*Error], or the context's.
func (x *exchange) failure(err error) error {
	if x.asked.Err() != nil {
		return x.asked.Err()
	}
	var e *Error
	switch {
	case context.Cause(x.ctx) == errSilent:
		e = &Error{Class: Stalled, Message: fmt.Sprintf("the server said nothing for %v", x.idle)}
	case errors.As(err, &e):
	case errors.Is(err, errNotSSE), errors.Is(err, errLong):
		e = &Error{Class: Server, Message: err.Error(), Err: err}
	case x.answer != nil:
		e = cutError(err)
	default:
		e = sendError(err)
	}
	return e.clean(x.secrets)
}
