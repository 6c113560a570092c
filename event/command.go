package event

// A Command is what a run takes from outside: a [Message], [Stop], [Approve], [Deny], [SetMode] or [History]. Whatever door it
// came through, it goes into the session's one inbox. A [Ping], [SetConfig] and [AddServer] are for the door itself: they are
// about what the session is made of.
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

// A Ping asks whether anybody is there.
type Ping struct{}

// A SetConfig changes the model, or how it thinks, from the next message on. What is empty stays as it is.
type SetConfig struct {
	Model    string // its name, at the same provider
	Thinking string // off, low, medium or high
}

// An AddServer adds an MCP server to the session.
type AddServer struct {
	Name      string
	Transport string   // stdio, sse or streamable-http
	Command   []string // the program and its arguments
	Env       map[string]string
	URL       string // of a server that has an address instead
	Headers   map[string]string
}

func (Message) command()   {}
func (Stop) command()      {}
func (Approve) command()   {}
func (Deny) command()      {}
func (SetMode) command()   {}
func (History) command()   {}
func (Ping) command()      {}
func (SetConfig) command() {}
func (AddServer) command() {}
