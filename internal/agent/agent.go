// Package agent is our own agent: a session with an inbox.
//
//	Command ──inbox──▶ Session ──┬── provider: one answer ──▶ blocks, calls
//	                             ├── gate: may this call pass?
//	                             └── tool: do it ──▶ events, all into one Source
//
// A message opens a reply. A reply is a row of turns: the model is asked, its calls pass the gate and run, their results go
// back to it, until it calls nothing more or something ends the reply. Every reply ends in one reply.* event; the run around
// it is ended by whoever started it.
//
// The history that the model is told is a fold over the events that were emitted, so a resumed session and one that never
// stopped say the same.
package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/skill"
	"github.com/sluice-dev/sluice/internal/tool"
)

// Config is what an agent is made of.
type Config struct {
	Open     func(context.Context) (provider.Model, error) // asked once, when the first answer is due
	Provider string                                        // named in events
	Model    string
	Profile  string
	Session  string  // in the headers of its events; empty: the source's
	Common   *Common // with the other sessions of the journal; nil: there are none
	System   string  // what the model is told first
	Tools    []tool.Tool
	Only     []string                     // names of the tools that it has, task and skill included; nil: all
	Names    map[string]string            // what task and skill are called here; an empty one: there is none
	Args     map[string]map[string]string // and what their arguments are called
	Describe map[string]string            // what calls of a tool are called, with %s for their title; its name and that, if it is not there
	Gate     *gate.Gate
	// Permission is what a permission that a tool asks for is called where it is told; nil: as it is.
	Permission func(tool, permission string) string
	Price      provider.Price // zero: unknown; its window is the model's

	MaxTokens int    // of one answer; 0: the provider's usual
	Longer    string // what to do about an answer that was cut there; empty: to ask for less
	Thinking  string // as [provider.Request] has it
	Forget    bool   // what the model thought is not told to it again
	Turns     int    // answers in one reply, or of one sub-agent; 0: no limit
	Rounds    int    // rounds of calls, likewise
	Steps     int    // rounds, likewise; but after the last one the model is not asked for a word to end with
	Clip      int    // bytes of a call's output that the model is shown; 0: [tool.Shown]
	Budget    Budget // of the session and its sub-agents together

	Options []event.Option // that questions offer; nil: [gate.Options]
	OnAsk   string         // what happens to a question that nobody answers: deny (or empty), fail
	Answer  time.Duration  // how long an answer may take; 0: for ever

	Depth      int                                   // how deep sub-agents may be nested; 0: there are none
	Workspace  string                                // the folder it works in
	Skills     []skill.Skill                         // that may be loaded
	Roles      []Role                                // that a sub-agent may be given
	NewSession func() string                         // names a sub-agent's session
	Check      func(answer string) error             // says what is wrong with a final answer, if set
	Judge      func(outcome.Verdict) outcome.Verdict // has the last word on a reply, before its end is told, if set

	Before   func(context.Context, Call) error          // may refuse a call that passed the gate, if set
	After    func(context.Context, Call, event.ToolEnd) // told of every call that ran, and of its end, if set
	Changing func()                                     // called before the first call that may change something, if set
	Now      func() time.Time
}

// A Call is a tool call as others than the model see it.
type Call struct {
	ID    string
	Agent string
	Tool  string
	Input event.Raw
}

// A Session is one conversation: that of the top agent, or of a sub-agent.
//
// Whoever owns the [event.Source] ends the context when it breaks: the session itself does not look at its errors.
type Session struct {
	*shared
	cfg   Config
	path  string // of a sub-agent
	name  string // of a sub-agent's session
	depth int
	tools map[string]tool.Tool
	list  []tool.Spec
	specs []provider.Tool // the same, as a model is told

	own     *model          // of a sub-agent whose role has another one; nil: the shared one
	history fold.Transcript // under the mutex
	turn    int             // number of the last one
}

// A model is one that was opened, or will be.
type model struct {
	mu sync.Mutex
	m  provider.Model
}

// shared is what a session and its sub-agents have together.
type shared struct {
	*Common
	src      *event.Source
	changing sync.Once

	model model

	mu      sync.Mutex
	asked   map[string]string // call → its question, the last one
	latest  *reply            // the last one that was begun
	changes []func(*Config)   // to be made before the next one
	denials int
	denied  string // why the first of them was
}

// New makes a session that emits into src. Events of an earlier life of the session are given to [Session.Recall] first.
func New(cfg Config, src *event.Source) *Session {
	if cfg.Clip == 0 {
		cfg.Clip = tool.Shown
	}
	if cfg.Common == nil {
		cfg.Common = NewCommon(src.Last())
	}
	s := newSession(&shared{src: src, Common: cfg.Common, asked: map[string]string{}}, cfg)
	s.name = cfg.Session
	return s
}

func newSession(sh *shared, cfg Config) *Session {
	s := &Session{shared: sh, cfg: cfg}
	s.arm()
	return s
}

// arm gives the session its tools.
func (s *Session) arm() {
	s.tools, s.list, s.specs = map[string]tool.Tool{}, nil, nil
	for _, t := range s.cfg.Tools {
		s.add(t)
	}
	if len(s.cfg.Skills) > 0 {
		s.addAs(invoke{s.cfg.Skills})
	}
	if s.cfg.Depth > 0 {
		s.addAs(task{s})
	}
}

// addAs adds a tool of the agent's own under the name that it has here.
func (s *Session) addAs(t tool.Tool) {
	own := t.Spec().Name
	name, ok := s.cfg.Names[own]
	if !ok {
		name = own
	}
	if name != "" {
		s.add(tool.As(t, name, s.cfg.Args[own]))
	}
}

// Tools are the tools that the model is told of.
func (s *Session) Tools() []tool.Spec { return slices.Clone(s.list) }

// has says whether an agent has tools of a name, if there are any.
func (c Config) has(name string) bool { return c.Only == nil || slices.Contains(c.Only, name) }

func (s *Session) add(t tool.Tool) {
	spec := t.Spec()
	if !s.cfg.has(spec.Name) {
		return
	}
	s.tools[spec.Name] = t
	s.list = append(s.list, spec)
	s.specs = append(s.specs, provider.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
}
