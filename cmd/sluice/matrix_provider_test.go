//go:build unix

package main

import (
	"net"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// What goes wrong between us and the model's server.
var providerFaults = []fault{
	{
		name: "no key", before: func(r *run) { r.set("ANTHROPIC_API_KEY", "") },
		exit: 1, outcome: event.Misuse, reason: "ANTHROPIC_API_KEY", ends: endings{"auth", "error", "config_error"},
		after: func(r *run, events []map[string]any) {
			if events[0]["kind"] != "run.started" || events[1]["kind"] != "catalog" {
				r.Error("run.started and catalog do not come before the key is looked for")
			}
		},
	},
	{
		name: "400", script: `steps: [{text: No., fault: {status: 400, message: messages must not be odd}}]`,
		exit: 3, outcome: event.Failed, reason: "messages must not be odd (400)", ends: endings{"provider", "error", "provider_error"},
		after: noRetry,
	},
	{
		name: "401", script: `steps: [{text: No., fault: {status: 401, message: "invalid key ` + key + `"}}]`,
		exit: 3, outcome: event.Failed, reason: "invalid key *** (401)", ends: endings{"auth", "error", "provider_error"},
		after: noRetry,
	},
	{
		name: "403", script: `steps: [{text: No., fault: {status: 403, message: not for you}}]`,
		exit: 3, outcome: event.Failed, reason: "not for you (403)", ends: endings{"auth", "error", "provider_error"},
		after: noRetry,
	},
	{
		name: "context overflow", script: `steps: [{text: No., fault: {status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum"}}]`,
		exit: 3, outcome: event.Failed, reason: "prompt is too long", ends: endings{"provider", "error", "provider_error"},
		after: noRetry,
	},
	{
		name: "429 once", script: `steps: [{text: Hello there., fault: {status: 429, headers: {retry-after-ms: "10"}, times: 1}}]`,
		outcome: event.Done, after: oneRetry,
	},
	{
		name: "429 for ever", script: `steps: [{text: No., fault: {status: 429, message: slow down}}]`, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "slow down; gave up after 1 retry (429)", ends: endings{"rate_limit", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "429 for longer than we wait", script: `steps: [{text: No., fault: {status: 429, headers: {retry-after: "3600"}}}]`,
		exit: 2, outcome: event.Unavailable, reason: "asks to wait 1h0m0s", ends: endings{"rate_limit", "error", "provider_error"},
		after: noRetry,
	},
	{
		name: "500", script: `steps: [{text: No., fault: {status: 500, message: something broke}}]`, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "something broke", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "529", script: `steps: [{text: No., fault: {status: 529, message: Overloaded}}]`, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "Overloaded", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "overloaded in the stream", script: `steps: [{text: Hello there., fault: {in_stream: overloaded_error, times: 1}}]`,
		outcome: event.Done, after: oneRetry,
	},
	{
		name: "connection refused", before: func(r *run) { r.set("ANTHROPIC_BASE_URL", "http://"+r.closed()) }, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "connection refused", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "no such host", flags: []string{"--retries", "1"},
		before: func(r *run) {
			r.program = "sluice-strange"
			r.set("RESOLVER", r.resolver())
			r.set("ANTHROPIC_BASE_URL", "http://model.example")
		},
		exit: 2, outcome: event.Unavailable, reason: "model.example: no such host", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "cut in text", script: `steps: [{text: Hello there., fault: {cut: text}}]`, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "the answer was cut off", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "cut in text once", script: `steps: [{text: Hello there., fault: {cut: text, times: 1}}]`,
		outcome: event.Done, after: oneRetry,
	},
	{
		name: "cut in a call", flags: []string{"--retries", "1"},
		script: `steps: [{text: I will., call: {tool: bash, input: {command: "stray cut; sleep 60"}}, fault: {cut: call}}]`,
		exit:   2, outcome: event.Unavailable, reason: "the answer was cut off", ends: endings{"provider", "error", "provider_error"},
		after: func(r *run, events []map[string]any) {
			oneRetry(r, events)
			if count(events, "tool.called") != 0 {
				r.Error("half a call was taken for one")
			}
		},
	},
	{
		name:    "cut in a call once",
		script:  `steps: [{text: I will., call: {tool: bash, input: {command: echo hi}}, fault: {cut: call, times: 1}}, {text: Done.}]`,
		outcome: event.Done,
		after: func(r *run, events []map[string]any) {
			oneRetry(r, events)
			if count(events, "tool.called") != 1 || count(events, "tool.done") != 1 {
				r.Error("the call of the second attempt was not made once")
			}
		},
	},
	{
		name: "cut before the end", script: `steps: [{text: Hello there., fault: {cut: end, times: 1}}]`,
		outcome: event.Done, after: oneRetry,
	},
	{
		name: "hang", script: `steps: [{text: Hello there., fault: {hang: text}}]`, flags: []string{"--idle", "200ms", "--retries", "0"},
		exit: 2, outcome: event.Unavailable, reason: "said nothing for 200ms", ends: endings{"timeout", "error", "provider_error"},
	},
	{
		name: "hang before the answer", script: `steps: [{text: Hello there., fault: {hang: start}}]`, flags: []string{"--idle", "200ms", "--retries", "0"},
		exit: 2, outcome: event.Unavailable, reason: "said nothing for 200ms", ends: endings{"timeout", "error", "provider_error"},
	},
	{
		name: "malformed", script: `steps: [{text: Hello there., fault: {malformed: true}}]`, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "not a stream of events", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "wrong JSON", script: `steps: [{text: Hello there., fault: {wrong_json: true}}]`, flags: []string{"--retries", "1"},
		exit: 2, outcome: event.Unavailable, reason: "the answer makes no sense", ends: endings{"provider", "error", "provider_error"},
		after: oneRetry,
	},
	{
		name: "empty answer", script: "{advance: request, steps: [{}, {}]}",
		exit: 3, outcome: event.Failed, reason: "the model said nothing, twice", ends: endings{"unknown", "error", "internal_error"},
	},
	{
		name: "empty answer once", script: "{advance: request, steps: [{}, {text: Hello there.}]}",
		outcome: event.Done,
	},
	{
		name: "max tokens", script: `steps: [{text: Hello th, finish: length}]`,
		exit: 3, outcome: event.Failed, reason: "cut by the output limit", ends: endings{"unknown", "max_tokens", "internal_error"},
	},
	{
		name: "max tokens in a call", script: `steps: [{call: {tool: bash, raw: '{"command":"stray half; rm -'}, finish: length}]`,
		exit: 3, outcome: event.Failed, reason: "cut by the output limit", ends: endings{"unknown", "max_tokens", "internal_error"},
	},
	{
		name: "refusal", script: `steps: [{text: I would rather not., finish: refusal}]`,
		exit: 3, outcome: event.Failed, reason: "the model refused", ends: endings{"unknown", "refusal", "internal_error"},
	},
	{
		name: "control token", script: `{chunk: 2, steps: [{thinking: "We are done.<|channel|>analysis to no end, for a long time", text: Hello there.}]}`,
		exit: 3, outcome: event.Failed, reason: "degenerate reasoning stream: provider control token leakage (<|channel|>)",
		ends: endings{"unknown", "degenerate_reasoning_stream", "internal_error"}, after: noRetry,
	},
	{
		name: "thoughts in a circle", script: `{chunk: 30, steps: [{thinking: "` + strings.Repeat("I should look again. ", 2000) + `", text: Hello there.}]}`,
		exit: 3, outcome: event.Failed, reason: "repeat themselves every 21", ends: endings{"unknown", "degenerate_reasoning_stream", "internal_error"},
		after: noRetry,
	},
}

func noRetry(r *run, events []map[string]any) {
	if n := count(events, "retry"); n != 0 {
		r.Errorf("%d retries", n)
	}
}

func oneRetry(r *run, events []map[string]any) {
	if n := count(events, "retry"); n != 1 {
		r.Errorf("%d retries, want one", n)
	}
}

// closed is an address where nobody listens.
func (r *run) closed() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
