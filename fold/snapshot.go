package fold

import (
	"time"

	"github.com/sluice-dev/sluice/event"
)

// A Snapshot says where a run stands.
type Snapshot struct {
	SessionID string `json:"session_id,omitempty"` // the one that is followed; of a run, the top agent's newest
	RunID     string `json:"run_id,omitempty"`
	Backend   string `json:"backend,omitempty"`

	Phase      string `json:"phase,omitempty"` // thinking, working, waiting, done
	PhaseLabel string `json:"phase_label,omitempty"`
	LoopPhase  string `json:"loop_phase,omitempty"` // the loop's phase that goes on
	Iteration  int    `json:"iteration,omitempty"`  // 0 outside the loop

	ChannelReady    bool `json:"channel_ready,omitempty"`
	PromptQueued    bool `json:"prompt_queued,omitempty"`
	PromptSubmitted bool `json:"prompt_submitted,omitempty"`

	WaitingPermission bool       `json:"waiting_permission,omitempty"`
	Pending           []Question `json:"pending,omitempty"` // oldest first

	LastReportState string   `json:"last_report_state,omitempty"`
	LastReplyTo     string   `json:"last_reply_to,omitempty"`
	FinishStatus    string   `json:"finish_status,omitempty"`
	FinishSummary   string   `json:"finish_summary,omitempty"`
	FilesChanged    []string `json:"files_changed,omitempty"`

	StopReason string        `json:"stop_reason,omitempty"`
	Ended      bool          `json:"ended,omitempty"`   // the reply is over; another may follow
	Outcome    event.Outcome `json:"outcome,omitempty"` // the run is over; nothing follows

	OpenCalls  []OpenCall  `json:"open_calls,omitempty"`  // oldest first
	OpenAgents []OpenAgent `json:"open_agents,omitempty"` // oldest first
	Turns      int         `json:"turns,omitempty"`       // that ended, of all agents
	Usage      event.Usage `json:"usage,omitzero"`        // of all agents, as a [Ledger] counts
	Cost       event.Cost  `json:"cost,omitzero"`

	LastEvent   event.Kind `json:"last_event,omitempty"`
	LastSeq     uint64     `json:"last_seq,omitempty"`
	LastAt      time.Time  `json:"last_at,omitzero"`
	LinesUnread int        `json:"lines_unread,omitempty"` // foreign lines from which nothing could be read
}

// A Question is one that nobody has answered yet.
type Question struct {
	Request  string         `json:"request"`
	Call     string         `json:"call,omitempty"`
	Agent    string         `json:"agent,omitempty"`
	Tool     string         `json:"tool,omitempty"`
	Question string         `json:"question,omitempty"`
	Options  []event.Option `json:"options,omitempty"`
	Deadline time.Time      `json:"deadline,omitzero"`
	Since    time.Time      `json:"since,omitzero"`
}

// An OpenCall is a tool call that has not ended.
type OpenCall struct {
	ID    string    `json:"id"`
	Name  string    `json:"name,omitempty"`
	Agent string    `json:"agent,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// An OpenAgent is a sub-agent that has not ended.
type OpenAgent struct {
	Agent   string    `json:"agent"` // path
	Session string    `json:"session,omitempty"`
	Title   string    `json:"title,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}
