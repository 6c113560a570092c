package modelserver

import "github.com/sluice-dev/sluice/internal/script"

// geminiVoice says an answer as Gemini does: each event is an answer of its own with a piece of the text, and a call comes
// whole. A stream is server-sent events, or an array that is written bit by bit.
type geminiVoice struct {
	turn   script.Turn
	stage  *stage
	id     string
	events bool
	begun  bool // the array has an element
	signed bool // a call has the signature
}

type geminiAnswer struct {
	Candidates []geminiCandidate `json:"candidates"`
	Usage      *geminiUsage      `json:"usageMetadata,omitempty"`
	Model      string            `json:"modelVersion"`
	ID         string            `json:"responseId"`
}

type geminiCandidate struct {
	Content geminiContent `json:"content"`
	Finish  string        `json:"finishReason,omitempty"`
	Index   int           `json:"index"`
}

type geminiUsage struct {
	Prompt    int64 `json:"promptTokenCount"` // with what the cache served
	Cached    int64 `json:"cachedContentTokenCount,omitempty"`
	Candidate int64 `json:"candidatesTokenCount"`
	Thoughts  int64 `json:"thoughtsTokenCount,omitempty"`
	Total     int64 `json:"totalTokenCount"`
}

func (v *geminiVoice) mime() string {
	if v.events {
		return "text/event-stream"
	}
	return "application/json; charset=UTF-8"
}

func (v *geminiVoice) usage() *geminiUsage {
	u := v.turn.Usage
	if u == nil {
		return nil
	}
	w := &geminiUsage{Prompt: u.Input + u.CacheRead + u.CacheWrite, Cached: u.CacheRead, Candidate: u.Output, Thoughts: u.Reasoning}
	w.Total = w.Prompt + w.Candidate + w.Thoughts
	return w
}

func (v *geminiVoice) finish() string {
	return map[string]string{
		"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY", "stop_sequence": "STOP",
	}[v.turn.Finish]
}

func (v *geminiVoice) answer(finish string, parts ...geminiPart) geminiAnswer {
	return geminiAnswer{Candidates: []geminiCandidate{{Content: geminiContent{Role: "model", Parts: parts}, Finish: finish}}, Model: v.turn.Model, ID: v.id}
}

// send sends one element of the stream.
func (v *geminiVoice) send(data []byte) {
	if v.events {
		v.stage.event("", data)
		return
	}
	lead := "["
	if v.begun {
		lead = ",\r\n"
	}
	v.begun = true
	v.stage.write(append([]byte(lead), data...))
}

// part is a block, or a piece of one.
func (v *geminiVoice) part(p script.Part, text string) geminiPart {
	switch p.Kind {
	case script.Text:
		return geminiPart{Text: &text}
	case script.Thinking:
		return geminiPart{Text: &text, Thought: true}
	}
	c := &geminiCall{ID: p.ID, Name: p.Tool, Args: document(p.Text)}
	part := geminiPart{Call: c}
	if !v.signed {
		part.Signature, v.signed = geminiSeal(c), true
	}
	return part
}

func (v *geminiVoice) begin()                {}
func (v *geminiVoice) open(int, script.Part) {}

func (v *geminiVoice) delta(_ int, p script.Part, text string) {
	if p.Kind != script.ToolCall {
		v.send(encode(v.answer("", v.part(p, text))))
	}
}

func (v *geminiVoice) shut(_ int, p script.Part) {
	if p.Kind == script.ToolCall {
		v.send(encode(v.answer("", v.part(p, p.Text))))
	}
}

func (v *geminiVoice) end() {}

func (v *geminiVoice) last() {
	a := v.answer(v.finish(), geminiPart{Text: pointer("")})
	a.Usage = v.usage()
	v.send(encode(a))
	v.close()
}

// close ends the array.
func (v *geminiVoice) close() {
	if !v.events {
		v.stage.write([]byte("]"))
	}
}

func (v *geminiVoice) fail(kind, message string) {
	k := kindNamed(kind)
	v.send(encode(googleError(refusal{status: k.status, kind: k.google, message: message})))
	v.close()
}

func (v *geminiVoice) garble() { v.stage.write([]byte(garbage)) }
func (v *geminiVoice) wrong()  { v.send([]byte(`{"candidates":[{"content":{"parts":[{"te`)) }

func (v *geminiVoice) whole() []byte {
	var parts []geminiPart
	for _, p := range v.turn.Parts {
		parts = append(parts, v.part(p, p.Text))
	}
	a := v.answer(v.finish(), parts...)
	a.Usage = v.usage()
	return encode(a)
}
