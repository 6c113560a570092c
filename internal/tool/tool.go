// Package tool is what the agent can do: one file each. A tool reads its arguments into a [Plan], which says what it would
// touch before it touches anything; the gate decides on that; then the plan runs.
package tool

import (
	"context"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// A Tool does one kind of thing for the model.
type Tool interface {
	Spec() Spec
	// Plan reads the arguments, which may be any JSON. An error is shown to the model as the call's failure: it says what
	// was wrong with them and what would be right. Plan changes nothing.
	Plan(input event.Raw) (Plan, error)
}

// A Spec is a tool as model, gate and catalog see it.
type Spec struct {
	Name        string
	Description string
	Class       event.Class
	Schema      event.Raw // JSON Schema of the arguments: an object
	Top         bool      // only for the top agent: it keeps something that is not to be shared
}

// A Plan is a call that has been read and has not begun.
type Plan struct {
	Title  string        // short, for a person: "git status", "main.go"
	Access []gate.Access // what it would touch; empty: nothing that anyone need be asked about
	Diff   string        // what it would change, where that can be told beforehand
	// Run does it. Live output goes to out as it comes, if the tool has any; out may be called until Run returns, from any
	// goroutine. Run returns soon after ctx ends.
	Run func(ctx context.Context, out func(text string)) Result
}

// A Result is what came of a call.
type Result struct {
	Output    string    // valid UTF-8; whole, but for what was too large to keep
	Error     string    // not empty: the call failed, and this is why, in one line
	Exit      *int      // of a command
	Type      string    // of the output: empty for text, diff, image (base64)
	Metadata  event.Raw // an object: file_path, mime, added, removed, spill …
	Truncated bool      // Output is not all: the rest is in the file that Metadata's "spill" names
	Title     string    // if it is another than the plan's
}
