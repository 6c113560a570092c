package provider

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file knows what Claude models differ in: how much they may say, and how they are told to think.

// messageLimits is how long the answer may be, and the part of the request that tells how much to think.
func messageLimits(model string, r Request) (limit int, thinking string) {
	v := claudeVersion(model)
	top := 1 << 30
	answer := 8192
	switch {
	case v == 0: // not one of Anthropic's, or not by its name
	case v < 305:
		top, answer = 4096, 4096
	case v < 307:
		top = 8192
	case strings.Contains(model, "opus") && v < 405:
		top, answer = 32000, 16384
	case v < 406:
		top, answer = 64000, 32000
	default:
		top, answer = 128000, 32000
	}
	if r.MaxTokens > 0 {
		answer = r.MaxTokens
	}
	budget := map[string]int{"low": 4096, "medium": 10240, "high": 24576}[r.Thinking]
	if budget == 0 || v > 0 && v < 307 {
		return answer, ""
	}
	limit = max(min(answer+budget, top), answer)
	switch {
	case v >= 406: // these refuse a budget
		return limit, `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"` + r.Thinking + `"}`
	case unthought(r.History):
		return answer, ""
	}
	return limit, `,"thinking":{"type":"enabled","budget_tokens":` + strconv.Itoa(min(budget, limit-1)) + `}`
}

// claudeVersion is the version in a model's name, 405 for 4.5; 0 if it says none. Names of Bedrock, Vertex and OpenRouter
// say it too: us.anthropic.claude-sonnet-4-5-20250929-v1:0, claude-sonnet-4-5@20250929, anthropic/claude-sonnet-4.5.
func claudeVersion(model string) int {
	_, name, ok := strings.Cut(model, "claude")
	if !ok {
		return 0
	}
	v, n := 0, 0
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-.@:_", r) }) {
		i, err := strconv.Atoi(part)
		if err != nil || i > 99 {
			if n > 0 {
				break
			}
			continue
		}
		if n++; n == 1 {
			v = 100 * i
		} else {
			return v + i
		}
	}
	return v
}

// unthought says whether the last answer called tools without a thought of ours before: after another model, or after one
// that was not told to think. The API then refuses to think in the middle of it.
func unthought(history []event.Event) bool {
	answer, calls, thought := false, false, false
	for _, e := range slices.Backward(history) {
		switch b := e.Body.(type) {
		case event.ToolCalled:
			answer, calls, thought = true, true, false
		case event.Text:
			answer, thought = true, false
		case event.Thought:
			_, open := unseal(anthropicSeal, b.Signature)
			_, redacted := unseal(redactedSeal, b.Signature)
			answer, thought = true, open || redacted
		default:
			if answer {
				return calls && !thought
			}
		}
	}
	return calls && !thought
}
