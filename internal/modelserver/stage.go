package modelserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// A stage is where an answer is said: one HTTP response, flushed after every event. Once it is over nothing is written any
// more, so that whoever speaks need not ask after each word.
type stage struct {
	w       http.ResponseWriter
	ctx     context.Context
	trickle time.Duration // before each byte
	status  int           // what was answered; 0: nothing yet
	over    bool
	cut     bool // the connection is to be broken
}

// open begins an answer whose length nobody knows yet.
func (s *stage) open(contentType string) {
	h := s.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	s.head(http.StatusOK)
	s.flush()
}

func (s *stage) head(status int) {
	if !s.over && s.status == 0 {
		s.status = status
		s.w.WriteHeader(status)
	}
}

// answer says all at once.
func (s *stage) answer(status int, header http.Header, body []byte) {
	s.announce(status, header, len(body))
	s.write(body)
}

// announce says what comes, and how much.
func (s *stage) announce(status int, header http.Header, length int) {
	h := s.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(length))
	for k, v := range header {
		h[k] = v
	}
	s.head(status)
}

func (s *stage) refuse(f format, err error) {
	r, ok := errors.AsType[refusal](err)
	if !ok {
		r = refusal{status: http.StatusInternalServerError, message: err.Error()}
	}
	header, body := f.refuse(r)
	if header == nil {
		header = http.Header{}
	}
	for k, v := range r.header {
		header.Set(k, v)
	}
	s.answer(r.status, header, body)
}

// write sends bytes, now.
func (s *stage) write(p []byte) {
	if s.trickle == 0 {
		s.send(p)
		return
	}
	for i := range p {
		s.wait(s.trickle)
		s.send(p[i : i+1])
	}
}

func (s *stage) send(p []byte) {
	if s.over {
		return
	}
	if _, err := s.w.Write(p); err != nil {
		s.over = true
		return
	}
	s.flush()
}

func (s *stage) flush() {
	if !s.over {
		_ = http.NewResponseController(s.w).Flush() // a recorder in a test may not know how
	}
}

// event sends a server-sent event. One without a name has only data.
func (s *stage) event(name string, data []byte) {
	p := make([]byte, 0, len(name)+len(data)+20)
	if name != "" {
		p = append(p, "event: "...)
		p = append(p, name...)
		p = append(p, '\n')
	}
	p = append(p, "data: "...)
	p = append(p, data...)
	p = append(p, "\n\n"...)
	s.write(p)
}

// wait lets time pass, unless the client goes away.
func (s *stage) wait(d time.Duration) {
	if d <= 0 || s.over {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
		s.over = true
	}
}

// snap breaks the connection.
func (s *stage) snap() { s.over, s.cut = true, true }

// hang says nothing more until the client goes away.
func (s *stage) hang() {
	if !s.over {
		<-s.ctx.Done()
	}
	s.snap()
}
