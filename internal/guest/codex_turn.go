package guest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file reads what codex tells of its turns: what they cost, what went wrong, and how they end.

// A codexTurn is one of its turns, which is a reply of ours.
type codexTurn struct {
	ID     string      `json:"id"`
	Status string      `json:"status"`
	Error  *codexError `json:"error"`
}

// codexUsage are the tokens of one answer of the model. Input and output are all of them.
type codexUsage struct {
	Input      *int64 `json:"inputTokens"`
	Cached     *int64 `json:"cachedInputTokens"`
	CacheWrite *int64 `json:"cacheWriteInputTokens"`
	Output     *int64 `json:"outputTokens"`
	Reasoning  *int64 `json:"reasoningOutputTokens"`
}

// split counts each token once.
func (u codexUsage) split() event.Usage {
	return event.Usage{
		Input: without(u.Input, u.Cached, u.CacheWrite), Output: without(u.Output, u.Reasoning), Reasoning: u.Reasoning, CacheRead: u.Cached, CacheWrite: u.CacheWrite,
	}
}

// without is what is left of a sum; unknown if the sum is.
func without(sum *int64, parts ...*int64) *int64 {
	if sum == nil {
		return nil
	}
	left := *sum
	for _, p := range parts {
		if p != nil {
			left -= *p
		}
	}
	return new(max(left, 0))
}

// counted ends the turn whose tokens these are: they come when its calls are done.
func (c *codex) counted(n codexNote, h event.Header) {
	if n.Usage.Last == nil {
		return
	}
	u := n.Usage.Last.split()
	end := event.TurnEnded{Model: c.cfg.Model, Usage: u}
	if c.working[h.Agent] {
		end.Finish = event.FinishToolCalls
	}
	c.working[h.Agent] = false
	if in := n.Usage.Last.Input; in != nil && n.Usage.Window > 0 {
		end.Context = event.Context{Used: *in, Limit: n.Usage.Window}
	}
	sum := func(all **int64, one *int64) {
		if one != nil {
			if *all == nil {
				*all = new(int64)
			}
			**all += *one
		}
	}
	sum(&c.usage.Input, u.Input)
	sum(&c.usage.Output, u.Output)
	sum(&c.usage.Reasoning, u.Reasoning)
	sum(&c.usage.CacheRead, u.CacheRead)
	sum(&c.usage.CacheWrite, u.CacheWrite)
	c.tell(event.Event{Header: h, Body: end})
}

// codexError is what went wrong, in a word or in an object whose only name is the word.
type codexError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// reading says what an error is: its word, the server's status if it has one, our class, and whether it may pass.
func (e codexError) reading() (word string, status int, class string, passes *bool) {
	var object map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if json.Unmarshal(e.Info, &word) != nil && json.Unmarshal(e.Info, &object) == nil {
		for w, o := range object {
			word, status = w, o.Status
		}
	}
	switch {
	case word == "unauthorized" || status == 401 || status == 403:
		return word, status, "auth", new(false)
	case word == "rateLimitExceeded" || status == 429:
		return word, status, "rate_limit", new(true)
	case word == "usageLimitExceeded":
		return word, status, "rate_limit", nil
	case word == "serverOverloaded" || status == 503 || status == 529:
		return word, status, "overload", new(true)
	case status >= 500 || word == "internalServerError":
		return word, status, "provider", new(true)
	case status >= 400 || word == "badRequest" || word == "contextWindowExceeded" || word == "modelNotFound":
		return word, status, "provider", new(false)
	case strings.HasPrefix(word, "responseStream") || word == "httpConnectionFailed" || word == "responseTooManyFailedAttempts":
		return word, status, "connection", new(true)
	}
	return word, status, "", nil
}

// troubled takes an error: one that is tried again, or one that the turn ends of.
func (c *codex) troubled(n codexNote, h event.Header) {
	word, status, class, passes := n.Error.reading()
	if n.Retry {
		c.retries++
		b := event.Retry{Attempt: c.retries, Class: class, Status: status, Message: n.Error.Message}
		var at, limit int
		if _, err := fmt.Sscanf(n.Error.Message, "Reconnecting... %d/%d", &at, &limit); err == nil && at > 0 {
			b.Attempt, b.Limit = at, limit
		}
		c.tell(event.Event{Header: h, Body: b})
		return
	}
	if h.Agent == "" && c.now.told != n.Error.Message {
		c.tell(event.Event{Header: h, Body: event.Error{Message: n.Error.Message, Code: word, Class: class, Retryable: passes}})
	}
}

// over takes the end of a turn. Items that have none by then are closed with the reply.
func (c *codex) over(t codexTurn, agent string) {
	if agent != "" {
		b := event.AgentEnded{}
		if t.Error != nil {
			b.Error = t.Error.Message
		}
		c.tell(event.Event{Header: event.Header{Agent: agent}, Body: b})
		return
	}
	end := event.ReplyEnd{Stop: "end_turn", Usage: c.usage}
	switch t.Status {
	case "completed":
		c.tell(event.Event{Body: event.ReplyDone(end)})
	case "interrupted":
		end.Stop = "cancelled"
		c.tell(event.Event{Body: event.ReplyCancelled(end)})
	default: // failed, and what nobody knows
		end.Stop = "error"
		if t.Error != nil {
			c.troubled(codexNote{Error: t.Error}, event.Header{})
		}
		c.tell(event.Event{Body: event.ReplyFailed(end)})
	}
}
