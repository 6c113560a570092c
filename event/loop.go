package event

// This file has the words of a supervisor: what it says around the sessions that it runs, and what a guest on a channel
// reports to it.

// A Status says what the agent is at.
type Status struct {
	Phase  string `json:"phase"` // thinking, working, waiting, done
	Label  string `json:"label,omitempty"`
	Source string `json:"source,omitempty"` // who says so: the supervisor, the agent itself, a transcript, a terminal
}

// A LoopStarted opens a loop of phases.
type LoopStarted struct {
	MaxIterations int  `json:"max_iterations"`
	Pre           int  `json:"pre"`            // number of phases before the loop
	Loop          int  `json:"loop"`           // in it
	Post          int  `json:"post,omitempty"` // and after it
	Inferred      bool `json:"inferred,omitempty"`
}

// A LoopEnded closes it.
type LoopEnded struct {
	Reason     string `json:"reason,omitempty"` // end_turn, abort, exit, max_iterations, phase_failure, timeout, cancelled
	Iterations int    `json:"iterations"`       // that were completed
	Label      string `json:"label,omitempty"`
	Inferred   bool   `json:"inferred,omitempty"`
}

// A PhaseStarted opens a phase.
type PhaseStarted struct {
	Phase     string `json:"phase"`
	Iteration int    `json:"iteration"`      // 0 outside the loop
	Part      string `json:"part,omitempty"` // pre, loop or post
	Inferred  bool   `json:"inferred,omitempty"`
}

// A PhaseEnded closes it.
type PhaseEnded struct {
	Phase     string `json:"phase"`
	Iteration int    `json:"iteration"`
	Stop      string `json:"stop,omitempty"`   // as [ReplyEnd] has it
	Marker    string `json:"marker,omitempty"` // exit or abort, if the text had such a directive
	Label     string `json:"label,omitempty"`  // of the marker
	Inferred  bool   `json:"inferred,omitempty"`
}

// A PhaseRetry says that a phase is tried again.
type PhaseRetry struct {
	Attempt int `json:"attempt"` // 1 is the first retry
	Limit   int `json:"limit,omitempty"`
}

// A Plan is the agent's plan, in the backend's own words.
type Plan struct {
	Fields Raw `json:"fields,omitempty"` // an object
}

// A ChannelReady says that a guest's channel is open.
type ChannelReady struct {
	Server string `json:"server,omitempty"`
	Source string `json:"source,omitempty"`
}

// A ChannelQueued says that a prompt waits to be fetched by the guest.
type ChannelQueued struct {
	Control  string `json:"control,omitempty"` // id of the message
	Type     string `json:"type,omitempty"`
	Delivery string `json:"delivery,omitempty"`
	Length   int    `json:"length"` // bytes of the prompt
}

// A ChannelSubmitted says that a prompt was typed into the guest's terminal.
type ChannelSubmitted struct {
	Delivery string `json:"delivery,omitempty"`
	Length   int    `json:"length"`
}

// A Report is what a guest says of itself.
type Report struct {
	State   string `json:"state,omitempty"`
	Payload Raw    `json:"payload,omitempty"`
	Source  string `json:"source,omitempty"`
}

// An Answer is what a guest says to somebody.
type Answer struct {
	To      string `json:"to,omitempty"`
	Payload Raw    `json:"payload,omitempty"`
	Source  string `json:"source,omitempty"`
}

// A Finished is what a guest says at its end.
type Finished struct {
	Status  string   `json:"status,omitempty"`
	Summary string   `json:"summary,omitempty"`
	Files   []string `json:"files,omitempty"`
	Payload Raw      `json:"payload,omitempty"`
	Source  string   `json:"source,omitempty"`
}

// A Custom is somebody's own event, carried untouched.
type Custom struct {
	Name   string `json:"name"`
	Fields Raw    `json:"fields,omitempty"` // an object
}

// An Error says that something went wrong. It need not end the run.
type Error struct {
	Code        string `json:"code,omitempty"`
	Class       string `json:"class,omitempty"` // as [RunEnd] has it
	Name        string `json:"name,omitempty"`
	Message     string `json:"message"`
	Retryable   *bool  `json:"retryable,omitempty"`
	Source      string `json:"source,omitempty"` // subsystem
	Prompt      string `json:"prompt,omitempty"` // the prompt that it belongs to
	Type        string `json:"type,omitempty"`   // of a degenerate stream, for one
	Stop        string `json:"stop,omitempty"`   // the stop reason that follows
	Model       string `json:"model,omitempty"`
	Data        Raw    `json:"data,omitempty"`        // in the stream's own words
	Diagnostics Raw    `json:"diagnostics,omitempty"` // what a detector saw
}

// A Notice is for a person to read.
type Notice struct {
	Text   string `json:"text"`
	Prompt string `json:"prompt,omitempty"` // the prompt that it belongs to
}

// A Diag is a guest's noise, kept.
type Diag struct {
	Text   string `json:"text"`
	Source string `json:"source,omitempty"`
}

func (Status) Kind() Kind           { return "status" }
func (LoopStarted) Kind() Kind      { return "loop.started" }
func (LoopEnded) Kind() Kind        { return "loop.ended" }
func (PhaseStarted) Kind() Kind     { return "phase.started" }
func (PhaseEnded) Kind() Kind       { return "phase.ended" }
func (PhaseRetry) Kind() Kind       { return "phase.retry" }
func (Plan) Kind() Kind             { return "plan" }
func (ChannelReady) Kind() Kind     { return "channel.ready" }
func (ChannelQueued) Kind() Kind    { return "channel.queued" }
func (ChannelSubmitted) Kind() Kind { return "channel.submitted" }
func (Report) Kind() Kind           { return "report" }
func (Answer) Kind() Kind           { return "answer" }
func (Finished) Kind() Kind         { return "finish" }
func (Custom) Kind() Kind           { return "custom" }
func (Error) Kind() Kind            { return "error" }
func (Notice) Kind() Kind           { return "notice" }
func (Diag) Kind() Kind             { return "diag" }

func (Status) body()           {}
func (LoopStarted) body()      {}
func (LoopEnded) body()        {}
func (PhaseStarted) body()     {}
func (PhaseEnded) body()       {}
func (PhaseRetry) body()       {}
func (Plan) body()             {}
func (ChannelReady) body()     {}
func (ChannelQueued) body()    {}
func (ChannelSubmitted) body() {}
func (Report) body()           {}
func (Answer) body()           {}
func (Finished) body()         {}
func (Custom) body()           {}
func (Error) body()            {}
func (Notice) body()           {}
func (Diag) body()             {}
