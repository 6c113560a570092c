package dialect

import (
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// claude is what Claude Code writes with --output-format stream-json, one way or both ways. We only read it: nobody waits for
// us to write it.
var claude = Dialect{
	Name:    "claude",
	Doc:     "Claude Code's stream-json: system, assistant (a block each), user (results of calls), stream_event (deltas), result; only read",
	decoder: func(b bulk) Decoder { return newClaudeDecoder(b) },
	shapes:  sync.OnceValue(claudeShapes),
	checker: func() checker { return &claudeChecker{} },
	rules:   claudeRules,
	score:   claudeScore,
}

func claudeScore(n wire.Node) int {
	id := n.Get("session_id").Kind() == wire.String
	switch n.Get("type").Text() {
	case "system":
		if n.Get("subtype").Kind() == wire.String && id {
			return 3
		}
	case "assistant", "user":
		if id && n.Get("message").Kind() == wire.Object {
			return 3
		}
	case "stream_event":
		if n.Get("event").Kind() == wire.Object {
			return 3
		}
	case "result":
		if id && n.Get("is_error").Kind() == wire.Bool {
			return 3
		}
	case "control_request", "control_response":
		return 3
	}
	return 0
}

// claudeIn is a line as one may come, of any type: only what we read of it.
type claudeIn struct {
	Type      string    `json:"type"`
	Subtype   string    `json:"subtype"`
	Session   string    `json:"session_id"`
	Timestamp string    `json:"timestamp"`
	Parent    string    `json:"parent_tool_use_id"`
	AgentID   string    `json:"agent_id"`
	Message   claudeMsg `json:"message"`

	// user
	Synthetic bool `json:"isSynthetic"`
	Meta      []struct {
		ID       string `json:"id"`
		Kind     string `json:"non_execution_kind"`
		Decision struct {
			Decision string `json:"decision"`
			Source   string `json:"source"`
		} `json:"permission_decision"`
	} `json:"tool_result_meta"`

	// assistant that is an error, and result
	APIError  bool     `json:"is_api_error_message"`
	Status    wire.Num `json:"api_error_status"`
	ErrorType string   `json:"api_error_type"`

	Event claudeEvent `json:"event"`

	// system/init
	Cwd        string   `json:"cwd"`
	Model      string   `json:"model"`
	Mode       string   `json:"permissionMode"`
	QwenMode   string   `json:"permission_mode"`
	Version    string   `json:"claude_code_version"`
	QwenVersed string   `json:"qwen_code_version"`
	Tools      []string `json:"tools"`
	Skills     []string `json:"skills"`

	// other system lines
	Attempt     wire.Num   `json:"attempt"`
	Limit       wire.Num   `json:"max_retries"`
	Delay       wire.Num   `json:"retry_delay_ms"`
	ErrorStatus wire.Num   `json:"error_status"`
	Error       wire.Span  `json:"error"`
	Content     wire.Prose `json:"content"`
	TaskID      string     `json:"task_id"`
	ToolUseID   string     `json:"tool_use_id"`
	ToolName    string     `json:"tool_name"`
	Description string     `json:"description"`
	Role        string     `json:"subagent_type"`
	Prompt      string     `json:"prompt"`
	Background  bool       `json:"is_backgrounded"`
	TaskState   string     `json:"status"`
	Compact     struct {
		Trigger string   `json:"trigger"`
		Before  wire.Num `json:"pre_tokens"`
	} `json:"compact_metadata"`

	// result
	IsError   bool                   `json:"is_error"`
	Stop      string                 `json:"stop_reason"`
	Terminal  string                 `json:"terminal_reason"`
	Result    wire.Prose             `json:"result"`
	Errors    []string               `json:"errors"`
	Usage     claudeUsage            `json:"usage"`
	Since     map[string]claudeSpent `json:"model_usage_since_last_result"`
	TotalCost wire.Num               `json:"total_cost_usd"`
	Origin    struct {
		Kind string `json:"kind"`
	} `json:"origin"`

	// control_request
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype   string    `json:"subtype"`
		ToolName  string    `json:"tool_name"`
		ToolUseID string    `json:"tool_use_id"`
		Input     wire.Span `json:"input"`
		About     string    `json:"description"`
	} `json:"request"`
}

// claudeMsg is a message as Anthropic's API has it.
type claudeMsg struct {
	ID      string    `json:"id"`
	Model   string    `json:"model"`
	Role    string    `json:"role"`
	Stop    string    `json:"stop_reason"`
	Content wire.Span `json:"content"` // blocks, or a text
}

// claudeBlock is a part of a message.
type claudeBlock struct {
	Type      string     `json:"type"`
	Text      wire.Prose `json:"text"`
	Thinking  wire.Prose `json:"thinking"`
	Signature string     `json:"signature"`
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Input     wire.Span  `json:"input"`
	ToolUseID string     `json:"tool_use_id"`
	Content   wire.Span  `json:"content"` // of a result: a text, or blocks
	IsError   bool       `json:"is_error"`
	Source    struct {
		Data wire.Prose `json:"data"`
	} `json:"source"`
}

// claudeEvent is an event of Anthropic's stream, as it came.
type claudeEvent struct {
	Type    string `json:"type"`
	Message struct {
		ID    string `json:"id"`
		Model string `json:"model"`
	} `json:"message"`
	Delta struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		Stop     string `json:"stop_reason"`
	} `json:"delta"`
}

// claudeUsage is what one reply used, sub-agents left out.
type claudeUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

// claudeSpent is what one model used since the result before, sub-agents included.
type claudeSpent struct {
	Input      int64   `json:"inputTokens"`
	Output     int64   `json:"outputTokens"`
	Thinking   int64   `json:"thinkingTokens"`
	CacheRead  int64   `json:"cacheReadInputTokens"`
	CacheWrite int64   `json:"cacheCreationInputTokens"`
	Cost       float64 `json:"costUSD"`
}

// claudeMode is our word for a permission mode of theirs, where we have one.
func claudeMode(mode string) string {
	switch mode {
	case "acceptEdits":
		return "auto_edit"
	case "bypassPermissions":
		return "yolo"
	}
	return mode
}

// claudeClass says what a tool can do to the world.
func claudeClass(name string) event.Class {
	if len(name) > 5 && name[:5] == "mcp__" {
		return event.ClassMCP
	}
	switch name {
	case "Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "TaskList", "TaskGet", "ToolSearch", "Skill", "BashOutput":
		return event.ClassInfo
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		return event.ClassEdit
	}
	return event.ClassExec
}
