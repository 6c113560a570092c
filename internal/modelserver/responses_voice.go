package modelserver

import (
	"fmt"

	"github.com/sluice-dev/sluice/internal/script"
)

// responsesVoice says an answer as OpenAI's Responses do: every event has its number, and every item ends with itself.
type responsesVoice struct {
	turn     script.Turn
	stage    *stage
	id       string
	number   int64 // of the request
	created  int64
	previous string
	sealed   bool // thoughts are to come with their seal
	events   int
	items    []any // those that are complete
}

type responsesAnswer struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	CreatedAt  int64             `json:"created_at"`
	Status     string            `json:"status"`
	Error      *responsesFailure `json:"error"`
	Incomplete *responsesGap     `json:"incomplete_details"`
	Model      string            `json:"model"`
	Output     []any             `json:"output"`
	Parallel   bool              `json:"parallel_tool_calls"`
	Previous   *string           `json:"previous_response_id"`
	ToolChoice string            `json:"tool_choice"`
	Tools      []any             `json:"tools"`
	Metadata   struct{}          `json:"metadata"`
	Usage      *responsesUsage   `json:"usage"`
}

type responsesFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responsesGap struct {
	Reason string `json:"reason"`
}

type responsesUsage struct {
	Input   int64 `json:"input_tokens"` // with what the cache served or took
	InputOf struct {
		Cached int64 `json:"cached_tokens"`
		Write  int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output   int64 `json:"output_tokens"` // with reasoning
	OutputOf struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

type (
	responsesMessage struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}
	responsesText struct {
		Type        string `json:"type"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
		Text        string `json:"text"`
	}
	responsesRefusal struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
	responsesThought struct {
		ID        string  `json:"id"`
		Type      string  `json:"type"`
		Summary   []any   `json:"summary"`
		Encrypted *string `json:"encrypted_content,omitempty"`
	}
	responsesSummary struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	responsesCall struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		Arguments string `json:"arguments"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
	}
)

// A responsesEvent has of these fields those that its type has.
type responsesEvent struct {
	Type         string           `json:"type"`
	Number       int              `json:"sequence_number"`
	Response     *responsesAnswer `json:"response,omitempty"`
	OutputIndex  *int             `json:"output_index,omitempty"`
	ItemID       string           `json:"item_id,omitempty"`
	ContentIndex *int             `json:"content_index,omitempty"`
	SummaryIndex *int             `json:"summary_index,omitempty"`
	Item         any              `json:"item,omitempty"`
	Part         any              `json:"part,omitempty"`
	Delta        *string          `json:"delta,omitempty"`
	Text         *string          `json:"text,omitempty"`
	Refusal      *string          `json:"refusal,omitempty"`
	Arguments    *string          `json:"arguments,omitempty"`
	Logprobs     *[]any           `json:"logprobs,omitempty"`
	Code         *string          `json:"code,omitempty"`
	Message      *string          `json:"message,omitempty"`
}

func (v *responsesVoice) mime() string { return "text/event-stream; charset=utf-8" }

func (v *responsesVoice) send(typ string, e responsesEvent) {
	e.Type, e.Number = typ, v.events
	v.events++
	v.stage.event(typ, encode(e))
}

// sendItem sends an event about an item.
func (v *responsesVoice) sendItem(typ string, block int, e responsesEvent) {
	e.OutputIndex = &block
	v.send(typ, e)
}

// sendPart sends an event about the one part of an item.
func (v *responsesVoice) sendPart(typ string, block int, p script.Part, e responsesEvent) {
	e.ItemID = v.itemID(block, p)
	switch p.Kind {
	case script.Text:
		e.ContentIndex = pointer(0)
	case script.Thinking:
		e.SummaryIndex = pointer(0)
	}
	v.sendItem(typ, block, e)
}

func (v *responsesVoice) itemID(block int, p script.Part) string {
	prefix := map[script.Kind]string{script.Text: "msg", script.Thinking: "rs", script.ToolCall: "fc"}[p.Kind]
	return fmt.Sprintf("%s_%06d_%d", prefix, v.number, block)
}

func (v *responsesVoice) answer(status string) *responsesAnswer {
	a := &responsesAnswer{
		ID: v.id, Object: "response", CreatedAt: v.created, Status: status, Model: v.turn.Model, Output: []any{}, Parallel: true,
		ToolChoice: "auto", Tools: []any{},
	}
	if v.previous != "" {
		a.Previous = &v.previous
	}
	return a
}

// final is the answer at its end.
func (v *responsesVoice) final() *responsesAnswer {
	a := v.answer("completed")
	a.Output = append(a.Output, v.items...)
	switch {
	case v.turn.Finish == "length":
		a.Status, a.Incomplete = "incomplete", &responsesGap{"max_output_tokens"}
	case v.turn.Finish == "refusal" && !speaks(v.turn):
		a.Status, a.Incomplete = "incomplete", &responsesGap{"content_filter"}
	}
	if u := v.turn.Usage; u != nil {
		a.Usage = &responsesUsage{Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output + u.Reasoning}
		a.Usage.Total = a.Usage.Input + a.Usage.Output
		a.Usage.InputOf.Cached, a.Usage.InputOf.Write = u.CacheRead, u.CacheWrite
		a.Usage.OutputOf.Reasoning = u.Reasoning
	}
	return a
}

// item is a block as an item: as it begins, or whole.
func (v *responsesVoice) item(block int, p script.Part, status string) any {
	id, whole := v.itemID(block, p), status == "completed"
	switch p.Kind {
	case script.Text:
		m := responsesMessage{ID: id, Type: "message", Status: status, Role: "assistant", Content: []any{}}
		if whole {
			m.Content = []any{v.part(p, p.Text)}
		}
		return m
	case script.Thinking:
		t := responsesThought{ID: id, Type: "reasoning", Summary: []any{}}
		if whole {
			t.Summary = []any{v.part(p, p.Text)}
			if v.sealed {
				t.Encrypted = pointer(seal(p.Text))
			}
		}
		return t
	}
	c := responsesCall{ID: id, Type: "function_call", Status: status, CallID: p.ID, Name: p.Tool}
	if whole {
		c.Arguments = p.Text
	}
	return c
}

// part is what an item holds.
func (v *responsesVoice) part(p script.Part, text string) any {
	switch {
	case p.Kind == script.Thinking:
		return responsesSummary{"summary_text", text}
	case v.turn.Finish == "refusal":
		return responsesRefusal{"refusal", text}
	}
	return responsesText{"output_text", []any{}, []any{}, text}
}

func (v *responsesVoice) begin() {
	v.send("response.created", responsesEvent{Response: v.answer("in_progress")})
	v.send("response.in_progress", responsesEvent{Response: v.answer("in_progress")})
}

func (v *responsesVoice) open(block int, p script.Part) {
	v.sendItem("response.output_item.added", block, responsesEvent{Item: v.item(block, p, "in_progress")})
	switch p.Kind {
	case script.Text:
		v.sendPart("response.content_part.added", block, p, responsesEvent{Part: v.part(p, "")})
	case script.Thinking:
		v.sendPart("response.reasoning_summary_part.added", block, p, responsesEvent{Part: v.part(p, "")})
	}
}

func (v *responsesVoice) delta(block int, p script.Part, text string) {
	e := responsesEvent{Delta: &text}
	switch {
	case p.Kind == script.ToolCall:
		v.sendPart("response.function_call_arguments.delta", block, p, e)
	case p.Kind == script.Thinking:
		v.sendPart("response.reasoning_summary_text.delta", block, p, e)
	case v.turn.Finish == "refusal":
		v.sendPart("response.refusal.delta", block, p, e)
	default:
		e.Logprobs = &[]any{}
		v.sendPart("response.output_text.delta", block, p, e)
	}
}

func (v *responsesVoice) shut(block int, p script.Part) {
	switch {
	case p.Kind == script.ToolCall:
		v.sendPart("response.function_call_arguments.done", block, p, responsesEvent{Arguments: &p.Text})
	case p.Kind == script.Thinking:
		v.sendPart("response.reasoning_summary_text.done", block, p, responsesEvent{Text: &p.Text})
		v.sendPart("response.reasoning_summary_part.done", block, p, responsesEvent{Part: v.part(p, p.Text)})
	case v.turn.Finish == "refusal":
		v.sendPart("response.refusal.done", block, p, responsesEvent{Refusal: &p.Text})
		v.sendPart("response.content_part.done", block, p, responsesEvent{Part: v.part(p, p.Text)})
	default:
		v.sendPart("response.output_text.done", block, p, responsesEvent{Text: &p.Text, Logprobs: &[]any{}})
		v.sendPart("response.content_part.done", block, p, responsesEvent{Part: v.part(p, p.Text)})
	}
	item := v.item(block, p, "completed")
	v.items = append(v.items, item)
	v.sendItem("response.output_item.done", block, responsesEvent{Item: item})
}

func (v *responsesVoice) end() {}

func (v *responsesVoice) last() {
	a := v.final()
	v.send("response."+a.Status, responsesEvent{Response: a})
}

func (v *responsesVoice) fail(kind, message string) {
	v.send("error", responsesEvent{Code: &kind, Message: &message})
	a := v.answer("failed")
	a.Error = &responsesFailure{kind, message}
	v.send("response.failed", responsesEvent{Response: a})
}

func (v *responsesVoice) garble() { v.stage.write([]byte(garbage)) }

func (v *responsesVoice) wrong() {
	v.stage.event("response.output_text.delta", []byte(`{"type":"response.output_text.delta","sequence_number":`))
}

func (v *responsesVoice) whole() []byte {
	for i, p := range v.turn.Parts {
		v.items = append(v.items, v.item(i, p, "completed"))
	}
	return encode(v.final())
}
