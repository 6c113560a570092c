package event

// A RunStarted opens a stream: which program, in which format, and what it was told to be.
type RunStarted struct {
	Format          int           `json:"format"`                     // version of the line format
	Program         string        `json:"program,omitempty"`          // who wrote the stream
	Version         string        `json:"version,omitempty"`          // and in which version
	Cwd             string        `json:"cwd,omitempty"`              // absolute working directory
	Provider        string        `json:"provider,omitempty"`         // anthropic, openai …
	Model           string        `json:"model,omitempty"`            // the provider's name of the model
	Profile         string        `json:"profile,omitempty"`          // agent profile
	Mode            string        `json:"mode,omitempty"`             // approval mode: default, auto_edit, yolo
	Rules           []Rule        `json:"rules,omitempty"`            // permission rules in force
	Backend         string        `json:"backend,omitempty"`          // what does the work: our agent, or which guest
	DangerouslyLoad *bool         `json:"dangerously_load,omitempty"` // development channels were loaded
	Run             string        `json:"run,omitempty"`              // id of the run, where it is not the session's
	Label           string        `json:"label,omitempty"`            // a human label for it
	Resumed         bool          `json:"resumed,omitempty"`          // goes on with an earlier session
	Ephemeral       bool          `json:"ephemeral,omitempty"`        // nothing is kept
	Capabilities    *Capabilities `json:"capabilities,omitempty"`     // what a client may expect
	Phases          bool          `json:"phases,omitempty"`           // the work is that of phases, which have sessions of their own
	Inferred        bool          `json:"inferred,omitempty"`
}

// A Rule says what may pass the gate.
type Rule struct {
	Permission string `json:"permission"`
	Pattern    string `json:"pattern"`
	Action     string `json:"action"` // allow, ask or deny
}

// Capabilities are what a client may expect of an agent.
type Capabilities struct {
	ToolApproval bool `json:"tool_approval"` // it waits for an answer before it runs a tool
	Thinking     bool `json:"thinking"`      // it shows thoughts
	MCP          bool `json:"mcp"`           // it has MCP tools
}

// A SessionStarted says that a further session began in the same run: a phase of a loop, a retry, a follow-up.
type SessionStarted struct {
	Backend         string `json:"backend,omitempty"`
	Cwd             string `json:"cwd,omitempty"`
	Model           string `json:"model,omitempty"`
	DangerouslyLoad *bool  `json:"dangerously_load,omitempty"`
	Resumed         bool   `json:"resumed,omitempty"`
}

// A Catalog lists the tools and skills that a session has.
type Catalog struct {
	Tools  []CatalogTool  `json:"tools"`
	Skills []CatalogSkill `json:"skills"`
}

// A CatalogTool is a tool as the model sees it.
type CatalogTool struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"` // builtin or mcp
	Server string `json:"server,omitempty"` // the MCP server, if it is one's
}

// A CatalogSkill is a skill that could be loaded.
type CatalogSkill struct {
	Name    string  `json:"name"`
	Version *string `json:"version,omitempty"` // absent when none is declared
}

// A Prompt opens a reply. One with the id of the prompt before it goes on with its text, if no turn began in between.
type Prompt struct {
	ID       string       `json:"id,omitempty"`
	Text     string       `json:"text,omitempty"` // empty where the stream does not say it
	Files    []string     `json:"files,omitempty"`
	Attached []Attachment `json:"attached,omitempty"` // the files as they were
	Source   string       `json:"source,omitempty"`   // argument, stdin, skill, client, phase, history; steer: said while a reply goes on
	Update   Raw          `json:"update,omitempty"`   // the backend's own word for it
	Inferred bool         `json:"inferred,omitempty"`
}

// An Attachment is a file as it was when a prompt named it, so that a history stays what it was.
type Attachment struct {
	Path string `json:"path"`
	Type string `json:"type"`           // MIME type
	Text string `json:"text,omitempty"` // of a text file
	Data string `json:"data,omitempty"` // of any other: base64
}

// Prompts of these sources do not open a reply.
const (
	SourceSteer   = "steer"   // said while a reply goes on
	SourceHistory = "history" // context that nobody answers
)

// A ReplyEnd is how the answer to one prompt ended; [ReplyDone], [ReplyFailed] and [ReplyCancelled] are made of it.
type ReplyEnd struct {
	Prompt   string `json:"prompt,omitempty"` // id of the prompt
	Stop     string `json:"stop,omitempty"`   // why: end_turn, max_tokens, stop_sequence, tool_use, refusal, timeout, cancelled …
	Usage    Usage  `json:"usage,omitzero"`   // of this reply
	Cost     Cost   `json:"cost,omitzero"`    // of this reply
	Inferred bool   `json:"inferred,omitempty"`
}

// A ReplyDone ends a reply that was answered.
type ReplyDone ReplyEnd

// A ReplyFailed ends a reply that was not.
type ReplyFailed ReplyEnd

// A ReplyCancelled ends a reply that somebody stopped.
type ReplyCancelled ReplyEnd

// An Outcome says how a run ended. It decides the exit code.
type Outcome string

// The outcomes.
const (
	Done        Outcome = "done"
	Misuse      Outcome = "usage"
	Unavailable Outcome = "unavailable"
	Failed      Outcome = "failed"
	Internal    Outcome = "internal"
	Denied      Outcome = "denied"
	Budget      Outcome = "budget"
	Unverified  Outcome = "unverified"
	Timeout     Outcome = "timeout"
	Stalled     Outcome = "stalled"
	Cancelled   Outcome = "cancelled"
)

// A RunEnd is how a run ended; [RunDone], [RunFailed] and [RunCancelled] are made of it.
type RunEnd struct {
	Outcome  Outcome  `json:"outcome,omitempty"`
	Reason   string   `json:"reason,omitempty"`      // one sentence
	Class    string   `json:"class,omitempty"`       // of the error: auth, rate_limit, provider, connection, timeout, oom …
	Code     string   `json:"code,omitempty"`        // the provider's status or code
	Detail   string   `json:"detail,omitempty"`      // what went wrong on the way, where it is not the reason
	Duration *int64   `json:"duration_ms,omitempty"` // milliseconds
	Usage    Usage    `json:"usage,omitzero"`        // of the whole run, sub-agents included
	Cost     Cost     `json:"cost,omitzero"`
	Denials  int      `json:"denials,omitempty"` // calls that were denied
	Changes  *Changes `json:"changes,omitempty"` // in the git work tree
	Killed   []string `json:"killed,omitempty"`  // processes that had to be
	Inferred bool     `json:"inferred,omitempty"`
}

// Changes say what a run changed in the work tree.
type Changes struct {
	Base      string   `json:"base,omitempty"` // commit it started from
	Files     []string `json:"files,omitempty"`
	Untracked []string `json:"untracked,omitempty"`
	Added     int      `json:"added,omitempty"`
	Removed   int      `json:"removed,omitempty"`
}

// A RunDone is the last line of a run that did what it was asked.
type RunDone RunEnd

// A RunFailed is the last line of a run that did not.
type RunFailed RunEnd

// A RunCancelled is the last line of a run that was stopped.
type RunCancelled RunEnd

func (RunStarted) Kind() Kind     { return "run.started" }
func (SessionStarted) Kind() Kind { return "session.started" }
func (Catalog) Kind() Kind        { return "catalog" }
func (Prompt) Kind() Kind         { return "prompt" }
func (ReplyDone) Kind() Kind      { return "reply.done" }
func (ReplyFailed) Kind() Kind    { return "reply.failed" }
func (ReplyCancelled) Kind() Kind { return "reply.cancelled" }
func (RunDone) Kind() Kind        { return "run.done" }
func (RunFailed) Kind() Kind      { return "run.failed" }
func (RunCancelled) Kind() Kind   { return "run.cancelled" }

func (RunStarted) body()     {}
func (SessionStarted) body() {}
func (Catalog) body()        {}
func (Prompt) body()         {}
func (ReplyDone) body()      {}
func (ReplyFailed) body()    {}
func (ReplyCancelled) body() {}
func (RunDone) body()        {}
func (RunFailed) body()      {}
func (RunCancelled) body()   {}

// AsReplyEnd returns what b says about the end of a reply, if it is one.
func AsReplyEnd(b Body) (ReplyEnd, bool) {
	switch b := b.(type) {
	case ReplyDone:
		return ReplyEnd(b), true
	case ReplyFailed:
		return ReplyEnd(b), true
	case ReplyCancelled:
		return ReplyEnd(b), true
	}
	return ReplyEnd{}, false
}

// AsRunEnd returns what b says about the end of a run, if it is one.
func AsRunEnd(b Body) (RunEnd, bool) {
	switch b := b.(type) {
	case RunDone:
		return RunEnd(b), true
	case RunFailed:
		return RunEnd(b), true
	case RunCancelled:
		return RunEnd(b), true
	}
	return RunEnd{}, false
}
