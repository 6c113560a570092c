package modelserver

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/script"
)

// anthropic is Anthropic's Messages API.
type anthropic struct{ counting bool }

type anthropicRequest struct {
	Model         string             `json:"model"`
	MaxTokens     int64              `json:"max_tokens"`
	Stream        bool               `json:"stream"`
	System        anthropicContent   `json:"system"`
	Messages      []anthropicMessage `json:"messages"`
	StopSequences []string           `json:"stop_sequences"`
	Thinking      struct {
		Type   string `json:"type"`
		Budget int64  `json:"budget_tokens"`
	} `json:"thinking"`
	Tools []anthropicTool `json:"tools"`
}

type anthropicTool struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	InputSchema struct {
		Type string `json:"type"`
	} `json:"input_schema"`
	CacheControl any `json:"cache_control"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content anthropicContent `json:"content"`
}

// anthropicContent is a list of blocks, or a string that stands for one.
type anthropicContent []anthropicBlock

type anthropicBlock struct {
	Type         string           `json:"type"`
	Text         string           `json:"text"`
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Input        json.RawMessage  `json:"input"`
	ToolUseID    string           `json:"tool_use_id"`
	Content      anthropicContent `json:"content"`
	Thinking     string           `json:"thinking"`
	Signature    string           `json:"signature"`
	CacheControl any              `json:"cache_control"`
}

func (c *anthropicContent) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if *c = nil; text != "" {
			*c = anthropicContent{{Type: "text", Text: text}}
		}
		return nil
	}
	var blocks []anthropicBlock
	if err := json.Unmarshal(data, &blocks); err != nil {
		// Some blocks that we never make have an object as their content.
		if json.Valid(data) && len(data) > 0 && data[0] == '{' {
			return nil
		}
		return err
	}
	*c = blocks
	return nil
}

func (c anthropicContent) text() string {
	var b strings.Builder
	for _, x := range c {
		if x.Type == "text" {
			b.WriteString(x.Text)
		}
	}
	return b.String()
}

func (anthropic) name() string { return "anthropic" }

func (anthropic) admit(r *request) error {
	if key := r.server.options.Key; key != "" && r.Header.Get("X-Api-Key") != key && r.bearer() != key {
		return refusal{status: http.StatusUnauthorized, message: "invalid x-api-key"}
	}
	return nil
}

// bearer returns the token that a request carries.
func (r *request) bearer() string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return token
}

func (a anthropic) read(r *request) (ask, error) {
	if r.Header.Get("Anthropic-Version") == "" {
		return ask{}, refused("anthropic-version: the header is required")
	}
	var q anthropicRequest
	if err := r.decode(&q); err != nil {
		return ask{}, err
	}
	if q.Model == "" {
		return ask{}, refused("model: field required")
	}
	if a.counting {
		if err := q.check(); err != nil {
			return ask{}, err
		}
		return ask{whole: encode(map[string]int{"input_tokens": r.tokens()})}, nil
	}
	return q.ask(r, func(v *anthropicVoice) voice { return v })
}

// ask checks a request and says what it shows. The answer is said by what envelope makes of Anthropic's voice.
func (q *anthropicRequest) ask(r *request, envelope func(*anthropicVoice) voice) (ask, error) {
	if q.MaxTokens < 1 {
		return ask{}, refused("max_tokens: field required, and at least 1")
	}
	if err := q.check(); err != nil {
		return ask{}, err
	}
	return ask{seen: q.seen(), stream: q.Stream, voice: func(t script.Turn, s *stage) voice {
		stop := ""
		if len(q.StopSequences) > 0 {
			stop = q.StopSequences[0]
		}
		return envelope(&anthropicVoice{turn: t, stage: s, id: r.id("msg_"), stop: stop, event: s.event})
	}}, nil
}

// tokens is a guess at how many tokens a request has.
func (r *request) tokens() int { return len(r.body)/4 + 1 }

func (q *anthropicRequest) seen() script.Seen {
	g := glance{Seen: script.Seen{System: q.System.text(), Model: q.Model}}
	for _, m := range q.Messages {
		switch m.Role {
		case "assistant":
			g.answer()
		case "user":
			g.message(m.Content.text(), m.Content.last())
		}
	}
	return g.Seen
}

// last returns the last text or tool result.
func (c anthropicContent) last() string {
	for i := len(c) - 1; i >= 0; i-- {
		switch c[i].Type {
		case "text":
			return c[i].Text
		case "tool_result":
			return c[i].Content.text()
		}
	}
	return ""
}

var toolName = pattern.Lazy(`^[a-zA-Z0-9_-]{1,128}$`)

// check says what Anthropic would refuse.
func (q *anthropicRequest) check() error {
	if len(q.Messages) == 0 {
		return refused("messages: at least one message is required")
	}
	names := map[string]bool{}
	for i, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			continue
		}
		switch {
		case !toolName().MatchString(t.Name):
			return refused("tools.%d.custom.name: %q is not made of letters, digits, _ and -", i, t.Name)
		case names[t.Name]:
			return refused("tools: names must be unique: %s", t.Name)
		case t.InputSchema.Type != "object":
			return refused("tools.%d.custom.input_schema.type: must be object", i)
		}
		names[t.Name] = true
	}
	if q.Thinking.Type == "enabled" {
		if q.Thinking.Budget < 1024 {
			return refused("thinking.enabled.budget_tokens: must be at least 1024")
		}
		if q.MaxTokens > 0 && q.Thinking.Budget >= q.MaxTokens {
			return refused("max_tokens must be greater than thinking.budget_tokens")
		}
	}
	if n := q.breakpoints(); n > 4 {
		return refused("at most 4 blocks may have cache_control: there are %d", n)
	}
	return checkAnthropicHistory(q.Messages)
}

// breakpoints counts what is to be cached.
func (q *anthropicRequest) breakpoints() (n int) {
	for _, t := range q.Tools {
		if t.CacheControl != nil {
			n++
		}
	}
	var count func(c anthropicContent)
	count = func(c anthropicContent) {
		for _, b := range c {
			if b.CacheControl != nil {
				n++
			}
			count(b.Content)
		}
	}
	count(q.System)
	for _, m := range q.Messages {
		count(m.Content)
	}
	return n
}

// seal is the signature of a thought. It follows from the thought, so a thought that was changed is found out, and one that
// was given by another server is still good.
func seal(thought string) string {
	sum := sha256.Sum256([]byte("sluice thought: " + thought))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (anthropic) refuse(r refusal) (http.Header, []byte) {
	word := r.kind
	if word == "" {
		word = kindOf(r.status).anthropic
	}
	return nil, encode(anthropicError(word, r.message))
}

func anthropicError(kind, message string) any {
	type body struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return struct {
		Type  string `json:"type"`
		Error body   `json:"error"`
	}{"error", body{kind, message}}
}
