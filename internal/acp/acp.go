// Package acp is the Agent Client Protocol in our words: the few messages of it that a server of our own agent sends and takes.
// It is JSON-RPC (internal/rpc); an [Teller] makes its updates of events.
package acp

import "encoding/json"

// Version is the protocol's.
const Version = 1

// A ContentBlock is a piece of a prompt or an answer.
type ContentBlock struct {
	Type     string    `json:"type"` // text, image, resource_link, resource …
	Text     string    `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"` // base64
	MimeType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *Resource `json:"resource,omitempty"`
}

// A Resource is content that stands in the prompt itself.
type Resource struct {
	URI      string `json:"uri"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
}

// An Update tells what happens in a session.
type Update struct {
	Session string `json:"sessionId"`
	Update  any    `json:"update"`
}

// A Chunk is a piece of a message or of a thought.
type Chunk struct {
	Kind    string       `json:"sessionUpdate"` // user_message_chunk, agent_message_chunk, agent_thought_chunk
	Content ContentBlock `json:"content"`
	Message string       `json:"messageId,omitempty"`
}

// A ToolCall opens a call, or changes it.
type ToolCall struct {
	Update    string          `json:"sessionUpdate,omitempty"` // tool_call, tool_call_update; empty in a permission request
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title,omitempty"`
	Kind      string          `json:"kind,omitempty"`
	Status    string          `json:"status,omitempty"`
	Content   []CallContent   `json:"content,omitempty"`
	Locations []Location      `json:"locations,omitempty"`
	RawInput  json.RawMessage `json:"rawInput,omitempty"`
	RawOutput json.RawMessage `json:"rawOutput,omitempty"`
}

// CallContent is what a call shows: text, an image, or a change to a file.
type CallContent struct {
	Type    string        `json:"type"` // content, diff
	Content *ContentBlock `json:"content,omitempty"`
	Path    string        `json:"path,omitempty"`
	OldText *string       `json:"oldText,omitempty"`
	NewText string        `json:"newText,omitempty"`
}

// A Location is a file that a call works on.
type Location struct {
	Path string `json:"path"`
}

// A ModeUpdate says which mode holds from now on.
type ModeUpdate struct {
	Kind string `json:"sessionUpdate"`
	Mode string `json:"currentModeId"`
}

// A UsageUpdate says how full the model's window is.
type UsageUpdate struct {
	Kind string `json:"sessionUpdate"`
	Used int64  `json:"used"`
	Size int64  `json:"size"`
}

// A PermissionRequest asks a person about a call.
type PermissionRequest struct {
	Session string   `json:"sessionId"`
	Call    ToolCall `json:"toolCall"`
	Options []Option `json:"options"`
}

// An Option is one of the answers.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"` // allow_once, allow_always, reject_once, reject_always
}

// A PermissionAnswer is the person's.
type PermissionAnswer struct {
	Outcome struct {
		Outcome string `json:"outcome"` // selected, cancelled
		Option  string `json:"optionId"`
	} `json:"outcome"`
}

// Modes are those that a session may be in.
type Modes struct {
	Current   string `json:"currentModeId"`
	Available []Mode `json:"availableModes"`
}

// A Mode is one of them.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// A Server is an MCP server that the client wants a session to have.
type Server struct {
	Type    string   `json:"type"` // stdio (or empty), http, sse
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []Pair   `json:"env"`
	URL     string   `json:"url"`
	Headers []Pair   `json:"headers"`
}

// A Pair is a name and its value.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
