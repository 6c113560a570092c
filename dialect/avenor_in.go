package dialect

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// avenorIn is a line as one may come: the specification's form, and what the program really writes.
type avenorIn struct {
	Event     string   `json:"event"`
	SessionID string   `json:"session_id"`
	RunID     string   `json:"run_id"`
	RunLabel  string   `json:"run_label"`
	Ts        wire.Num `json:"ts"`

	Content struct {
		Text wire.Passing `json:"text"`
	} `json:"content"`
	Delta     wire.Str  `json:"delta"` // the program's, for its claude backends
	MessageID string    `json:"messageId"`
	Update    wire.Span `json:"session_update"`

	ToolCallID string    `json:"toolCallId"`
	ToolUseID  string    `json:"tool_use_id"` // likewise
	Title      string    `json:"title"`
	Kind       string    `json:"kind"`
	Status     string    `json:"status"`
	RawInput   wire.Span `json:"rawInput"`
	Input      wire.Span `json:"input"` // likewise

	RequestID   string         `json:"request_id"`
	Tool        string         `json:"tool"`
	Question    string         `json:"question"`
	Description string         `json:"description"` // likewise
	Options     []avenorChoice `json:"options"`
	ToolCall    struct {
		ToolCallID string    `json:"toolCallId"`
		Title      string    `json:"title"`
		Kind       string    `json:"kind"`
		RawInput   wire.Span `json:"rawInput"`
	} `json:"toolCall"`
	OptionID string `json:"option_id"`
	Source   string `json:"source"`

	Backend         string `json:"backend"`
	Dir             string `json:"dir"`
	DangerouslyLoad *bool  `json:"dangerously_load"`
	StopReason      string `json:"stop_reason"`
	Usage           *struct {
		InputTokens      wire.Num `json:"input_tokens"`
		OutputTokens     wire.Num `json:"output_tokens"`
		CachedReadTokens wire.Num `json:"cached_read_tokens"`
	} `json:"usage"`

	MaxIterations       wire.Num `json:"max_iterations"`
	PrePhaseCount       wire.Num `json:"pre_phase_count"`
	LoopPhaseCount      wire.Num `json:"loop_phase_count"`
	PostPhaseCount      wire.Num `json:"post_phase_count"`
	Phase               string   `json:"phase"`
	Label               string   `json:"label"`
	Iteration           wire.Num `json:"iteration"`
	AbortMarker         bool     `json:"abort_marker"`
	AbortMarkerLabel    string   `json:"abort_marker_label"`
	ExitMarker          bool     `json:"exit_marker"`
	ExitMarkerLabel     string   `json:"exit_marker_label"`
	ExitReason          string   `json:"exit_reason"`
	ExitLabel           string   `json:"exit_label"`
	IterationsCompleted wire.Num `json:"iterations_completed"`
	Attempt             wire.Num `json:"attempt"`
	MaxRetries          wire.Num `json:"max_retries"`

	Message     string    `json:"message"`
	Model       string    `json:"model"`
	Diagnostics wire.Span `json:"diagnostics"`

	ServerName   string    `json:"server_name"`
	ControlID    string    `json:"control_id"`
	MessageType  string    `json:"message_type"`
	Delivery     string    `json:"delivery"`
	PromptLength wire.Num  `json:"prompt_length"`
	State        string    `json:"state"`
	To           string    `json:"to"`
	Payload      wire.Span `json:"payload"`
	Summary      string    `json:"summary"`
	FilesChanged []string  `json:"files_changed"`
}

// An avenorChoice is an option; id and label are what the program's claude backend writes.
type avenorChoice struct {
	OptionID string `json:"optionId"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	ID       string `json:"id"`
	Label    string `json:"label"`
}

// text is what a chunk says.
func (l *avenorIn) text() string {
	switch {
	case l.Content.Text.OK:
		return l.Content.Text.Value
	case l.Delta.OK:
		return l.Delta.Value
	}
	return l.Payload.Text() // a checkpoint of the program's claude-channel
}

// input is a call's arguments; some are sent as a string.
func (l *avenorIn) input() event.Raw {
	args := l.RawInput
	if len(args) == 0 {
		args = l.Input
	}
	if s, ok := wire.Unquote(args); ok {
		return tidy(wire.Span(parsed(s)))
	}
	return input(args)
}

// fieldsOf returns what a line has beside the envelope, as it stands.
func fieldsOf(line []byte) event.Raw {
	if fields := flat(line); len(fields) > 2 {
		return fields
	}
	return nil
}
