package modelserver

import (
	"encoding/json"

	"github.com/sluice-dev/sluice/internal/script"
)

// anthropicVoice says an answer as Anthropic does. Bedrock and Vertex say the same in other envelopes.
type anthropicVoice struct {
	turn  script.Turn
	stage *stage
	id    string
	stop  string // the stop sequence that is to have been met
	event func(name string, data []byte)
}

type anthropicUsage struct {
	Input      int64             `json:"input_tokens"`
	CacheWrite int64             `json:"cache_creation_input_tokens"`
	CacheRead  int64             `json:"cache_read_input_tokens"`
	Output     int64             `json:"output_tokens"` // with thinking
	Details    *anthropicDetails `json:"output_tokens_details,omitempty"`
}

type anthropicDetails struct {
	Thinking int64 `json:"thinking_tokens"`
}

type anthropicAnswer struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []any           `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        *anthropicUsage `json:"usage,omitempty"`
}

type (
	anthropicText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	anthropicThought struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	anthropicCall struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
)

func (v *anthropicVoice) mime() string { return "text/event-stream; charset=utf-8" }

func (v *anthropicVoice) send(name string, e any) { v.event(name, encode(e)) }

func (v *anthropicVoice) answer() anthropicAnswer {
	return anthropicAnswer{ID: v.id, Type: "message", Role: "assistant", Model: v.turn.Model, Content: []any{}, Usage: v.usage()}
}

func (v *anthropicVoice) usage() *anthropicUsage {
	u := v.turn.Usage
	if u == nil {
		return nil
	}
	w := &anthropicUsage{Input: u.Input, CacheWrite: u.CacheWrite, CacheRead: u.CacheRead, Output: u.Output + u.Reasoning}
	if u.Reasoning > 0 {
		w.Details = &anthropicDetails{u.Reasoning}
	}
	return w
}

// finish returns the reason for the end, and the stop sequence if that was it.
func (v *anthropicVoice) finish() (reason, sequence *string) {
	word := map[string]string{
		"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal", "stop_sequence": "stop_sequence",
	}[v.turn.Finish]
	if v.turn.Finish == "stop_sequence" {
		sequence = &v.stop
	}
	return &word, sequence
}

func (v *anthropicVoice) begin() {
	m := v.answer()
	if m.Usage != nil {
		// What comes here is a first word, not a sum: whoever adds it to the last one counts twice, and shall be found out.
		m.Usage.Output, m.Usage.Details = min(m.Usage.Output, 1), nil
	}
	v.send("message_start", struct {
		Type    string          `json:"type"`
		Message anthropicAnswer `json:"message"`
	}{"message_start", m})
	v.send("ping", struct {
		Type string `json:"type"`
	}{"ping"})
}

type anthropicStart struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
	Block any    `json:"content_block"`
}

func (v *anthropicVoice) open(block int, p script.Part) {
	e := anthropicStart{Type: "content_block_start", Index: block}
	switch p.Kind {
	case script.Text:
		e.Block = anthropicText{"text", ""}
	case script.Thinking:
		e.Block = anthropicThought{"thinking", "", ""}
	default:
		e.Block = anthropicCall{"tool_use", p.ID, p.Tool, json.RawMessage("{}")}
	}
	v.send(e.Type, e)
}

type anthropicDelta struct {
	Type  string              `json:"type"`
	Index int                 `json:"index"`
	Delta anthropicDeltaInner `json:"delta"`
}

type anthropicDeltaInner struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitempty"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"`
	JSON      *string `json:"partial_json,omitempty"`
}

func (v *anthropicVoice) piece(block int, d anthropicDeltaInner) {
	v.send("content_block_delta", anthropicDelta{"content_block_delta", block, d})
}

func (v *anthropicVoice) delta(block int, p script.Part, text string) {
	switch p.Kind {
	case script.Text:
		v.piece(block, anthropicDeltaInner{Type: "text_delta", Text: &text})
	case script.Thinking:
		v.piece(block, anthropicDeltaInner{Type: "thinking_delta", Thinking: &text})
	default:
		v.piece(block, anthropicDeltaInner{Type: "input_json_delta", JSON: &text})
	}
}

func (v *anthropicVoice) shut(block int, p script.Part) {
	if p.Kind == script.Thinking {
		s := seal(p.Text)
		v.piece(block, anthropicDeltaInner{Type: "signature_delta", Signature: &s})
	}
	v.send("content_block_stop", struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}{"content_block_stop", block})
}

func (v *anthropicVoice) end() {
	type delta struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	reason, sequence := v.finish()
	v.send("message_delta", struct {
		Type  string          `json:"type"`
		Delta delta           `json:"delta"`
		Usage *anthropicUsage `json:"usage,omitempty"`
	}{"message_delta", delta{reason, sequence}, v.usage()})
}

func (v *anthropicVoice) last() {
	v.send("message_stop", struct {
		Type string `json:"type"`
	}{"message_stop"})
}

func (v *anthropicVoice) fail(kind, message string) { v.send("error", anthropicError(kind, message)) }

func (v *anthropicVoice) garble() { v.stage.write([]byte(garbage)) }

func (v *anthropicVoice) wrong() {
	v.event("content_block_delta", []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_de`))
}

func (v *anthropicVoice) whole() []byte {
	m := v.answer()
	m.StopReason, m.StopSequence = v.finish()
	for _, p := range v.turn.Parts {
		switch p.Kind {
		case script.Text:
			m.Content = append(m.Content, anthropicText{"text", p.Text})
		case script.Thinking:
			m.Content = append(m.Content, anthropicThought{"thinking", p.Text, seal(p.Text)})
		default:
			m.Content = append(m.Content, anthropicCall{"tool_use", p.ID, p.Tool, document(p.Text)})
		}
	}
	return encode(m)
}

// document returns arguments as they can stand inside JSON: what is none becomes a string.
func document(arguments string) json.RawMessage {
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	return encode(arguments)
}
