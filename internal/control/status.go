package control

import (
	"cmp"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
)

// A Status says where a run stands, in avenor's words.
type Status struct {
	RuntimeID string `json:"runtime_id"`
	SessionID string `json:"session_id,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	RunLabel  string `json:"run_label,omitempty"`
	Label     string `json:"label,omitempty"` // the same: the list calls it so
	Backend   string `json:"backend,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Model     string `json:"model,omitempty"`
	Dir       string `json:"dir,omitempty"`
	ParentID  string `json:"parent_id,omitempty"`
	Journal   string `json:"journal,omitempty"` // path
	OnEvent   string `json:"on_event,omitempty"`
	Sentinel  string `json:"sentinel_file,omitempty"`
	PID       int    `json:"pid,omitempty"`

	State      string        `json:"status"`          // running, idle or ended
	TurnState  string        `json:"turn_state"`      // starting, running, idle or ended
	Phase      string        `json:"phase,omitempty"` // thinking, working, waiting, done
	PhaseLabel string        `json:"phase_label,omitempty"`
	LoopPhase  string        `json:"loop_phase,omitempty"`
	Iteration  int           `json:"iteration,omitempty"`
	StopReason string        `json:"stop_reason,omitempty"` // of the last reply
	Outcome    event.Outcome `json:"outcome,omitempty"`     // of the run
	ExitCode   *int          `json:"exit_code,omitempty"`

	PendingPermission bool         `json:"pending_permission"`
	Permission        *Permission  `json:"permission,omitempty"`  // the oldest open one
	Permissions       []Permission `json:"permissions,omitempty"` // all, oldest first

	LastEvent event.Kind  `json:"last_event,omitempty"`
	LatestSeq uint64      `json:"latest_seq"`
	StartedAt time.Time   `json:"started_at,omitzero"`
	UpdatedAt time.Time   `json:"updated_at,omitzero"`
	Turns     int         `json:"turns,omitempty"`
	Usage     event.Usage `json:"usage,omitzero"`
	Cost      event.Cost  `json:"cost,omitzero"`

	FinalOutput          string `json:"final_output,omitempty"` // its beginning: see the method result
	FinalOutputTruncated bool   `json:"final_output_truncated,omitempty"`
}

// A Permission is an open question.
type Permission struct {
	RequestID string    `json:"request_id"`
	Tool      string    `json:"tool,omitempty"`
	Question  string    `json:"question,omitempty"`
	Options   []Option  `json:"options,omitempty"`
	ToolCall  string    `json:"tool_call_id,omitempty"`
	Agent     string    `json:"agent,omitempty"` // path of the sub-agent that asks
	Deadline  time.Time `json:"deadline,omitzero"`
	Since     time.Time `json:"since,omitzero"`
}

// outputMost is how much of an answer a status carries, in characters.
const outputMost = 4096

func status(i Info, s fold.Snapshot, said string) Status {
	t := Status{
		RuntimeID: i.ID, SessionID: s.SessionID, RunID: cmp.Or(i.Run, s.RunID), RunLabel: i.Label, Label: i.Label,
		Backend: cmp.Or(i.Backend, s.Backend), Agent: i.Agent, Model: i.Model, Dir: i.Dir, ParentID: i.Parent,
		Journal: i.Journal, OnEvent: i.Events, Sentinel: i.Sentinel, PID: i.PID,
		Phase: s.Phase, PhaseLabel: s.PhaseLabel, LoopPhase: s.LoopPhase, Iteration: s.Iteration, StopReason: s.StopReason, Outcome: s.Outcome, ExitCode: i.Exit,
		LastEvent: s.LastEvent, LatestSeq: s.LastSeq, StartedAt: i.Started, UpdatedAt: s.LastAt, Turns: s.Turns, Usage: s.Usage, Cost: s.Cost,
	}
	switch {
	case i.Exit != nil, s.Outcome != "":
		t.State, t.TurnState = "ended", "ended"
	case s.Ended && i.Parks:
		t.State, t.TurnState = "idle", "idle"
	case s.Phase == "":
		t.State, t.TurnState = "running", "starting"
	default:
		t.State, t.TurnState = "running", "running"
	}
	for _, q := range s.Pending {
		t.Permissions = append(t.Permissions, Permission{
			RequestID: q.Request, Tool: q.Tool, Question: q.Question, Options: options(q.Options), ToolCall: q.Call, Agent: q.Agent, Deadline: q.Deadline, Since: q.Since,
		})
	}
	if len(t.Permissions) > 0 {
		t.PendingPermission, t.Permission = true, &t.Permissions[0]
	}
	t.FinalOutput = said
	runes := 0
	for at := range said {
		if runes++; runes > outputMost {
			t.FinalOutput, t.FinalOutputTruncated = said[:at], true
			break
		}
	}
	return t
}
