package modelserver

import (
	"bytes"
	"slices"
	"strings"
)

// checkAnthropicHistory says what Anthropic would refuse about a conversation. Neighbours of one role are one message to it.
func checkAnthropicHistory(messages []anthropicMessage) error {
	var turns []anthropicMessage
	for i, m := range messages {
		switch m.Role {
		case "user", "assistant":
		case "system":
			continue // a word in between; it is no part of the order
		default:
			return refused("messages.%d.role: must be user or assistant, not %q", i, m.Role)
		}
		if len(m.Content) == 0 {
			return refused("messages.%d: content must not be empty", i)
		}
		for j, b := range m.Content {
			if err := checkAnthropicBlock(i, j, m.Role, b); err != nil {
				return err
			}
		}
		if n := len(turns); n > 0 && turns[n-1].Role == m.Role {
			turns[n-1].Content = append(turns[n-1].Content[:len(turns[n-1].Content):len(turns[n-1].Content)], m.Content...)
			continue
		}
		turns = append(turns, m)
	}
	if len(turns) == 0 || turns[0].Role != "user" {
		return refused("messages: the first message must be the user's")
	}
	if turns[len(turns)-1].Role != "user" {
		return refused("messages: the last message must be the user's: an answer that is begun by the client is not supported")
	}
	return checkAnthropicCalls(turns)
}

func checkAnthropicBlock(i, j int, role string, b anthropicBlock) error {
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			return refused("messages.%d.content.%d.text: must hold more than white space", i, j)
		}
	case "thinking":
		switch {
		case role != "assistant":
			return refused("messages.%d.content.%d: thinking is for the assistant", i, j)
		case b.Signature == "":
			return refused("messages.%d.content.%d.thinking.signature: field required", i, j)
		case b.Signature != seal(b.Thinking):
			return refused("messages.%d.content.%d: invalid signature in thinking block", i, j)
		}
	case "redacted_thinking":
		return refused("messages.%d.content.%d: invalid data in redacted_thinking block", i, j) // none was ever given
	case "tool_use":
		switch {
		case role != "assistant":
			return refused("messages.%d.content.%d: tool_use is for the assistant", i, j)
		case !toolName().MatchString(b.ID):
			return refused("messages.%d.content.%d.tool_use.id: %q is not made of letters, digits, _ and -", i, j, b.ID)
		case b.Name == "":
			return refused("messages.%d.content.%d.tool_use.name: field required", i, j)
		case !bytes.HasPrefix(b.Input, []byte("{")):
			return refused("messages.%d.content.%d.tool_use.input: must be an object", i, j)
		}
	case "tool_result":
		switch {
		case role != "user":
			return refused("messages.%d.content.%d: tool_result is for the user", i, j)
		case b.ToolUseID == "":
			return refused("messages.%d.content.%d.tool_result.tool_use_id: field required", i, j)
		}
	case "":
		return refused("messages.%d.content.%d.type: field required", i, j)
	}
	return nil
}

// checkAnthropicCalls sees to it that every call has its one result, first thing in the next message.
func checkAnthropicCalls(turns []anthropicMessage) error {
	ever := map[string]bool{}
	var open []string // calls of the message before
	for i, t := range turns {
		if err := checkAnthropicResults(i, t, open); err != nil {
			return err
		}
		open = nil
		for _, b := range t.Content {
			if b.Type != "tool_use" {
				continue
			}
			if ever[b.ID] {
				return refused("messages.%d: tool_use ids must be unique: %s", i, b.ID)
			}
			ever[b.ID] = true
			open = append(open, b.ID)
		}
	}
	return nil
}

func checkAnthropicResults(i int, t anthropicMessage, calls []string) error {
	done := map[string]bool{}
	other := false
	for _, b := range t.Content {
		if b.Type != "tool_result" {
			other = true
			continue
		}
		switch {
		case !slices.Contains(calls, b.ToolUseID):
			return refused("messages.%d: a tool_result without its tool_use in the message before: %s", i, b.ToolUseID)
		case done[b.ToolUseID]:
			return refused("messages.%d: more than one tool_result for the tool_use %s", i, b.ToolUseID)
		case other:
			return refused("messages.%d: tool_result blocks come first: %s", i, b.ToolUseID)
		}
		done[b.ToolUseID] = true
	}
	for _, id := range calls {
		if !done[id] {
			return refused("messages.%d: a tool_use without its tool_result right after it: %s", i-1, id)
		}
	}
	return nil
}
