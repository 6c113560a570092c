// Package control is for those who answer and steer a run from outside, by files or over a socket.
//
//	              ┌── Files ──▶ BASE.req … BASE.req.response       a gate.Attendant: one file for each open question
//	gate ◀─Answer─┤
//	              └── Server ◀─JSON-RPC by line─▶ Client           status, subscribe, prompt, cancel, answer_permission …
//	journal ──────────▲
//
// The server keeps nothing about a run: where it stands is a fold over its journal, read on when somebody asks, and subscribers
// are fed from the file. So nobody can be too slow, a client that comes back says from which number on, and who only looks
// changes nothing.
package control

import (
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// A Run is what a [Server] steers. Its methods may be called by many goroutines at once, and return soon: what they ask for
// may happen later. They may be called when the run is over, and say so.
type Run interface {
	// Info says what the run is. Only Exit and Parks change.
	Info() Info
	// Send puts a command into the run's inbox.
	Send(event.Command) error
	// Interrupt stops the reply that goes on and asks for another. Messages that wait are answered after it, or forgotten.
	Interrupt(m event.Message, keep bool) error
	// Cancel ends the run.
	Cancel(reason string) error
	// Answer answers an open question. The errors are the gate's.
	Answer(request string, a gate.Answer) error
	// Emit puts somebody's own event into the run's stream.
	Emit(event.Custom) error
}

// An Info is what a run is.
type Info struct {
	ID       string // by which the server knows it
	Label    string
	Run      string // its run id, if it is another
	Journal  string // path
	Dir      string // in which it works
	Backend  string
	Agent    string
	Model    string
	Parent   string // the run that spawned it
	Events   string // where its stream is written, if that is a file
	Sentinel string // file that says how it ended
	Parks    bool   // if its reply is over it waits for a prompt: it does not end, and has none
	PID      int
	Started  time.Time
	Exit     *int // its exit code, once it is over
}
