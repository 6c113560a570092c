// Package script is the scripted model's file: what a model says, step by step, and how it fails.
//
//	model: scripted-1
//	steps:
//	  - thinking: Let me see.
//	    text: I will look.
//	    call: {tool: bash, input: {command: ls}}
//	  - text: Two files.
//	    usage: {input: 120, output: 8}
//
// A request is answered by the step whose place is the number of answers that the request's history already holds. So a
// script needs no memory of who asks: fifty runs may share one server, and a resumed run goes on where it was.
//
// The same file is read by the provider "script" in process and by the model server behind real wire formats.
package script

import "time"

// A Script is what a model will say.
type Script struct {
	Model         string         `yaml:"model"`         // the name it goes by; empty: whatever the request names
	Chunk         int            `yaml:"chunk"`         // runes in a delta; 0: a block is one delta
	Delay         Duration       `yaml:"delay"`         // before each delta
	Usage         Usage          `yaml:"usage"`         // of a step that names none
	Advance       string         `yaml:"advance"`       // history (or empty): the step follows from the request; request: each request takes the next step
	Loop          bool           `yaml:"loop"`          // after the last step comes the first again; else a request beyond it is refused with status 400
	Steps         []Step         `yaml:"steps"`         // of every conversation that no entry of Conversations takes
	Conversations []Conversation `yaml:"conversations"` // the first that matches answers
}

// A Conversation is a script of its own for requests of a kind: a sub-agent's, a title's.
type Conversation struct {
	When  When   `yaml:"when"`
	Steps []Step `yaml:"steps"`
}

// When says which requests are meant: those that match every expression that is given.
type When struct {
	System string `yaml:"system"` // regular expression on the system prompt
	Prompt string `yaml:"prompt"` // … on the first user message
	Last   string `yaml:"last"`   // … on the last user message or tool result
	Model  string `yaml:"model"`  // … on the name of the model
}

// A Step is one answer. Thinking, Text and Calls are said in that order; Content says them in another.
type Step struct {
	Thinking string   `yaml:"thinking"`
	Text     string   `yaml:"text"`
	Call     *Call    `yaml:"call"` // short for a list of one
	Calls    []Call   `yaml:"calls"`
	Content  []Block  `yaml:"content"`
	Finish   string   `yaml:"finish"` // stop, tool_calls, length, refusal, stop_sequence; empty: tool_calls if there are calls, else stop
	Usage    *Usage   `yaml:"usage"`
	NoUsage  bool     `yaml:"no_usage"` // say nothing of tokens
	Chunk    int      `yaml:"chunk"`
	Delay    Duration `yaml:"delay"`
	Repeat   int      `yaml:"repeat"` // so many steps like this; 0 and 1 are one
	Fault    *Fault   `yaml:"fault"`
}

// A Block is one of its fields.
type Block struct {
	Thinking string `yaml:"thinking"`
	Text     string `yaml:"text"`
	Call     *Call  `yaml:"call"`
}

// A Call is a tool call.
type Call struct {
	ID    string `yaml:"id"` // empty: made from step and place, so that it is the same each time
	Tool  string `yaml:"tool"`
	Input any    `yaml:"input"` // arguments; any YAML
	Raw   string `yaml:"raw"`   // arguments as they stand, instead of Input: also what is not JSON
}

// Usage counts tokens as [event.Usage] does: each in one bucket.
type Usage struct {
	Input      int64 `yaml:"input"`
	Output     int64 `yaml:"output"`
	Reasoning  int64 `yaml:"reasoning"`
	CacheRead  int64 `yaml:"cache_read"`
	CacheWrite int64 `yaml:"cache_write"`
}

// A Fault is how a step fails, instead of or in the middle of being said. One of Status, Cut, Hang, Malformed, WrongJSON,
// InStream and Trickle is set.
type Fault struct {
	Status    int               `yaml:"status"`     // HTTP status, in the wire format's own error body
	Headers   map[string]string `yaml:"headers"`    // with Status
	Type      string            `yaml:"type"`       // the wire format's word for the error; empty: what goes with Status
	Message   string            `yaml:"message"`    // with Status
	Cut       string            `yaml:"cut"`        // the connection breaks: start, text, thinking or call: in the middle of the first such block; end: before the last event
	Hang      string            `yaml:"hang"`       // the same places; nothing more comes, and the connection stays
	Malformed bool              `yaml:"malformed"`  // an SSE event that is none
	WrongJSON bool              `yaml:"wrong_json"` // an event of the right name with the wrong JSON
	InStream  string            `yaml:"in_stream"`  // an error event of this type (overloaded_error …) after the first block, status 200
	Trickle   Duration          `yaml:"trickle"`    // every byte of the answer after such a pause
	Times     int               `yaml:"times"`      // only the first so many requests of this step; 0: every one
}

// A Duration is written as Go writes it: 20ms, 1.5s.
type Duration time.Duration

// Answers returns how many answers a script's own steps give before they are over.
func (s *Script) Answers() (n int) {
	for _, step := range s.Steps {
		n += max(step.Repeat, 1)
	}
	return n
}
