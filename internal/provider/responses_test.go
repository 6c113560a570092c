package provider

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// events is a stream of them, each given as its type and the rest of its members.
func events(list ...string) string {
	var b strings.Builder
	for i := 0; i < len(list); i += 2 {
		rest := list[i+1]
		if rest != "" {
			rest = "," + rest
		}
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q%s}\n\n", list[i], list[i], rest)
	}
	return b.String()
}

func TestResponsesStream(t *testing.T) {
	type list = []any
	ended := func(f event.Finish, said string, u event.Usage) event.TurnEnded {
		return event.TurnEnded{Provider: "openai-responses", Model: "m", Finish: f, Said: said, Usage: u}
	}
	none := event.Usage{}
	const (
		completed = `"response":{"status":"completed","output":[]}`
		added     = `"output_index":0,"item":{"id":"i","type":"message","content":[]}`
		message   = `"item":{"id":"i","type":"message","content":[{"type":"output_text","text":"Hello"}]}`
	)
	hello := events("response.created", `"response":{"status":"in_progress","model":"m"}`, "response.output_item.added", added,
		"response.output_text.delta", `"delta":"Hel"`, "response.output_text.delta", `"delta":"lo"`)
	for name, tt := range map[string]struct {
		body string
		want list
	}{
		"plain": {hello + events("response.output_item.done", message, "response.completed", completed), list{event.Text{Text: "Hello"}, ended("stop", "", none)}},
		"two messages": {hello + events("response.output_item.done", message, "response.output_item.added", added, "response.output_text.delta", `"delta":"again"`, "response.completed", completed),
			list{event.Text{Text: "Hello"}, event.Text{Text: "again"}, ended("stop", "", none)}},
		"the server's name for the model": {events("response.created", `"response":{"model":"m-2"}`, "response.completed", completed),
			list{event.TurnEnded{Provider: "openai-responses", Model: "m-2", Finish: event.FinishStop}}},
		"a thought in parts": {
			events("response.output_item.added", `"item":{"type":"reasoning","id":"rs_1","summary":[]}`,
				"response.reasoning_summary_part.added", `"summary_index":0`, "response.reasoning_summary_text.delta", `"delta":"one"`,
				"response.reasoning_summary_part.added", `"summary_index":1`, "response.reasoning_summary_text.delta", `"delta":"two"`,
				"response.output_item.done", `"item":{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[{"text":"one"},{"text":"two"}]}`) + hello + events("response.completed", completed),
			list{event.Thought{Text: "one\n\ntwo", Signature: "openai-responses:rs_1:enc"}, event.Text{Text: "Hello"}, ended("stop", "", none)},
		},
		"a thought that is not shown": {events("response.output_item.added", `"item":{"type":"reasoning"}`, "response.output_item.done", `"item":{"type":"reasoning","id":"rs_1","encrypted_content":"enc","summary":[]}`, "response.completed", completed),
			list{event.Thought{Signature: "openai-responses:rs_1:enc"}, ended("stop", "", none)}},
		"a thought without a seal": {events("response.reasoning_text.delta", `"delta":"hm"`, "response.output_item.done", `"item":{"type":"reasoning","id":"rs_1"}`, "response.completed", completed),
			list{event.Thought{Text: "hm"}, ended("stop", "", none)}},
		"calls": {
			hello + events("response.output_item.done", message,
				"response.output_item.added", `"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":""}`,
				"response.function_call_arguments.delta", `"delta":"{\"a\":"`, "response.function_call_arguments.delta", `"delta":"1}"`,
				"response.output_item.done", `"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{\"a\":1}"}`,
				"response.output_item.done", `"item":{"type":"function_call","id":"fc_2","name":"bash","arguments":"{\"a"}`,
				"response.output_item.done", `"item":{"type":"function_call","id":"fc_3","call_id":"old","name":"bash"}`, "response.completed", completed),
			list{event.Text{Text: "Hello"}, `read({"a":1})#c1`, `bash("{\"a")#call_?`, `bash({})#call_?`, ended("tool_calls", "", none)},
		},
		"all at the end": {
			events("response.completed", `"response":{"status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[{"text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"},{"type":"web_search_call"}]}`),
			list{event.Thought{Text: "hm"}, event.Text{Text: "Hi"}, "read({})#c1", ended("tool_calls", "", none)},
		},
		"items without pieces": {events("response.output_item.done", message, "response.completed", `"response":{"status":"completed","output":[{"type":"message","content":[{"text":"Hello"}]}]}`),
			list{event.Text{Text: "Hello"}, ended("stop", "", none)}},
		"usage": {
			events("response.completed", `"response":{"status":"completed","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":80,"cache_write_tokens":5},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":30},"total_tokens":150}}`),
			list{ended("stop", "", event.Usage{Input: new(int64(15)), Output: new(int64(20)), Reasoning: new(int64(30)), CacheRead: new(int64(80)), CacheWrite: new(int64(5))})},
		},
		"a refusal": {events("response.refusal.delta", `"delta":"No."`, "response.completed", completed), list{event.Text{Text: "No."}, ended("refusal", "", none)}},
		"a refusal at once": {events("response.output_item.done", `"item":{"type":"message","content":[{"type":"refusal","refusal":"No."}]}`, "response.completed", completed),
			list{event.Text{Text: "No."}, ended("refusal", "", none)}},
		"length": {hello + events("response.incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`),
			list{event.Text{Text: "Hello"}, ended("length", "max_output_tokens", none)}},
		"filter": {events("response.incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`),
			list{ended("refusal", "content_filter", none)}},
		"incomplete for nobody knows what": {events("response.incomplete", `"response":{"status":"incomplete"}`), list{ended("other", "", none)}},
		"failed": {hello + events("response.failed", `"response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}`),
			list{event.Text{Text: "Hello", Partial: true}, &Error{Class: RateLimit, Code: "rate_limit_exceeded", Message: "slow"}}},
		"failed by the server": {events("response.failed", `"response":{"status":"failed","error":{"code":"server_error","message":"oops sk-secret"}}`),
			list{&Error{Class: Server, Code: "server_error", Message: "oops ***"}}},
		"too long":               {events("response.failed", `"response":{"error":{"code":"context_length_exceeded","message":"too long"}}`), list{&Error{Class: Overflow, Code: "context_length_exceeded", Message: "too long"}}},
		"a bad prompt":           {events("response.failed", `"response":{"error":{"code":"invalid_prompt","message":"bad"}}`), list{&Error{Class: Invalid, Code: "invalid_prompt", Message: "bad"}}},
		"failed without a word":  {events("response.failed", `"response":{"status":"failed"}`), list{&Error{Class: Server, Code: "failed", Message: "the server gave up the answer"}}},
		"an error":               {events("error", `"code":"server_error","message":"oops"`), list{&Error{Class: Server, Code: "server_error", Message: "oops"}}},
		"an error in an object":  {events("error", `"error":{"type":"overloaded_error","message":"busy"}`), list{&Error{Class: Overloaded, Code: "overloaded_error", Message: "busy"}}},
		"cut":                    {hello, list{event.Text{Text: "Hello", Partial: true}, &Error{Class: Cut, Message: "the answer was cut off"}}},
		"cut in a call":          {hello + events("response.output_item.done", message, "response.function_call_arguments.delta", `"delta":"{"`), list{event.Text{Text: "Hello"}, &Error{Class: Cut, Message: "the answer was cut off"}}},
		"no JSON":                {"data: {\n\n", list{&Error{Class: Server, Message: "the answer makes no sense: invalid JSON at byte 1: unexpected end"}}},
		"fields of another type": {events("response.output_text.delta", `"delta":{}`, "response.output_text.delta", `"delta":"a"`, "response.completed", `"response":{"status":5,"output":{}}`), list{event.Text{Text: "a"}, ended("stop", "", none)}},
		"what is to come":        {events("response.sung", `"delta":"la"`, "response.completed", completed), list{ended("stop", "", none)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Options{Model: "openai-responses/m", BaseURL: serve(t, "text/event-stream", tt.body)})
			got := blocks(t, m, Request{History: []event.Event{past(event.Prompt{Text: "hi"}), pastOn("old", event.ToolCalled{Name: "x"}), pastOn("old", event.ToolDone{Name: "x"})}})
			same(t, tt.want, got)
		})
	}
}

func TestResponsesDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want []any
	}{
		"whole": {
			`{"model":"m-2","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":2}}`,
			[]any{event.Text{Text: "Hi"}, event.TurnEnded{Provider: "openai-responses", Model: "m-2", Finish: event.FinishStop, Usage: event.Usage{Input: new(int64(3)), Output: new(int64(2))}}},
		},
		"failed":   {`{"status":"failed","error":{"code":"server_error","message":"oops"}}`, []any{&Error{Class: Server, Code: "server_error", Message: "oops"}}},
		"an error": {`{"error":{"type":"rate_limit_error","message":"slow"}}`, []any{&Error{Class: RateLimit, Code: "rate_limit_error", Message: "slow"}}},
		"nothing":  {`{}`, []any{&Error{Class: Server, Message: "the server gave up the answer"}}},
		"no JSON":  {`{`, []any{&Error{Class: Server, Message: "the answer makes no sense: invalid JSON at byte 1: unexpected end"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Options{Model: "openai-responses/m", BaseURL: serve(t, "application/json", tt.body)})
			same(t, tt.want, blocks(t, m, Request{}))
		})
	}
}
