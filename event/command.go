package event

// A Command is what a run takes from outside: a [Message], [Stop], [Approve], [Deny], [SetMode] or [History]. Whatever door it
// came through, it goes into the session's one inbox.
type Command interface{ command() }

// A Message asks for a reply.
type Message struct {
	ID     string // the client's; its reply carries it
	Text   string
	Files  []string // paths
	Source string   // as [Prompt] has it; empty: client
}

// A Stop cancels the reply that goes on.
type Stop struct{}

// An Approve lets a pending call pass.
type Approve struct {
	Call  string
	Scope string // once, or always for the session; empty means once
}

// A Deny refuses a pending call; the model is told why.
type Deny struct {
	Call   string
	Reason string
}

// A SetMode changes the approval mode for the session.
type SetMode struct {
	Mode string // default, auto_edit or yolo
}

// A History gives context from before the first message.
type History struct {
	Text string
}

func (Message) command() {}
func (Stop) command()    {}
func (Approve) command() {}
func (Deny) command()    {}
func (SetMode) command() {}
func (History) command() {}
