package modelserver

import (
	"slices"

	"github.com/sluice-dev/sluice/internal/script"
)

// chatVoice says an answer as OpenAI's Chat Completions do.
type chatVoice struct {
	turn    script.Turn
	stage   *stage
	id      string
	created int64
	counted bool // the client asked for usage
	calls   int  // so far
}

type chatCall struct {
	Index    *int         `json:"index,omitempty"` // in a stream
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      *chatWhole `json:"message,omitempty"`
	Delta        *chatSaid  `json:"delta,omitempty"`
	Logprobs     *struct{}  `json:"logprobs"`
	FinishReason *string    `json:"finish_reason"`
}

// A chatWhole says null where a delta says nothing.
type chatWhole struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatSaid struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Refusal   *string    `json:"refusal,omitempty"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`     // with what the cache served or took
	Completion int64 `json:"completion_tokens"` // with reasoning
	Total      int64 `json:"total_tokens"`
	PromptOf   struct {
		Cached int64 `json:"cached_tokens"`
		Write  int64 `json:"cache_write_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (v *chatVoice) mime() string { return "text/event-stream; charset=utf-8" }

func (v *chatVoice) usage() *chatUsage {
	u := v.turn.Usage
	if u == nil {
		return nil
	}
	w := &chatUsage{Prompt: u.Input + u.CacheRead + u.CacheWrite, Completion: u.Output + u.Reasoning}
	w.Total = w.Prompt + w.Completion
	w.PromptOf.Cached, w.PromptOf.Write = u.CacheRead, u.CacheWrite
	w.CompletionOf.Reasoning = u.Reasoning
	return w
}

// finish returns the reason for the end. A refusal that has words is told by them, one that has none by its reason.
func (v *chatVoice) finish() *string {
	word := map[string]string{
		"stop": "stop", "tool_calls": "tool_calls", "length": "length", "refusal": "content_filter", "stop_sequence": "stop",
	}[v.turn.Finish]
	if v.turn.Finish == "refusal" && speaks(v.turn) {
		word = "stop"
	}
	return &word
}

// speaks says whether there is any text in an answer.
func speaks(t script.Turn) bool {
	return slices.ContainsFunc(t.Parts, func(p script.Part) bool { return p.Kind == script.Text })
}

func (v *chatVoice) chunk(choices []chatChoice, u *chatUsage) {
	v.stage.event("", encode(chatAnswer{v.id, "chat.completion.chunk", v.created, v.turn.Model, choices, u}))
}

func (v *chatVoice) say(s chatSaid) { v.chunk([]chatChoice{{Delta: &s}}, nil) }

func (v *chatVoice) begin() { v.say(chatSaid{Role: "assistant", Content: pointer("")}) }

func (v *chatVoice) open(block int, p script.Part) {
	if p.Kind == script.ToolCall {
		v.say(chatSaid{ToolCalls: []chatCall{{Index: pointer(v.calls), ID: p.ID, Type: "function", Function: chatFunction{Name: p.Tool}}}})
	}
}

func (v *chatVoice) delta(block int, p script.Part, text string) {
	switch {
	case p.Kind == script.Text && v.turn.Finish == "refusal":
		v.say(chatSaid{Refusal: &text})
	case p.Kind == script.Text:
		v.say(chatSaid{Content: &text})
	case p.Kind == script.Thinking:
		v.say(chatSaid{Reasoning: &text})
	default:
		v.say(chatSaid{ToolCalls: []chatCall{{Index: pointer(v.calls), Function: chatFunction{Arguments: text}}}})
	}
}

func (v *chatVoice) shut(block int, p script.Part) {
	if p.Kind == script.ToolCall {
		v.calls++
	}
}

func (v *chatVoice) end() {
	v.chunk([]chatChoice{{Delta: &chatSaid{}, FinishReason: v.finish()}}, nil)
	if u := v.usage(); u != nil && v.counted {
		v.chunk([]chatChoice{}, u)
	}
}

func (v *chatVoice) last() { v.stage.event("", []byte("[DONE]")) }

func (v *chatVoice) fail(kind, message string) {
	v.stage.event("", openAIRefusal(refusal{kind: kind, message: message}))
}

func (v *chatVoice) garble() { v.stage.write([]byte(garbage)) }

func (v *chatVoice) wrong() {
	v.stage.event("", []byte(`{"id":"`+v.id+`","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"con`))
}

func (v *chatVoice) whole() []byte {
	said := &chatWhole{Role: "assistant"}
	var text, thoughts string
	for _, p := range v.turn.Parts {
		switch p.Kind {
		case script.Text:
			text += p.Text
		case script.Thinking:
			thoughts += p.Text
			said.Reasoning = &thoughts
		default:
			said.ToolCalls = append(said.ToolCalls, chatCall{ID: p.ID, Type: "function", Function: chatFunction{p.Tool, p.Text}})
		}
	}
	switch {
	case text == "":
	case v.turn.Finish == "refusal":
		said.Refusal = &text
	default:
		said.Content = &text
	}
	return encode(chatAnswer{v.id, "chat.completion", v.created, v.turn.Model, []chatChoice{{Message: said, FinishReason: v.finish()}}, v.usage()})
}
