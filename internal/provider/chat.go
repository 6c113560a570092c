package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file speaks to models behind OpenAI's Chat Completions API, and the many that speak like it. What is sent is in
// chat_request.go, what comes back is read in chat_stream.go.
//
// OpenAI's own client is not used: linked in, it costs every start two milliseconds and five megabytes, and what it would
// carry is one header.

// openAI is a server that speaks as OpenAI's does.
type openAI struct {
	target
	url  string       // that requests are posted to
	own  bool         // it is OpenAI's own, or stands for it
	size atomic.Int64 // of the last request: the next one is a little larger
}

func newOpenAI(t target, path ...string) (*openAI, error) {
	u, err := url.Parse(t.BaseURL)
	if err != nil {
		return nil, err
	}
	own := t.Provider == "openai" || t.Provider == "openai-responses" || u.Host == "api.openai.com"
	return &openAI{target: t, url: u.JoinPath(path...).String(), own: own}, nil
}

// body is the beginning of a request's body, with room for the rest.
func (o *openAI) body() []byte {
	b := append(make([]byte, 0, o.size.Load()+16<<10), `{"model":`...)
	return append(wire.AppendString(b, o.Model), `,"stream":true`...)
}

// post sends a request.
func (o *openAI) post(x *exchange, body []byte) (*http.Response, error) {
	o.size.Store(int64(len(body)))
	return x.send(func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("User-Agent", "sluice")
		if o.Key != "" {
			r.Header.Set("Authorization", "Bearer "+o.Key)
		}
		if o.own {
			for header, variable := range map[string]string{"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"} {
				if v := o.Env(variable); v != "" {
					r.Header.Set(header, v)
				}
			}
		}
		for name, value := range o.Headers {
			r.Header.Set(name, value)
		}
		return o.Client.Do(r)
	})
}

// document returns the whole answer of a server that does not stream, though it was asked to. ok is false if it does.
func document(x *exchange, res *http.Response) (data []byte, ok bool, err error) {
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/json" {
		return nil, false, nil
	}
	data, err = io.ReadAll(io.LimitReader(x.body(res), eventLimit+1))
	if err == nil && len(data) > eventLimit {
		err = errLong
	}
	return data, true, err
}

type chatModel struct{ *openAI }

func newChat(t target) (Model, error) {
	o, err := newOpenAI(t, "chat", "completions")
	if err != nil {
		return nil, err
	}
	return &chatModel{o}, nil
}

func (m *chatModel) Answer(ctx context.Context, r Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		x := begin(ctx, m.Idle, m.Key)
		defer x.end()
		c := &chatReader{answer: answer{yield: yield}, turn: event.TurnEnded{Provider: m.Provider, Model: m.Model}, taken: calledIn(r.History)}
		if err := m.ask(x, r, c); err != nil {
			c.flush()
			c.fail(x.failure(err))
		}
	}
}

// ask sends the request and reads the answer to its end.
func (m *chatModel) ask(x *exchange, r Request, c *chatReader) error {
	res, err := m.post(x, m.request(r))
	if err != nil {
		return err
	}
	if data, ok, err := document(x, res); err != nil {
		return err
	} else if ok {
		return c.whole(data)
	}
	events, err := x.events(res)
	if err != nil {
		return err
	}
	for !c.gone {
		_, data, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && c.said != "": // some say no more than that they are finished
			return c.finish()
		case err != nil:
			return err
		case string(bytes.TrimSpace(data)) == "[DONE]":
			return c.finish()
		}
		if err := c.read(data); err != nil {
			return err
		}
	}
	return nil
}

// calledIn are the ids of the calls in a history.
func calledIn(history []event.Event) map[string]bool {
	ids := map[string]bool{}
	for _, e := range history {
		if _, ok := e.Body.(event.ToolCalled); ok {
			ids[e.Call] = true
		}
	}
	return ids
}
