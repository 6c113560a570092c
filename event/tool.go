package event

import "time"

// A Class says what a tool can do to the world.
type Class string

// The classes of tools.
const (
	ClassInfo Class = "info" // looks, and changes nothing
	ClassEdit Class = "edit" // changes files
	ClassExec Class = "exec" // runs commands or agents
	ClassMCP  Class = "mcp"  // belongs to an MCP server
)

// A ToolCalled says that the model wants a tool. The header has the call's id.
type ToolCalled struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"` // for a person
	Class       Class  `json:"class,omitempty"`
	Description string `json:"description,omitempty"` // one line: what this call would do
	Input       Raw    `json:"input,omitempty"`       // the arguments; a JSON string if the model's were not JSON
	Update      Raw    `json:"update,omitempty"`      // the backend's own word for it
	Inferred    bool   `json:"inferred,omitempty"`
}

// A ToolStarted says that a call began to run.
type ToolStarted struct {
	Name string `json:"name"`
}

// A ToolOutput is a piece of a running tool's output as it comes.
type ToolOutput struct {
	Text string `json:"text"`
}

// A ToolEnd is how a call ended; [ToolDone], [ToolFailed], [ToolDenied] and [ToolCancelled] are made of it. Each call ends
// exactly once.
type ToolEnd struct {
	Name      string    `json:"name"`
	Exit      *int      `json:"exit,omitempty"` // of a command
	Start     time.Time `json:"start,omitzero"`
	End       time.Time `json:"end,omitzero"`
	Type      string    `json:"type,omitempty"`  // of the output: text (or empty), diff, image
	Error     string    `json:"error,omitempty"` // why it failed, was denied or cancelled
	Truncated bool      `json:"truncated,omitempty"`
	Title     string    `json:"title,omitempty"`
	Output    string    `json:"output,omitempty"`
	Metadata  Raw       `json:"metadata,omitempty"`
	Update    Raw       `json:"update,omitempty"` // the backend's own word for it
	Inferred  bool      `json:"inferred,omitempty"`
}

// A ToolDone ends a call that worked.
type ToolDone ToolEnd

// A ToolFailed ends a call that did not. A command with a non-zero exit is one.
type ToolFailed ToolEnd

// A ToolDenied ends a call that the gate did not let pass.
type ToolDenied ToolEnd

// A ToolCancelled ends a call that was stopped before or while it ran.
type ToolCancelled ToolEnd

// A GateAsked says that somebody must decide about a call. The header has the call's id, if it is about one.
type GateAsked struct {
	Request    string    `json:"request"` // id of the question
	Tool       string    `json:"tool,omitempty"`
	Permission string    `json:"permission,omitempty"`
	Patterns   []string  `json:"patterns,omitempty"`
	Question   string    `json:"question,omitempty"`
	Options    []Option  `json:"options,omitempty"`
	Input      Raw       `json:"input,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero"`
	Inferred   bool      `json:"inferred,omitempty"`
}

// An Option is one of the answers to a question.
type Option struct {
	ID   string `json:"id"`
	Kind string `json:"kind,omitempty"` // allow, reject …
	Name string `json:"name,omitempty"` // for a person
}

// By says who decided.
type By string

// Those who decide.
const (
	ByRule    By = "rule"    // a permission rule
	ByMode    By = "mode"    // the approval mode
	ByAlways  By = "always"  // an earlier answer that holds for the session
	ByClient  By = "client"  // the client on stdin
	ByFile    By = "file"    // an answer file
	ByControl By = "control" // the control socket
	ByAuto    By = "auto"    // automatic approval
	ByHook    By = "hook"    // a hook of the user's
	ByNobody  By = "nobody"  // it was asked, and nobody was there
)

// A GateAnswer is a decision; [GateAllowed] and [GateDenied] are made of it.
type GateAnswer struct {
	Request    string   `json:"request,omitempty"` // the question, if one was asked
	Tool       string   `json:"tool,omitempty"`
	Permission string   `json:"permission,omitempty"`
	Patterns   []string `json:"patterns,omitempty"`
	Input      Raw      `json:"input,omitempty"`
	Rule       *Rule    `json:"rule,omitempty"`   // that decided
	Option     string   `json:"option,omitempty"` // that was chosen
	Scope      string   `json:"scope,omitempty"`  // once or always
	Reason     string   `json:"reason,omitempty"`
	By         By       `json:"by,omitempty"`
	Inferred   bool     `json:"inferred,omitempty"`
}

// A GateAllowed lets a call pass.
type GateAllowed GateAnswer

// A GateDenied does not.
type GateDenied GateAnswer

// A SkillFound says that a skill's name and description are known to the model.
type SkillFound struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version,omitempty"`
	Location    string `json:"location,omitempty"`
}

// A SkillLoaded says that a skill's text entered the context.
type SkillLoaded struct {
	Name     string `json:"name"`
	Location string `json:"location,omitempty"`
}

// A SkillRead says that a file of a skill's folder was read.
type SkillRead struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// An AgentStarted says that a sub-agent began. Header: its path and its session.
type AgentStarted struct {
	Parent   string `json:"parent,omitempty"` // who spawned it, in the stream's own words: session or agent id
	Title    string `json:"title,omitempty"`
	Role     string `json:"role,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
	Depth    int    `json:"depth,omitempty"` // 1 for a child of the top agent
	Inferred bool   `json:"inferred,omitempty"`
}

// An AgentEnded says that a sub-agent is over.
type AgentEnded struct {
	Parent   string `json:"parent,omitempty"`
	Error    string `json:"error,omitempty"`
	Inferred bool   `json:"inferred,omitempty"`
}

func (ToolCalled) Kind() Kind    { return "tool.called" }
func (ToolStarted) Kind() Kind   { return "tool.started" }
func (ToolOutput) Kind() Kind    { return "tool.output" }
func (ToolDone) Kind() Kind      { return "tool.done" }
func (ToolFailed) Kind() Kind    { return "tool.failed" }
func (ToolDenied) Kind() Kind    { return "tool.denied" }
func (ToolCancelled) Kind() Kind { return "tool.cancelled" }
func (GateAsked) Kind() Kind     { return "gate.asked" }
func (GateAllowed) Kind() Kind   { return "gate.allowed" }
func (GateDenied) Kind() Kind    { return "gate.denied" }
func (SkillFound) Kind() Kind    { return "skill.found" }
func (SkillLoaded) Kind() Kind   { return "skill.loaded" }
func (SkillRead) Kind() Kind     { return "skill.read" }
func (AgentStarted) Kind() Kind  { return "agent.started" }
func (AgentEnded) Kind() Kind    { return "agent.ended" }

func (ToolCalled) body()    {}
func (ToolStarted) body()   {}
func (ToolOutput) body()    {}
func (ToolDone) body()      {}
func (ToolFailed) body()    {}
func (ToolDenied) body()    {}
func (ToolCancelled) body() {}
func (GateAsked) body()     {}
func (GateAllowed) body()   {}
func (GateDenied) body()    {}
func (SkillFound) body()    {}
func (SkillLoaded) body()   {}
func (SkillRead) body()     {}
func (AgentStarted) body()  {}
func (AgentEnded) body()    {}

// AsToolEnd returns what b says about the end of a call, if it is one.
func AsToolEnd(b Body) (ToolEnd, bool) {
	switch b := b.(type) {
	case ToolDone:
		return ToolEnd(b), true
	case ToolFailed:
		return ToolEnd(b), true
	case ToolDenied:
		return ToolEnd(b), true
	case ToolCancelled:
		return ToolEnd(b), true
	}
	return ToolEnd{}, false
}

// AsGateAnswer returns what b says about a decision, if it is one.
func AsGateAnswer(b Body) (GateAnswer, bool) {
	switch b := b.(type) {
	case GateAllowed:
		return GateAnswer(b), true
	case GateDenied:
		return GateAnswer(b), true
	}
	return GateAnswer{}, false
}
