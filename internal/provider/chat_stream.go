package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file reads what the Chat Completions API answers. Everybody speaks it a little differently, so it takes what it can
// get: a field of the wrong type is passed over, and only what is no JSON is an error.

// A chatChunk is a piece of an answer, or a whole one. Fields that we do not read are not here.
type chatChunk struct {
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage"`
	Groq    struct {
		Usage *chatUsage `json:"usage"`
	} `json:"x_groq"`
	Error wire.Span `json:"error"`
}

type chatChoice struct {
	Index   int        `json:"index"`
	Delta   chatSaid   `json:"delta"`
	Message *chatSaid  `json:"message"` // of a whole answer
	Finish  string     `json:"finish_reason"`
	Usage   *chatUsage `json:"usage"`
}

type chatSaid struct {
	Content          wire.Span      `json:"content"` // text, or a list of parts
	ReasoningContent string         `json:"reasoning_content"`
	Reasoning        string         `json:"reasoning"`
	Refusal          string         `json:"refusal"`
	Calls            []chatCallPart `json:"tool_calls"`
	Function         *chatFunction  `json:"function_call"` // the old way
}

type chatCallPart struct {
	Index    *int         `json:"index"`
	ID       string       `json:"id"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string    `json:"name"`
	Arguments wire.Span `json:"arguments"` // text, from some an object
}

type chatUsage struct {
	Prompt     *int64 `json:"prompt_tokens"`     // with what the cache served and took
	Completion *int64 `json:"completion_tokens"` // with reasoning, or without
	Total      *int64 `json:"total_tokens"`
	PromptOf   struct {
		Cached *int64 `json:"cached_tokens"`
		Write  *int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Hit    *int64 `json:"prompt_cache_hit_tokens"` // DeepSeek's word
	Cached *int64 `json:"cached_tokens"`           // Moonshot's
}

// A chatReader makes an answer of the stream's pieces.
type chatReader struct {
	answer
	turn    event.TurnEnded
	said    string // why it finished
	refused bool
	usage   *chatUsage
	inner   thinkTag
	calls   []*chatCall
	taken   map[string]bool // ids of calls that were made
	chunk   chatChunk
}

// A chatCall is a call that comes in pieces.
type chatCall struct {
	index     int // -1: the server does not say
	id, name  string
	arguments strings.Builder
}

// read takes one piece.
func (c *chatReader) read(data []byte) error {
	c.chunk = chatChunk{}
	err := wire.Unmarshal(data, &c.chunk)
	if _, ok := errors.AsType[*wire.TypeError](err); err != nil && !ok {
		return nonsense(err)
	}
	if e := c.chunk.Error; len(e) > 0 && string(e) != "null" {
		return chatError(data)
	}
	if c.chunk.Model != "" {
		c.turn.Model = c.chunk.Model
	}
	c.count(c.chunk.Usage)
	c.count(c.chunk.Groq.Usage)
	for i := range c.chunk.Choices {
		choice := &c.chunk.Choices[i]
		if choice.Index != 0 { // nobody asked for a second answer
			continue
		}
		if choice.Message != nil {
			c.say(choice.Message)
		}
		c.say(&choice.Delta)
		if choice.Finish != "" {
			c.said = choice.Finish
		}
		c.count(choice.Usage)
	}
	return nil
}

// whole takes an answer that comes all at once.
func (c *chatReader) whole(data []byte) error {
	if err := c.read(data); err != nil {
		return err
	}
	if len(c.chunk.Choices) == 0 {
		return nonsense(errors.New("there are no choices in it"))
	}
	return c.finish()
}

// count takes what is known of the tokens. Who tells it with every piece means it to grow: the last counts.
func (c *chatReader) count(u *chatUsage) {
	if u != nil && u.Prompt != nil {
		c.usage = u
	}
}

func (c *chatReader) say(s *chatSaid) {
	thought := s.ReasoningContent
	if thought == "" { // those who have both say the same in both
		thought = s.Reasoning
	}
	c.thought(thought)
	c.content(s.Content)
	if s.Refusal != "" {
		c.refused = true
		c.flush()
		c.text(s.Refusal)
	}
	for _, p := range s.Calls {
		c.piece(p)
	}
	if s.Function != nil {
		c.piece(chatCallPart{Index: new(0), Function: *s.Function})
	}
}

// content takes text; thoughts may stand in it, in a tag or as parts of their own.
func (c *chatReader) content(span wire.Span) {
	if len(span) == 0 || span[0] != '[' {
		c.tagged(span.Text())
		return
	}
	var d wire.Doc
	_ = d.Parse(span) // it was read before
	for _, part := range d.Root().All() {
		switch {
		case part.Get("type").Is("thinking"):
			for _, t := range part.Get("thinking").All() {
				c.thought(t.Get("text").Text())
			}
		default:
			c.tagged(part.Get("text").Text())
		}
	}
}

func (c *chatReader) tagged(text string) {
	thought, text := c.inner.take(text)
	c.thought(thought)
	c.text(text)
}

// flush says what was held back because it might have been a tag.
func (c *chatReader) flush() {
	thought, text := c.inner.rest()
	c.thought(thought)
	c.text(text)
}

// piece adds to the call that a piece belongs to. Pieces say so by index; where they do not, or where it is always the
// same, an id or a name that is new begins another call.
func (c *chatReader) piece(p chatCallPart) {
	call := c.belongs(p)
	if call == nil {
		call = &chatCall{index: -1}
		if p.Index != nil {
			call.index = *p.Index
		}
		c.calls = append(c.calls, call)
	}
	if call.id == "" {
		call.id = p.ID
	}
	if p.Function.Name != call.name { // some say it again with every piece
		call.name += p.Function.Name
	}
	call.arguments.WriteString(p.Function.Arguments.Text())
}

func (c *chatReader) belongs(p chatCallPart) *chatCall {
	for _, call := range slices.Backward(c.calls) {
		switch {
		case p.Index != nil && call.index >= 0 && *p.Index != call.index:
			continue
		case p.ID != "" && call.id != "" && p.ID != call.id:
			return nil
		case p.Index == nil && p.ID == "" && p.Function.Name != "" && wire.Valid([]byte(call.arguments.String())):
			return nil // the one before is complete
		}
		return call
	}
	return nil
}

// finish tells the calls and ends the answer.
func (c *chatReader) finish() error {
	c.flush()
	f, err := chatFinish(c.said, len(c.calls))
	if err != nil {
		return err
	}
	if c.refused {
		f = event.FinishRefusal
	}
	c.turn.Finish = f
	if c.said != string(f) {
		c.turn.Said = c.said
	}
	for _, call := range c.calls {
		if call.id == "" || c.taken[call.id] {
			call.id = callID()
		}
		c.taken[call.id] = true
		c.call(call.id, call.name, call.arguments.String())
	}
	c.turn.Usage = c.usage.tokens()
	c.end(c.turn)
	return nil
}

// chatFinish is why the model stopped. Who does not say it, or says it wrongly, is taken by what was said: calls are to be
// run, and an end without calls is one.
func chatFinish(said string, calls int) (event.Finish, error) {
	switch said {
	case "length", "max_tokens", "model_length":
		return event.FinishLength, nil
	case "content_filter", "refusal", "safety", "SAFETY":
		return event.FinishRefusal, nil
	case "insufficient_system_resource": // DeepSeek
		return "", &Error{Class: Overloaded, Code: said, Message: "the server was too busy to finish the answer"}
	case "error":
		return "", &Error{Class: Server, Code: said, Message: "the server ended the answer with an error"}
	case "", "stop", "eos", "end_turn", "tool_calls", "tool_use", "function_call":
		if calls > 0 {
			return event.FinishToolCalls, nil
		}
		return event.FinishStop, nil
	}
	return event.FinishOther, nil
}

// tokens puts each token into one bucket.
func (u *chatUsage) tokens() (t event.Usage) {
	if u == nil {
		return t
	}
	t.CacheRead = u.PromptOf.Cached
	for _, other := range []*int64{u.Hit, u.Cached} {
		if t.CacheRead == nil {
			t.CacheRead = other
		}
	}
	t.CacheWrite = u.PromptOf.Write
	t.Input = less(u.Prompt, t.CacheRead, t.CacheWrite)
	t.Reasoning = u.CompletionOf.Reasoning
	t.Output = less(u.Completion, t.Reasoning)
	if all := u.Total; all != nil && u.Completion != nil && t.Reasoning != nil && *all == *u.Prompt+*u.Completion+*t.Reasoning {
		t.Output = u.Completion // its reasoning was never in it
	}
	return t
}

// less is what is left of n without the parts; unknown parts are none.
func less(n *int64, parts ...*int64) *int64 {
	if n == nil {
		return nil
	}
	left := *n
	for _, p := range parts {
		if p != nil {
			left -= *p
		}
	}
	return new(max(left, 0))
}

// chatError is an error within the stream. Its code may be the status that it would have had.
func chatError(data []byte) error {
	code, message := errorBody(data)
	var d wire.Doc
	_ = d.Parse(data) // it was read before
	if status, ok := d.Root().Get("error").Get("code").Int(); ok && status >= 400 && status < 600 {
		e := statusError(int(status), nil, data, nil)
		e.Message = first(message, fmt.Sprintf("the server ended the answer with status %d", status))
		return e
	}
	return streamError(code, message)
}
