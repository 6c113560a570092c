package modelserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/script"
)

// chat is OpenAI's Chat Completions API, which many others speak too.
type chat struct{}

type chatRequest struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	Messages      []chatMessage `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type chatMessage struct {
	Role       string      `json:"role"`
	Content    chatContent `json:"content"`
	ToolCalls  []chatCall  `json:"tool_calls"`
	ToolCallID string      `json:"tool_call_id"`
}

// chatContent is a string, or a list of parts; nil if it is absent.
type chatContent []chatPart

type chatPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (c *chatContent) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		if *c = nil; string(data) != "null" {
			*c = chatContent{{Type: "text", Text: text}}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]chatPart)(c))
}

func (c chatContent) text() string {
	var b strings.Builder
	for _, p := range c {
		b.WriteString(p.Text)
	}
	return b.String()
}

func (chat) name() string { return "openai-chat" }

func (chat) admit(r *request) error { return admitBearer(r) }

// admitBearer demands the key as OpenAI does.
func admitBearer(r *request) error {
	if key := r.server.options.Key; key != "" && r.bearer() != key {
		return refusal{status: http.StatusUnauthorized, message: "incorrect API key provided"}
	}
	return nil
}

func (chat) read(r *request) (ask, error) {
	var q chatRequest
	if err := r.decode(&q); err != nil {
		return ask{}, err
	}
	if q.Model == "" {
		return ask{}, refused("you must provide a model parameter")
	}
	for i, t := range q.Tools {
		if t.Type == "function" && !toolName().MatchString(t.Function.Name) {
			return ask{}, refused("invalid 'tools[%d].function.name': %q is not made of letters, digits, _ and -", i, t.Function.Name)
		}
	}
	if err := q.check(); err != nil {
		return ask{}, err
	}
	return ask{seen: q.seen(), stream: q.Stream, voice: func(t script.Turn, s *stage) voice {
		return &chatVoice{turn: t, stage: s, id: r.id("chatcmpl-"), created: time.Now().Unix(), counted: q.StreamOptions.IncludeUsage}
	}}, nil
}

func (q *chatRequest) seen() script.Seen {
	g := glance{Seen: script.Seen{Model: q.Model}}
	for _, m := range q.Messages {
		text := m.Content.text()
		switch m.Role {
		case "system", "developer":
			g.System += text
		case "assistant":
			g.answer()
		case "user":
			g.message(text, text)
		case "tool":
			g.result(text)
		}
	}
	return g.Seen
}

// check says what OpenAI would refuse.
func (q *chatRequest) check() error {
	if len(q.Messages) == 0 {
		return refused("invalid 'messages': empty array, at least one is needed")
	}
	var open []string // calls without their results
	unanswered := func() error {
		if len(open) > 0 {
			return refused("an assistant message with 'tool_calls' must be followed by a tool message for each 'tool_call_id': %s", strings.Join(open, ", "))
		}
		return nil
	}
	for i, m := range q.Messages {
		if m.Role != "tool" {
			if err := unanswered(); err != nil {
				return err
			}
		}
		switch m.Role {
		case "system", "developer", "user":
			if m.Content == nil {
				return refused("invalid 'messages[%d].content': expected a string or a list, got null", i)
			}
		case "assistant":
			if m.Content == nil && len(m.ToolCalls) == 0 {
				return refused("invalid 'messages[%d]': an assistant message has content or tool_calls", i)
			}
			for j, c := range m.ToolCalls {
				switch {
				case c.ID == "":
					return refused("missing 'messages[%d].tool_calls[%d].id'", i, j)
				case c.Function.Name == "":
					return refused("missing 'messages[%d].tool_calls[%d].function.name'", i, j)
				case c.Type != "function":
					return refused("invalid 'messages[%d].tool_calls[%d].type': %q", i, j, c.Type)
				case slices.Contains(open, c.ID):
					return refused("duplicate 'messages[%d].tool_calls[%d].id': %s", i, j, c.ID)
				}
				open = append(open, c.ID)
			}
		case "tool":
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return refused("invalid 'messages[%d]': a message of the role 'tool' answers one of 'tool_calls' before it; %q is none", i, m.ToolCallID)
			}
			open = slices.Delete(open, at, at+1)
		default:
			return refused("invalid 'messages[%d].role': %q", i, m.Role)
		}
	}
	return unanswered()
}

func (chat) refuse(r refusal) (http.Header, []byte) { return nil, openAIRefusal(r) }

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func openAIRefusal(r refusal) []byte {
	e := openAIError{Message: r.message, Type: r.kind}
	if e.Type == "" {
		e.Type = kindOf(r.status).openai
	}
	switch r.status {
	case http.StatusUnauthorized:
		e.Code = pointer("invalid_api_key")
	case http.StatusTooManyRequests:
		e.Code = pointer("rate_limit_exceeded")
	}
	return encode(struct {
		Error openAIError `json:"error"`
	}{e})
}

func pointer[T any](v T) *T { return &v }
