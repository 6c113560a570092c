package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file speaks to models behind Anthropic's Messages API: it sends a request and reads the stream of events that is the
// answer. Bedrock and Vertex send the same messages by other ways, and use it. What is sent is in anthropic_request.go.

// A messagesModel answers over the Messages API, whoever carries it.
type messagesModel struct {
	target
	version string // of the API, where it stands in the body
	post    func(ctx context.Context, x *exchange, body []byte) (*http.Response, error)
	frames  func(x *exchange, res *http.Response) (frames, error)
	size    atomic.Int64 // of the last request
}

// frames are the events of an answer: JSON, each good until the next. The error is io.EOF after the last.
type frames interface {
	frame() ([]byte, error)
}

func (s *sse) frame() ([]byte, error) {
	_, data, err := s.next()
	return data, err
}

func sseFrames(x *exchange, res *http.Response) (frames, error) { return x.events(res) }

func newAnthropic(t target) (Model, error) {
	key := option.WithAPIKey(t.Key)
	if t.KeyEnv == "ANTHROPIC_AUTH_TOKEN" {
		key = option.WithAuthToken(t.Key)
	}
	with := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithMaxRetries(0), option.WithHTTPClient(t.Client),
		option.WithBaseURL(strings.TrimSuffix(t.BaseURL, "/v1") + "/"), option.WithHeader("Accept", "text/event-stream"),
	}
	if t.Key != "" {
		with = append(with, key)
	}
	for name, value := range t.Headers {
		with = append(with, option.WithHeader(name, value))
	}
	client := anthropic.NewClient(with...)
	return &messagesModel{
		target: t,
		post: func(ctx context.Context, x *exchange, body []byte) (res *http.Response, err error) {
			err = client.Post(ctx, "v1/messages", body, &res, option.WithMiddleware(x.refuse))
			return res, err
		},
		frames: sseFrames,
	}, nil
}

func (m *messagesModel) Answer(ctx context.Context, r Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		x := begin(ctx, m.Idle, m.Key)
		defer x.end()
		a := &messageReader{answer: answer{yield: yield}, turn: event.TurnEnded{Provider: m.Provider, Model: m.Model}}
		if err := m.ask(x, r, a); err != nil {
			a.fail(x.failure(err))
		}
	}
}

// ask sends the request and reads the answer to its end.
func (m *messagesModel) ask(x *exchange, r Request, a *messageReader) error {
	body := m.request(r)
	res, err := x.send(func(ctx context.Context) (*http.Response, error) { return m.post(ctx, x, body) })
	if err != nil {
		return err
	}
	events, err := m.frames(x, res)
	if err != nil {
		return err
	}
	for !a.done && !a.gone {
		data, err := events.frame()
		if err != nil {
			return err
		}
		if err := a.read(data); err != nil {
			return err
		}
	}
	return nil
}

// A messageEvent is any event of the stream. Fields that we do not read are not here.
type messageEvent struct {
	Type    wire.Span `json:"type"`
	Message struct {
		Model string       `json:"model"`
		Usage messageUsage `json:"usage"`
	} `json:"message"` // of message_start
	Block struct {
		Type      wire.Span `json:"type"`
		ID        string    `json:"id"`
		Name      string    `json:"name"`
		Input     wire.Span `json:"input"`
		Text      string    `json:"text"`
		Thinking  string    `json:"thinking"`
		Signature string    `json:"signature"`
		Data      string    `json:"data"`
	} `json:"content_block"` // of content_block_start
	Delta struct {
		Text      string `json:"text"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Arguments string `json:"partial_json"`
		Stop      string `json:"stop_reason"`
	} `json:"delta"` // of content_block_delta and message_delta
	Usage messageUsage `json:"usage"` // of message_delta: all so far
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

type messageUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Details    *struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// A messageReader makes an answer of the stream's events.
type messageReader struct {
	answer
	done      bool
	event     messageEvent
	turn      event.TurnEnded
	block     blockKind
	id, name  string          // of the call that is open
	arguments strings.Builder // of it
	signature strings.Builder // of the thought that is open
	calls     int
}

// A blockKind is what the open block is, as far as its end matters.
type blockKind int

const (
	otherBlock blockKind = iota // a text, or what we do not know
	thinkingBlock
	callBlock
)

// Seals of what only Anthropic's models can read. Bedrock and Vertex take each other's.
const (
	anthropicSeal = "anthropic"
	redactedSeal  = "anthropic-redacted"
)

var errNoType = errors.New("an event without a type")

// read takes one event.
func (m *messageReader) read(data []byte) error {
	m.event = messageEvent{}
	e := &m.event
	err := wire.Unmarshal(data, e)
	if _, wrong := err.(*wire.TypeError); err != nil && !wrong {
		return nonsense(err)
	}
	switch string(e.Type) {
	case `"message_start"`:
		if e.Message.Model != "" {
			m.turn.Model = e.Message.Model
		}
		m.count(e.Message.Usage)
	case `"content_block_start"`:
		m.open()
	case `"content_block_delta"`:
		m.text(e.Delta.Text)
		m.thought(e.Delta.Thinking)
		m.signature.WriteString(e.Delta.Signature)
		m.arguments.WriteString(e.Delta.Arguments)
	case `"content_block_stop"`:
		m.closeBlock()
	case `"message_delta"`:
		if e.Delta.Stop != "" {
			m.turn.Said = e.Delta.Stop
		}
		m.count(e.Usage)
	case `"message_stop"`:
		m.turn.Finish = messageFinish(m.turn.Said, m.calls)
		m.end(m.turn)
		m.done = true
	case `"error"`:
		return streamError(e.Error.Type, e.Error.Message)
	case "":
		return nonsense(cmp.Or(err, errNoType))
	default: // ping, and what is to come
		return nil
	}
	if err != nil {
		return nonsense(err)
	}
	return nil
}

func (m *messageReader) open() {
	b := &m.event.Block
	m.block = otherBlock
	m.arguments.Reset()
	m.signature.Reset()
	switch string(b.Type) {
	case `"text"`:
		m.text(b.Text)
	case `"thinking"`:
		m.block = thinkingBlock
		m.thought(b.Thinking)
		m.signature.WriteString(b.Signature)
	case `"redacted_thinking"`:
		m.close("")
		m.close(seal(redactedSeal, b.Data))
	case `"tool_use"`:
		m.block = callBlock
		m.id, m.name = b.ID, b.Name
		if m.id == "" {
			m.id = "call_" + rand.Text()
		}
		if input := string(b.Input); input != "{}" && input != "null" { // all at once; else it comes in pieces
			m.arguments.WriteString(input)
		}
	}
}

func (m *messageReader) closeBlock() {
	switch m.block {
	case thinkingBlock:
		m.close(seal(anthropicSeal, m.signature.String()))
	case callBlock:
		m.calls++
		m.call(m.id, m.name, m.arguments.String())
	default:
		m.close("")
	}
	m.block = otherBlock
}

// count takes what the event knows of the tokens; what came earlier stays where it knows nothing.
func (m *messageReader) count(u messageUsage) {
	t := &m.turn.Usage
	for _, c := range []struct {
		to   **int64
		from *int64
	}{{&t.Input, u.Input}, {&t.Output, u.Output}, {&t.CacheRead, u.CacheRead}, {&t.CacheWrite, u.CacheWrite}} {
		if c.from != nil {
			*c.to = c.from
		}
	}
	if u.Details != nil && u.Details.Thinking != nil && u.Output != nil && *u.Details.Thinking <= *u.Output {
		t.Reasoning = u.Details.Thinking
		t.Output = new(*u.Output - *t.Reasoning)
	}
}

func messageFinish(said string, calls int) event.Finish {
	switch said {
	case "end_turn":
		return event.FinishStop
	case "tool_use":
		return event.FinishToolCalls
	case "max_tokens", "model_context_window_exceeded":
		return event.FinishLength
	case "refusal":
		return event.FinishRefusal
	case "stop_sequence":
		return event.FinishSequence
	case "": // some that speak like Anthropic do not say it
		if calls > 0 {
			return event.FinishToolCalls
		}
		return event.FinishStop
	}
	return event.FinishOther
}
