// Package gate decides what may pass. Rules and a mode go in; allow, ask or deny come out, and with it which rule it was.
// Where the answer is ask, the [Gate] keeps the question open until somebody answers it.
//
//	tool ──Plan──▶ []Access ──Policy.Decide──▶ Decision ──allow, deny──▶ the agent goes on
//	                                              └──ask──▶ Gate.Ask ──▶ Question ──Wait──▶ Answer
//
// # The law
//
// A call passes if all of its accesses pass. For one access:
//
//  1. A deny rule that matches wins, whatever else there is, in every mode.
//  2. In yolo everything else passes.
//  3. Of the ask and allow rules that match, the last in the list wins.
//  4. In auto_edit what only looks or edits passes, but not outside the workspace.
//  5. The rest is asked.
//
// The same as a table; TestTable reads it from here, and docs/permissions.md has a copy that the test compares. The columns
// are what the last matching rule says, and any matching deny:
//
//	┌───────────┬─────────┬───────┬───────┬───────┬──────┐
//	│ mode      │ access  │ none  │ allow │ ask   │ deny │
//	├───────────┼─────────┼───────┼───────┼───────┼──────┤
//	│ default   │ info    │ ask   │ allow │ ask   │ deny │
//	│ default   │ edit    │ ask   │ allow │ ask   │ deny │
//	│ default   │ exec    │ ask   │ allow │ ask   │ deny │
//	│ default   │ mcp     │ ask   │ allow │ ask   │ deny │
//	│ default   │ outside │ ask   │ allow │ ask   │ deny │
//	│ default   │ implied │ allow │ allow │ ask   │ deny │
//	│ auto_edit │ info    │ allow │ allow │ ask   │ deny │
//	│ auto_edit │ edit    │ allow │ allow │ ask   │ deny │
//	│ auto_edit │ exec    │ ask   │ allow │ ask   │ deny │
//	│ auto_edit │ mcp     │ ask   │ allow │ ask   │ deny │
//	│ auto_edit │ outside │ ask   │ allow │ ask   │ deny │
//	│ auto_edit │ implied │ allow │ allow │ ask   │ deny │
//	│ yolo      │ info    │ allow │ allow │ allow │ deny │
//	│ yolo      │ edit    │ allow │ allow │ allow │ deny │
//	│ yolo      │ exec    │ allow │ allow │ allow │ deny │
//	│ yolo      │ mcp     │ allow │ allow │ allow │ deny │
//	│ yolo      │ outside │ allow │ allow │ allow │ deny │
//	│ yolo      │ implied │ allow │ allow │ allow │ deny │
//	└───────────┴─────────┴───────┴───────┴───────┴──────┘
//
// An opaque access is matched by an allow rule only if the rule is for everything, and auto_edit does not let it pass.
package gate

import "github.com/sluice-dev/sluice/event"

// An Access is one thing that a call would do, in the words that rules are written in. A call may pass if all of its
// accesses may.
type Access struct {
	Permission string      // read, edit, bash, glob, grep, todo, task, skill … or the tool's own name; "outside" for a path that is not in the workspace
	Target     string      // what a rule's pattern is held against: a path (slashes; relative to the workspace if inside, else absolute), one simple command, a name
	Class      event.Class // what it can do to the world; modes go by it
	Opaque     bool        // nobody can say what it would do: only a rule for everything ("*") or yolo lets it pass
	Implied    bool        // it comes with another access that must pass: rules may deny it or ask about it, but it needs no allowance
	Why        string      // of an opaque one: what nobody can say
	Called     string      // what a face calls the permission when it is told; empty: as it is
}

// told is what the permission is called where it is told.
func (a Access) told() string {
	if a.Called != "" {
		return a.Called
	}
	return a.Permission
}

// Outside is the permission for a path that is not in the workspace. It is needed beside the one for what is done there.
const Outside = "outside"

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
