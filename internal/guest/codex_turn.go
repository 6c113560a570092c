package guest

import (
	"encoding/json"
	"fmt"
	"strconv"
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
	c.turning[h.Agent], c.working[h.Agent] = false, false
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
	if word == "other" {
		word = "" // which says nothing
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

// said is the message: a server's own, where codex passes on all that the server sent; and its details, where they are not in it.
func (e codexError) said() string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if strings.HasPrefix(e.Message, "{") && json.Unmarshal([]byte(e.Message), &body) == nil && body.Error.Message != "" {
		return body.Error.Message
	}
	if e.Details != "" && !strings.Contains(e.Message, e.Details) {
		return e.Message + " (" + e.Details + ")"
	}
	return e.Message
}

// stopped is our word for why a turn ended that failed.
func (e *codexError) stopped() string {
	if e != nil {
		if _, why, ok := strings.Cut(e.Message, "Incomplete response returned, reason: "); ok {
			switch why {
			case "max_output_tokens":
				return "max_tokens"
			case "content_filter":
				return "refusal"
			}
		}
	}
	return "error"
}

// troubled takes an error: one that is tried again, or one that the turn ends of.
func (c *codex) troubled(n codexNote, h event.Header) {
	e := *n.Error
	if n.Retry {
		c.retries++
		c.trouble = e
		_, status, class, _ := e.reading()
		b := event.Retry{Attempt: c.retries, Class: class, Status: status, Message: e.said()}
		var at, limit int
		if _, err := fmt.Sscanf(e.Message, "Reconnecting... %d/%d", &at, &limit); err == nil && at > 0 {
			b.Attempt, b.Limit = at, limit
		}
		c.tell(event.Event{Header: h, Body: b})
		return
	}
	word, status, class, passes := e.reading()
	if class == "" && c.retries > 0 { // when it gives up, it no longer says what it was
		word, status, class, passes = c.trouble.reading()
	}
	if status > 0 {
		word = strconv.Itoa(status)
	}
	if h.Agent == "" && c.now.told != e.said() {
		c.tell(event.Event{Header: h, Body: event.Error{Message: e.said(), Code: word, Class: class, Retryable: passes}})
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
		end.Stop = t.Error.stopped()
		if t.Error != nil {
			c.troubled(codexNote{Error: t.Error}, event.Header{})
		}
		c.tell(event.Event{Body: event.ReplyFailed(end)})
	}
}
