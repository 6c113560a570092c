// Package guest lets another agent do the work: its process is ours to start, to steer and to end, and what it says becomes
// our events.
//
//	Command ──inbox──▶ Session ──tongue──▶ stdin ──▶ ┌───────────────┐
//	                      ▲                          │ the guest, and │
//	 events ◀──Mender─────┴──tongue◀──lines◀─spool◀──│ what it starts │
//	   gate ◀── may this call pass? ──▶ answer       └───────────────┘
//
// A [Session] is used as one of our own agent is: a message opens a reply, and every reply ends in one reply.* event, whatever
// becomes of the process. Each line that is read is kept as a foreign event, and what was read from it follows and names it.
//
// # What is believed
//
// A guest's word that it is done is believed if nothing speaks against it: a process that ends before it said so has failed,
// whatever its exit code is; one that says so and exits with another code than 0, while nobody stopped it, has failed too. A last line
// that is cut is no word. What is open when the end comes is closed, and marked inferred.
//
// # Order
//
// One goroutine reads the lines, one after another, and does all that follows from them. Lines are taken off the pipe by
// others, so that a reader of ours who is slow does not hold up a program that would lose its end.
package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/tool"
)

// Config is how a guest is started and under which rules it works.
type Config struct {
	Agent     string // claude, acp:COMMAND, or a name that [Names] lists
	Workspace string // the folder that it works in
	Model     string // in the guest's own words; empty: its usual one
	Profile   string // an agent or mode of the guest's own; empty: its usual one
	Resume    string // the guest's own name of a session that goes on: see [SessionOf]
	Session   string // in the headers of its events; empty: the source's
	Label     string // a person's name for the run, where the guest takes one
	Terminal  string // of a guest on one: pty (or empty), tmux
	Temp      string // folder for what lives as long as the session; empty: the system's

	Sidecar []string // how the sidecar of a channel is started: a program and its arguments

	broker     *broker
	terminalID string // name of a session on a terminal, which we choose

	Environ []string // what its environment is made of; nil: ours
	Env     []string // added to that
	Group   *proc.Group
	Gate    *gate.Gate
	Approve bool          // every question is answered with yes
	OnAsk   string        // what happens to a question that nobody answers: deny (or empty), fail
	Answer  time.Duration // how long an answer may take; 0: for ever

	Stay   bool                                  // it stays between one Serve and the next, and Close ends it
	Judge  func(outcome.Verdict) outcome.Verdict // has the last word on a reply, before its end is told, if set
	CallID func(string) string                   // makes the guest's id of a call one that the journal does not have, where others write there too; nil: we alone do

	Grace    time.Duration // for a guest that was told to stop, and for one that may leave; 0: three seconds
	Greeting time.Duration // for one that does not say that it can be asked, nor anything else; 0: five minutes
	Now      func() time.Time
}

// A Session is one conversation with a guest.
type Session struct {
	cfg   Config
	guest known
	src   *event.Source
	space *tool.Workspace

	link    *link // nil: nothing runs
	tongue  tongue
	id      string // what the guest calls this conversation
	history string // to go before the first prompt
	stayed  bool   // it is there between one Serve and the next
	amiss   string // what went wrong before anything was asked

	greeting <-chan time.Time // when a guest is given up that cannot be asked yet
	strays   int              // bytes of noise on stdout so far

	mend    event.Mender
	of      uint64 // the line that is being read
	ids     uint64
	used    map[string]bool  // ids of calls, of all time
	calls   map[string]*call // by the guest's id
	asks    map[string]*question
	answers chan answered
	over    chan struct{} // closed when Serve returns: nobody takes answers
	now     *reply
	denials int
	denied  string // why the first of them was
}

// A tongue is what one kind of guest speaks. It is used by one goroutine.
type tongue interface {
	greet()                             // opens the conversation
	ready() bool                        // the greeting was answered: it can be asked
	prompt(text string, files []string) // asks
	line(line []byte)                   // takes a line that was read
	interrupt()                         // stops what it is at
	settle(q *question, a gate.Answer)  // answers a question of the guest's
	drop(q *question)                   // says that nobody will
	end()                               // there are no more lines
	tick() (next time.Duration)         // does what had to wait; 0: nothing waits
}

// Open starts a guest. Nothing is started for a ctx that has ended.
func Open(ctx context.Context, cfg Config, src *event.Source) (*Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	k, err := parse(cfg.Agent)
	if err != nil {
		return nil, err
	}
	if cfg.Group == nil || cfg.Gate == nil {
		return nil, errors.New("guest: there is no group or no gate")
	}
	if err := bound(k, cfg); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Grace == 0 {
		cfg.Grace = 3 * time.Second
	}
	if cfg.Greeting == 0 {
		cfg.Greeting = 5 * time.Minute // it may have to be fetched first
	}
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	s := &Session{
		cfg: cfg, guest: k, src: src, space: tool.OpenWorkspace(cfg.Workspace), id: cfg.Resume, ids: src.Last(),
		used: map[string]bool{}, calls: map[string]*call{}, asks: map[string]*question{}, answers: make(chan answered),
	}
	if err := s.start(cfg.Resume); err != nil {
		return nil, err
	}
	return s, nil
}

// bound says why a guest that asks nobody is not started: unless everything may pass, it would look as if rules held it.
func bound(k known, cfg Config) error {
	if !k.unasked {
		return nil
	}
	p := cfg.Gate.Policy()
	for _, r := range p.Rules {
		if r.Action == gate.Deny {
			return fmt.Errorf("%s asks nobody before it acts, so the rule that denies %s cannot hold: leave the rule out, or drive another agent", k.name, gate.RuleText(r))
		}
	}
	if p.Mode != gate.ModeYolo && !cfg.Approve || p.Own != nil {
		return fmt.Errorf("%s asks nobody before it acts, and no rule can hold it: if it may do whatever it likes, say so with --mode yolo or --auto-approve", k.name)
	}
	return nil
}

// Close ends a guest that was opened and never served, or that stays. Else there is nothing left to end after [Session.Serve].
func (s *Session) Close() {
	switch {
	case s.link == nil:
	case s.stayed:
		s.over = make(chan struct{})
		s.leave()
	default:
		s.link.kill()
		s.link.close()
		s.link = nil
	}
}

// start starts the process, and greets it.
func (s *Session) start(resume string) error {
	env := append(environment(s.cfg.Environ), s.cfg.Env...)
	var l *link
	var err error
	if s.guest.terminal {
		s.cfg.terminalID = newID()
		l, err = openTUI(s, env, resume)
	} else {
		l, err = open(s.cfg.Group, proc.Cmd{Args: s.guest.command(s.cfg, resume), Dir: s.cfg.Workspace, Env: env, Pipe: true}, s.cfg.Grace)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be started: %w", s.guest.name, err)
	}
	s.link, s.amiss, s.greeting = l, "", time.After(s.cfg.Greeting)
	s.tongue = s.guest.speak(s, resume)
	s.tongue.greet()
	return nil
}

// Backend is what the guest is called where backends have names.
func (s *Session) Backend() string { return s.guest.backend }

// Loads says whether development channels are loaded, where that can be.
func (s *Session) Loads() *bool {
	if !s.guest.terminal {
		return nil
	}
	return new(s.guest.channel)
}

// ID is what the guest calls this conversation, empty while it has not said so: a [Config] with it in Resume goes on with it.
func (s *Session) ID() string { return s.id }

const sessionMark = "the guest's session is "

// learn takes the guest's name for the conversation, and keeps it in the journal.
func (s *Session) learn(id string) {
	if id != "" && id != s.id {
		s.id = id
		s.tell(event.Event{Body: event.Diag{Text: sessionMark + id, Source: s.guest.name}})
	}
}

// SessionOf reads the guest's own name of a session from an event of an earlier run, to go on with it.
func SessionOf(e event.Event) (id string, ok bool) {
	d, is := e.Body.(event.Diag)
	if !is || len(d.Text) <= len(sessionMark) || d.Text[:len(sessionMark)] != sessionMark {
		return "", false
	}
	return d.Text[len(sessionMark):], true
}

// Recall tells the session what happened in its journal before: no id is used twice.
func (s *Session) Recall(e event.Event) {
	if _, ok := e.Body.(event.ToolCalled); ok {
		s.used[e.Call] = true
	}
}

// name makes an id that the journal does not have.
func (s *Session) name(what string) string {
	s.ids++
	return fmt.Sprintf("%s%d", what, s.ids)
}

func (s *Session) time() time.Time { return s.cfg.Now().UTC().Truncate(time.Millisecond) }
