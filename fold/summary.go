package fold

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// A Summary says what happened in a run, or in several.
type Summary struct {
	Journals int           `json:"journals"`
	Runs     int           `json:"runs"`
	Unended  int           `json:"unended,omitempty"` // runs without an end
	Outcome  event.Outcome `json:"outcome,omitempty"` // of the last run; of several journals, the first that is not done
	End      event.RunEnd  `json:"end,omitzero"`      // the run's own words for it

	Started  time.Time `json:"started,omitzero"`      // the first event
	Ended    time.Time `json:"ended,omitzero"`        // the last event
	Duration int64     `json:"duration_ms,omitempty"` // of all runs together

	Dialect  string         `json:"dialect,omitempty"`  // what the stream was told in, if the caller says so
	Programs []string       `json:"programs,omitempty"` // who wrote the stream, and in which version
	Backends []string       `json:"backends,omitempty"`
	Models   []string       `json:"models,omitempty"`
	Sessions []string       `json:"sessions,omitempty"`
	Agents   []AgentSummary `json:"agents,omitempty"` // sub-agents

	Replies Replies       `json:"replies,omitzero"`
	Tools   []ToolSummary `json:"tools,omitempty"`
	Spent   Accounts      `json:"spent,omitzero"`
	Gate    GateSummary   `json:"gate,omitzero"`

	Retries      Counted        `json:"retries,omitzero"` // of requests to the provider, by class
	PhaseRetries int            `json:"phase_retries,omitempty"`
	Errors       Counted        `json:"errors,omitzero"` // by message
	Compactions  int            `json:"compactions,omitempty"`
	Findings     int            `json:"findings,omitempty"`
	Excerpts     []Excerpt      `json:"excerpts,omitempty"` // of the first findings
	Loops        []LoopSummary  `json:"loops,omitempty"`
	Phases       []PhaseSummary `json:"phases,omitempty"`

	Events   int                `json:"events"`
	Foreign  int                `json:"foreign,omitempty"`  // lines of another program
	Unread   int                `json:"unread,omitempty"`   // of which nothing could be read
	Unknown  map[event.Kind]int `json:"unknown,omitempty"`  // kinds that this version does not know
	Inferred map[event.Kind]int `json:"inferred,omitempty"` // repairs, of kinds that are opened anyway: not of a call's end
	Untold   map[string]int     `json:"untold,omitempty"`   // what the stream never said: in how many journals
}

// Replies count answers to prompts.
type Replies struct {
	Done      int `json:"done,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Cancelled int `json:"cancelled,omitempty"`
}

// An AgentSummary is one sub-agent.
type AgentSummary struct {
	Agent   string `json:"agent"` // path
	Session string `json:"session,omitempty"`
	Title   string `json:"title,omitempty"`
	Role    string `json:"role,omitempty"`
	Depth   int    `json:"depth,omitempty"`
	Error   string `json:"error,omitempty"`
	Open    bool   `json:"open,omitempty"` // it never ended
}

// A ToolSummary counts the calls of one tool.
type ToolSummary struct {
	Name      string `json:"name,omitempty"`
	Calls     int    `json:"calls"`
	Failed    int    `json:"failed,omitempty"`
	Denied    int    `json:"denied,omitempty"`
	Cancelled int    `json:"cancelled,omitempty"`
	Open      int    `json:"open,omitempty"`       // that never ended
	Total     int64  `json:"total_ms,omitempty"`   // from its start, or from the call where that is not told
	Longest   int64  `json:"longest_ms,omitempty"` // one call
}

// A GateSummary counts questions and who decided.
type GateSummary struct {
	Asked   int              `json:"asked,omitempty"`
	Allowed map[event.By]int `json:"allowed,omitempty"`
	Denied  map[event.By]int `json:"denied,omitempty"`
}

// Counted counts things, and names the first few of them.
type Counted struct {
	Count int     `json:"count"`
	First []Count `json:"first,omitempty"`
}

// A Count is how often something was said.
type Count struct {
	Text  string `json:"text,omitempty"`
	Count int    `json:"count"`
}

// An Excerpt is the line of text that holds a finding.
type Excerpt struct {
	Seq   uint64 `json:"seq"`
	Agent string `json:"agent,omitempty"`
	Text  string `json:"text"`
}

// A LoopSummary is one loop of phases.
type LoopSummary struct {
	Max        int    `json:"max_iterations,omitempty"`
	Iterations int    `json:"iterations"` // that were completed
	Reason     string `json:"reason,omitempty"`
	Label      string `json:"label,omitempty"`
	Open       bool   `json:"open,omitempty"` // it never ended
}

// A PhaseSummary is how often a phase of a loop ran.
type PhaseSummary struct {
	Phase string `json:"phase"`
	Runs  int    `json:"runs"`
	Total int64  `json:"total_ms,omitempty"`
}

// maxFirst is how many messages and excerpts are kept.
const maxFirst = 5

func (c *Counted) add(text string, n int) {
	c.Count += n
	for i := range c.First {
		if c.First[i].Text == text {
			c.First[i].Count += n
			return
		}
	}
	if len(c.First) < maxFirst {
		c.First = append(c.First, Count{text, n})
	}
}

// merge adds another summary that stands after s.
func (s *Summary) merge(o Summary) {
	if o.Journals == 0 {
		return
	}
	if s.Journals == 0 || s.Outcome == event.Done && o.Outcome != event.Done {
		s.Outcome, s.End = o.Outcome, o.End
	}
	s.Journals += o.Journals
	s.Runs += o.Runs
	s.Unended += o.Unended
	if s.Started.IsZero() || !o.Started.IsZero() && o.Started.Before(s.Started) {
		s.Started = o.Started
	}
	if o.Ended.After(s.Ended) {
		s.Ended = o.Ended
	}
	s.Duration += o.Duration
	s.Programs = union(s.Programs, o.Programs)
	s.Backends = union(s.Backends, o.Backends)
	s.Models = union(s.Models, o.Models)
	s.Sessions = union(s.Sessions, o.Sessions)
	s.Agents = concat(s.Agents, o.Agents)
	s.Replies.Done += o.Replies.Done
	s.Replies.Failed += o.Replies.Failed
	s.Replies.Cancelled += o.Replies.Cancelled
	s.Tools = unite(s.Tools, o.Tools, func(t ToolSummary) string { return t.Name }, (*ToolSummary).add)
	s.Spent = s.Spent.add(o.Spent)
	s.Gate.Asked += o.Gate.Asked
	s.Gate.Allowed = addMaps(s.Gate.Allowed, o.Gate.Allowed)
	s.Gate.Denied = addMaps(s.Gate.Denied, o.Gate.Denied)
	s.Retries = s.Retries.merge(o.Retries)
	s.PhaseRetries += o.PhaseRetries
	s.Errors = s.Errors.merge(o.Errors)
	s.Compactions += o.Compactions
	s.Findings += o.Findings
	s.Excerpts = first(concat(s.Excerpts, o.Excerpts))
	s.Loops = concat(s.Loops, o.Loops)
	s.Phases = unite(s.Phases, o.Phases, func(p PhaseSummary) string { return p.Phase }, func(p *PhaseSummary, o PhaseSummary) {
		p.Runs += o.Runs
		p.Total += o.Total
	})
	s.Events += o.Events
	s.Foreign += o.Foreign
	s.Unread += o.Unread
	s.Unknown = addMaps(s.Unknown, o.Unknown)
	s.Inferred = addMaps(s.Inferred, o.Inferred)
	s.Untold = addMaps(s.Untold, o.Untold)
}

func (t *ToolSummary) add(o ToolSummary) {
	t.Calls += o.Calls
	t.Failed += o.Failed
	t.Denied += o.Denied
	t.Cancelled += o.Cancelled
	t.Open += o.Open
	t.Total += o.Total
	t.Longest = max(t.Longest, o.Longest)
}

// merge keeps the first texts of both; what was left out of either stays in the count.
func (c Counted) merge(o Counted) Counted {
	sum := Counted{Count: c.Count + o.Count}
	sum.First = first(unite(c.First, o.First, func(c Count) string { return c.Text }, func(c *Count, o Count) { c.Count += o.Count }))
	return sum
}

func first[T any](list []T) []T { return list[:min(len(list), maxFirst)] }

func concat[T any](a, b []T) []T { return append(a[:len(a):len(a)], b...) }

// union returns the strings of a, and then those that only b has.
func union(a, b []string) []string {
	return unite(a, b, func(s string) string { return s }, func(*string, string) {})
}

func addMaps[K comparable](a, b map[K]int) map[K]int {
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(b)
	for k, n := range a {
		sum[k] += n
	}
	return sum
}

// clone returns a summary that shares nothing with s that is still counted in.
func (s Summary) clone() Summary {
	s.Programs, s.Backends, s.Models, s.Sessions = slices.Clone(s.Programs), slices.Clone(s.Backends), slices.Clone(s.Models), slices.Clone(s.Sessions)
	s.Gate.Allowed, s.Gate.Denied = maps.Clone(s.Gate.Allowed), maps.Clone(s.Gate.Denied)
	s.Retries.First, s.Errors.First = slices.Clone(s.Retries.First), slices.Clone(s.Errors.First)
	s.Excerpts, s.Loops = slices.Clone(s.Excerpts), slices.Clone(s.Loops)
	s.Unknown, s.Inferred, s.Untold = maps.Clone(s.Unknown), maps.Clone(s.Inferred), maps.Clone(s.Untold)
	return s
}
