package dialect

import "github.com/sluice-dev/sluice/event"

// The lines. What belongs to a sub-agent has its id in agent_id, which the document does not know: without it nobody could
// tell a child's lines from its parent's.
type (
	ensoWord struct {
		Type    string `json:"type"`
		AgentID string `json:"agent_id,omitempty"`
	}
	ensoSessionStart struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Model   string `json:"model"`
		Cwd     string `json:"cwd"`
		Resumed bool   `json:"resumed"`
	}
	ensoUserMessage struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	ensoDelta struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		AgentID string `json:"agent_id,omitempty"`
	}
	ensoCallStart struct {
		Type    string    `json:"type"`
		ID      string    `json:"id"`
		Name    string    `json:"name"`
		Args    event.Raw `json:"args"`
		AgentID string    `json:"agent_id,omitempty"`
	}
	ensoCallEnd struct {
		Type    string  `json:"type"`
		ID      string  `json:"id"`
		Name    string  `json:"name"`
		Result  string  `json:"result"`
		Error   *string `json:"error"`
		Denied  bool    `json:"denied,omitempty"`
		AgentID string  `json:"agent_id,omitempty"`
	}
	ensoAutoDeny struct {
		Type    string `json:"type"`
		Tool    string `json:"tool"`
		AgentID string `json:"agent_id,omitempty"`
	}
	ensoCompacted struct {
		Type    string `json:"type"`
		Reason  string `json:"reason"`
		Summary string `json:"summary"`
		Before  *int64 `json:"before_tokens,omitempty"` // these two the real program has, the document has not
		After   *int64 `json:"after_tokens,omitempty"`
		AgentID string `json:"agent_id,omitempty"`
	}
	ensoAgentStart struct {
		Type     string `json:"type"`
		ID       string `json:"id"`
		ParentID string `json:"parent_id"`
		Depth    int    `json:"depth"`
		Prompt   string `json:"prompt"`
		Role     string `json:"role,omitempty"`
		AgentID  string `json:"agent_id"`
	}
	ensoAgentEnd struct {
		Type     string `json:"type"`
		ID       string `json:"id"`
		ParentID string `json:"parent_id"`
		Error    string `json:"error"`
		AgentID  string `json:"agent_id"`
	}
	ensoError struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		AgentID string `json:"agent_id,omitempty"`
	}
	ensoSessionEnd struct {
		Type       string `json:"type"`
		ToolErrors bool   `json:"tool_errors"`
		Error      string `json:"error,omitempty"`
	}
)
