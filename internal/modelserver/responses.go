package modelserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/internal/script"
)

// responses is OpenAI's Responses API.
type responses struct{}

type responsesRequest struct {
	Model        string         `json:"model"`
	Stream       bool           `json:"stream"`
	Store        *bool          `json:"store"`
	Include      []string       `json:"include"`
	Instructions string         `json:"instructions"`
	Input        responsesInput `json:"input"`
	Previous     string         `json:"previous_response_id"`
	Tools        []struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tools"`
}

// responsesInput is a list of items, or a string that stands for a user's message.
type responsesInput []responsesItem

type responsesItem struct {
	Type      string      `json:"type"` // empty: message
	ID        string      `json:"id"`
	Role      string      `json:"role"`
	Content   chatContent `json:"content"`
	CallID    string      `json:"call_id"`
	Name      string      `json:"name"`
	Arguments string      `json:"arguments"`
	Output    chatContent `json:"output"`
	Summary   chatContent `json:"summary"`
	Encrypted string      `json:"encrypted_content"`
}

func (in *responsesInput) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if *in = nil; text != "" {
			*in = responsesInput{{Type: "message", Role: "user", Content: chatContent{{Text: text}}}}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]responsesItem)(in))
}

// said says whether an item is a part of a model's answer.
func (i responsesItem) said() bool {
	switch i.Type {
	case "function_call", "reasoning":
		return true
	case "", "message":
		return i.Role == "assistant"
	}
	return false
}

func (responses) name() string           { return "openai-responses" }
func (responses) admit(r *request) error { return admitBearer(r) }

func (responses) refuse(r refusal) (http.Header, []byte) { return nil, openAIRefusal(r) }

func (responses) read(r *request) (ask, error) {
	var q responsesRequest
	if err := r.decode(&q); err != nil {
		return ask{}, err
	}
	if q.Model == "" {
		return ask{}, refused("missing required parameter: 'model'")
	}
	for i, t := range q.Tools {
		if t.Type == "function" && !toolName().MatchString(t.Name) {
			return ask{}, refused("invalid 'tools[%d].name': %q is not made of letters, digits, _ and -", i, t.Name)
		}
	}
	var past thread
	if q.Previous != "" {
		var ok bool
		if past, ok = r.server.threads.find(q.Previous); !ok {
			return ask{}, refused("previous response with id '%s' not found", q.Previous)
		}
	}
	if len(q.Input) == 0 {
		return ask{}, refused("missing required parameter: 'input'")
	}
	if err := q.check(past.open); err != nil {
		return ask{}, err
	}
	kept := q.Store == nil || *q.Store
	now := q.follow(past)
	return ask{
		seen:   now.Seen,
		stream: q.Stream,
		voice: func(t script.Turn, s *stage) voice {
			id := r.id("resp_")
			if kept {
				r.server.threads.keep(id, now.with(t))
			}
			return &responsesVoice{
				turn: t, stage: s, id: id, number: r.number, created: time.Now().Unix(), previous: q.Previous,
				sealed: slices.Contains(q.Include, "reasoning.encrypted_content"),
			}
		},
	}, nil
}

// check says what OpenAI would refuse. Some calls may be open from the response before.
func (q *responsesRequest) check(open []string) error {
	open = slices.Clone(open)
	for i, item := range q.Input {
		if prefix := map[string]string{"message": "msg", "function_call": "fc", "reasoning": "rs"}[item.Type]; item.ID != "" && !strings.HasPrefix(item.ID, prefix) {
			return refused("invalid 'input[%d].id': '%s' does not begin with '%s'", i, item.ID, prefix)
		}
		switch item.Type {
		case "", "message":
			if !slices.Contains([]string{"user", "assistant", "system", "developer"}, item.Role) {
				return refused("invalid 'input[%d].role': '%s'", i, item.Role)
			}
			if item.Content == nil {
				return refused("missing required parameter: 'input[%d].content'", i)
			}
		case "reasoning":
			if err := q.checkReasoning(i, item); err != nil {
				return err
			}
		case "function_call":
			switch {
			case item.CallID == "":
				return refused("missing required parameter: 'input[%d].call_id'", i)
			case item.Name == "":
				return refused("missing required parameter: 'input[%d].name'", i)
			case slices.Contains(open, item.CallID):
				return refused("duplicate 'input[%d].call_id': %s", i, item.CallID)
			}
			open = append(open, item.CallID)
		case "function_call_output":
			at := slices.Index(open, item.CallID)
			if at < 0 {
				return refused("no tool call found for function call output with call_id %s", item.CallID)
			}
			if item.Output == nil {
				return refused("missing required parameter: 'input[%d].output'", i)
			}
			open = slices.Delete(open, at, at+1)
		}
	}
	if len(open) > 0 {
		return refused("no tool output found for function call %s", open[0])
	}
	if last := q.Input[len(q.Input)-1]; last.Type == "reasoning" {
		return refused("item '%s' of type 'reasoning' was provided without its required following item", last.ID)
	}
	return nil
}

// checkReasoning sees to it that a thought comes back as it was given, with what the model said after it.
func (q *responsesRequest) checkReasoning(i int, item responsesItem) error {
	kept := q.Store == nil || *q.Store
	switch {
	case item.Encrypted == "" && !kept:
		return refused("item with id '%s' not found: items are not kept when 'store' is false", item.ID)
	case item.Encrypted != "" && item.Encrypted != seal(item.Summary.text()):
		return refused("the encrypted content of item '%s' could not be verified", item.ID)
	case i+1 < len(q.Input) && !q.Input[i+1].said():
		return refused("item '%s' of type 'reasoning' was provided without its required following item", item.ID)
	}
	return nil
}

// A thread is what is known of a conversation: of the requests and answers of a chain of responses.
type thread struct {
	glance
	open []string // calls that the last answer made
}

// follow returns the thread with what a request adds to it.
func (q *responsesRequest) follow(t thread) thread {
	t.Model, t.System, t.open = q.Model, q.Instructions, nil
	for _, i := range q.Input {
		text := i.Content.text()
		switch {
		case i.said():
			t.answer()
		case i.Type == "function_call_output":
			t.result(i.Output.text())
		case i.Role == "user":
			t.message(text, text)
		default:
			t.System += text
		}
	}
	return t
}

// with returns the thread with an answer.
func (t thread) with(a script.Turn) thread {
	t.answer()
	for _, p := range a.Parts {
		if p.Kind == script.ToolCall {
			t.open = append(t.open, p.ID)
		}
	}
	return t
}

// threads remembers the last responses, for who refers to one instead of sending its history. The zero value is empty.
type threads struct {
	mu    sync.Mutex
	known map[string]thread
	order []string
}

// remembered is how many responses are kept.
const remembered = 4096

func (t *threads) keep(id string, th thread) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]thread{}
	}
	t.known[id] = th
	if t.order = append(t.order, id); len(t.order) > remembered {
		delete(t.known, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *threads) find(id string) (thread, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	th, ok := t.known[id]
	return th, ok
}
