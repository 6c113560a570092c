// Package provider asks a model for answers. A model is one more foreign stream: each file turns what one kind of server sends
// into events, and a history of events into what it wants to be sent. There is no message type in between.
//
//	history (events) ──▶ request ──▶ server ──SSE──▶ TextDelta, Text, Thought, ToolCalled, TurnEnded
//
// A provider's file holds the shapes of its wire format and nothing else knows them. Where a vendor's own client is light it
// carries the request, so that keys and signatures are its to handle; OpenAI's would double what a run costs to start, and
// what is needed of it is a few headers. No client retries: [Retrying] does, and tells.
package provider

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// A Model gives answers.
type Model interface {
	// Answer asks for one. It yields what comes, as it comes: TextDelta and ThoughtDelta, the whole Text or Thought when
	// the block is complete, ToolCalled with the call's id in its header, and last one TurnEnded with finish and usage.
	// An error ends the answer; a block that was open then has been yielded before it, marked partial. It is an [*Error],
	// or the context's. Ids of blocks, times and the turn's number are not the provider's to give.
	Answer(ctx context.Context, r Request) iter.Seq2[event.Event, error]
}

// A Request is all that a model is told. What does not change between two requests of one conversation is sent in the
// same bytes, so that a prompt cache can hit.
type Request struct {
	System    string
	History   []event.Event // as fold.Transcript gives it: headers have only the call
	Tools     []Tool
	MaxTokens int    // of the answer; 0: the provider's usual
	Thinking  string // off or empty, low, medium, high
}

// A Tool is a tool as a model sees it.
type Tool struct {
	Name        string
	Description string
	Schema      event.Raw // JSON Schema of the arguments: an object
}

// An Error is why a model gave no answer.
type Error struct {
	Class   string        // one of the classes below
	Status  int           // of HTTP; 0 if it never came to that
	Code    string        // the server's own word: overloaded_error, invalid_api_key …
	Message string        // one line for a person, with nothing secret in it
	After   time.Duration // the server asked to wait so long; 0: it did not say
	Final   bool          // the server said that trying again is no use
	Err     error         // the cause, if it is not the server's word
}

// Classes of errors: the words that events have for them, and one of our own.
const (
	NoKey      = "no_key"     // nothing was sent: no key, no credentials, no region
	Auth       = "auth"       // 401, 403
	Invalid    = "invalid"    // 400, 404, 413, 422: it will not be better next time
	Overflow   = "overflow"   // the history does not fit the model's window
	RateLimit  = "rate_limit" // 429
	Overloaded = "overload"   // 503, 529
	Server     = "provider"   // other 5xx, 408, 409, and an answer that makes no sense
	Connection = "connection" // refused, reset, no such host, TLS
	Cut        = "cut"        // the stream ended before its end
	Stalled    = "timeout"    // the stream went silent
)

func (e *Error) Error() string {
	switch {
	case e.Status != 0 && e.Message != "":
		return fmt.Sprintf("%s (%d)", e.Message, e.Status)
	case e.Message != "":
		return e.Message
	case e.Err != nil:
		return e.Err.Error()
	}
	return e.Class
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether the same request may succeed later.
func (e *Error) Retryable() bool {
	if e.Final {
		return false
	}
	switch e.Class {
	case RateLimit, Overloaded, Server, Connection, Cut, Stalled:
		return true
	}
	return false
}
