package provider

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file speaks to models behind OpenAI's Responses API: it sends a request and reads the stream of events that is the
// answer. What is sent is in responses_request.go.

type responsesModel struct{ *openAI }

func newResponses(t target) (Model, error) {
	o, err := newOpenAI(t, "responses")
	if err != nil {
		return nil, err
	}
	return &responsesModel{o}, nil
}

// responsesSeal is the seal of what only this API's models can read: the id of a thought, a colon, and its encrypted content.
const responsesSeal = "openai-responses"

func (m *responsesModel) Answer(ctx context.Context, r Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		x := begin(ctx, m.Idle, m.Key)
		defer x.end()
		a := &responsesReader{answer: answer{yield: yield}, turn: event.TurnEnded{Provider: m.Provider, Model: m.Model}, taken: calledIn(r.History)}
		if err := m.ask(x, r, a); err != nil {
			a.fail(x.failure(err))
		}
	}
}

// ask sends the request and reads the answer to its end.
func (m *responsesModel) ask(x *exchange, r Request, a *responsesReader) error {
	res, err := m.post(x, m.request(r))
	if err != nil {
		return err
	}
	if data, ok, err := document(x, res); err != nil {
		return err
	} else if ok {
		return a.whole(data)
	}
	events, err := x.events(res)
	if err != nil {
		return err
	}
	for !a.done && !a.gone {
		_, data, err := events.next()
		if err != nil {
			return err
		}
		if err := a.read(data); err != nil {
			return err
		}
	}
	return nil
}

// A responsesEvent is any event of the stream. Fields that we do not read are not here.
type responsesEvent struct {
	Type     wire.Span       `json:"type"`
	Delta    string          `json:"delta"`
	Summary  int             `json:"summary_index"`
	Item     responsesItem   `json:"item"`
	Response responsesWhole  `json:"response"`
	Code     string          `json:"code"` // of an error
	Message  string          `json:"message"`
	Error    *responsesError `json:"error"` // from some, of an error
}

// A responsesItem is a thought, a message or a call.
type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Content   []responsesPart `json:"content"` // of a message; from some, of a thought
	Summary   []responsesPart `json:"summary"` // of a thought
	Encrypted string          `json:"encrypted_content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
}

type responsesPart struct {
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// responsesWhole is the answer, as it begins and as it ends.
type responsesWhole struct {
	Model  string          `json:"model"`
	Status string          `json:"status"`
	Output []responsesItem `json:"output"`
	Error  *responsesError `json:"error"`
	Gap    struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *responsesUsage `json:"usage"`
}

type responsesError struct {
	Code    string `json:"code"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

type responsesUsage struct {
	Input   *int64 `json:"input_tokens"` // with what the cache served and took
	InputOf struct {
		Cached *int64 `json:"cached_tokens"`
		Write  *int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output   *int64 `json:"output_tokens"` // with reasoning
	OutputOf struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// A responsesReader makes an answer of the stream's events.
type responsesReader struct {
	answer
	turn    event.TurnEnded
	done    bool
	piece   bool // the open item has come in pieces
	items   int  // that were complete
	calls   int
	refused bool
	taken   map[string]bool // ids of calls that were made
	event   responsesEvent
}

// read takes one event.
func (a *responsesReader) read(data []byte) error {
	a.event = responsesEvent{}
	e := &a.event
	err := wire.Unmarshal(data, e)
	if _, ok := errors.AsType[*wire.TypeError](err); err != nil && !ok {
		return nonsense(err)
	}
	switch string(bytes.Trim(e.Type, `"`)) {
	case "response.created", "response.in_progress":
		a.turn.Model = first(e.Response.Model, a.turn.Model)
	case "response.output_item.added":
		a.close("")
		a.piece = false
	case "response.output_text.delta":
		a.piece = true
		a.text(e.Delta)
	case "response.refusal.delta":
		a.piece, a.refused = true, true
		a.text(e.Delta)
	case "response.reasoning_summary_part.added":
		if e.Summary > 0 && a.open == thoughtBlock {
			a.thought("\n\n")
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.piece = true
		a.thought(e.Delta)
	case "response.output_item.done":
		a.item(&e.Item)
	case "response.completed", "response.incomplete":
		return a.finish(&e.Response)
	case "response.failed", "response.cancelled":
		return e.Response.failure()
	case "error":
		if e.Error != nil {
			return streamError(first(e.Error.Code, e.Error.Type), e.Error.Message)
		}
		return streamError(e.Code, e.Message)
	}
	return nil
}

// item ends an item. What did not come in pieces is said now.
func (a *responsesReader) item(i *responsesItem) {
	a.items++
	switch i.Type {
	case "message":
		for _, p := range i.Content {
			if !a.piece {
				a.text(p.Text + p.Refusal)
			}
			a.refused = a.refused || p.Refusal != ""
		}
		a.close("")
	case "reasoning":
		if !a.piece {
			var parts []string
			for _, p := range append(i.Summary, i.Content...) {
				parts = append(parts, p.Text)
			}
			a.thought(strings.Join(parts, "\n\n"))
		}
		seen := ""
		if i.Encrypted != "" {
			seen = seal(responsesSeal, i.ID+":"+i.Encrypted)
		}
		a.close(seen)
	case "function_call":
		id := i.CallID
		if id == "" || a.taken[id] {
			id = callID()
		}
		a.taken[id] = true
		a.calls++
		a.call(id, i.Name, i.Arguments)
	}
	a.piece = false
}

// whole takes an answer that comes all at once.
func (a *responsesReader) whole(data []byte) error {
	var w responsesWhole
	err := wire.Unmarshal(data, &w)
	if _, ok := errors.AsType[*wire.TypeError](err); err != nil && !ok {
		return nonsense(err)
	}
	a.turn.Model = first(w.Model, a.turn.Model)
	switch w.Status {
	case "completed", "incomplete":
		return a.finish(&w)
	}
	return w.failure()
}

func (w *responsesWhole) failure() error {
	if w.Error == nil {
		return &Error{Class: Server, Code: w.Status, Message: "the server gave up the answer"}
	}
	return streamError(first(w.Error.Code, w.Error.Type), first(w.Error.Message, "the server gave up the answer"))
}

// finish ends the answer. Who did not tell the items one by one tells them here.
func (a *responsesReader) finish(w *responsesWhole) error {
	if a.items == 0 && a.open == "" {
		for i := range w.Output {
			a.item(&w.Output[i])
		}
	}
	a.turn.Said = w.Gap.Reason
	switch {
	case w.Gap.Reason == "max_output_tokens":
		a.turn.Finish = event.FinishLength
	case w.Gap.Reason == "content_filter" || a.refused:
		a.turn.Finish = event.FinishRefusal
	case w.Gap.Reason != "" || w.Status == "incomplete":
		a.turn.Finish = event.FinishOther
	case a.calls > 0:
		a.turn.Finish = event.FinishToolCalls
	default:
		a.turn.Finish = event.FinishStop
	}
	if u := w.Usage; u != nil {
		a.turn.Usage = event.Usage{
			Input: less(u.Input, u.InputOf.Cached, u.InputOf.Write), CacheRead: u.InputOf.Cached, CacheWrite: u.InputOf.Write,
			Output: less(u.Output, u.OutputOf.Reasoning), Reasoning: u.OutputOf.Reasoning,
		}
	}
	a.end(a.turn)
	a.done = true
	return nil
}
