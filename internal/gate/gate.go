// Package gate decides what may pass. Rules and a mode go in; allow, ask or deny come out, and with it which rule it was.
package gate

import "github.com/sluice-dev/sluice/event"

// An Access is one thing that a call would do, in the words that rules are written in. A call may pass if all of its
// accesses may.
type Access struct {
	Permission string      // read, edit, bash, glob, grep, todo, task, skill … or the tool's own name; "outside" for a path that is not in the workspace
	Target     string      // what a rule's pattern is held against: a path (slashes; relative to the workspace if inside, else absolute), one simple command, a name
	Class      event.Class // what it can do to the world; modes go by it
	Opaque     bool        // nobody can say what it would do: only a rule for everything ("*") or yolo lets it pass
}

// The modes.
const (
	ModeDefault  = "default"   // what no rule allows is asked
	ModeAutoEdit = "auto_edit" // looking and editing pass
	ModeYolo     = "yolo"      // what no rule denies passes
)

// The actions of a rule.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)
