package event

import "time"

// A TurnStarted says that the model was asked for one answer.
type TurnStarted struct {
	Number   int  `json:"number,omitempty"` // from 1, within the run and the agent
	Inferred bool `json:"inferred,omitempty"`
}

// A Finish says why the model stopped.
type Finish string

// Why a model stops.
const (
	FinishStop      Finish = "stop"          // it is done
	FinishToolCalls Finish = "tool_calls"    // it wants tools
	FinishLength    Finish = "length"        // its answer was cut by the output limit
	FinishRefusal   Finish = "refusal"       // it, or a filter, refused
	FinishSequence  Finish = "stop_sequence" // it met a configured stop sequence
	FinishError     Finish = "error"         // the answer was never completed
	FinishOther     Finish = "other"         // something else: see Said
)

// A TurnEnded says that the model's answer is complete, and what it cost. Its calls may follow.
type TurnEnded struct {
	Number   int     `json:"number,omitempty"`
	Provider string  `json:"provider,omitempty"`
	Model    string  `json:"model,omitempty"`
	Profile  string  `json:"profile,omitempty"` // agent profile that asked
	Finish   Finish  `json:"finish,omitempty"`  // our word; empty where the stream does not say
	Said     string  `json:"said,omitempty"`    // the provider's word, where ours does not say it all
	Usage    Usage   `json:"usage,omitzero"`
	Cost     Cost    `json:"cost,omitzero"`
	Context  Context `json:"context,omitzero"`
	Inferred bool    `json:"inferred,omitempty"`
}

// Usage counts tokens, each in one bucket. Unknown is absent, never 0.
type Usage struct {
	Input      *int64 `json:"input,omitempty"`       // at the full price, without what the cache served or took
	Output     *int64 `json:"output,omitempty"`      // without reasoning
	Reasoning  *int64 `json:"reasoning,omitempty"`   // thoughts
	CacheRead  *int64 `json:"cache_read,omitempty"`  // input that the cache served
	CacheWrite *int64 `json:"cache_write,omitempty"` // input that was put into the cache
}

// Cost is in US dollars. Unknown is absent, never 0.
type Cost struct {
	Total      *float64 `json:"total,omitempty"`  // where only the sum is known, or where it is not the sum of the parts
	Input      *float64 `json:"input,omitempty"`  // of Usage.Input
	Output     *float64 `json:"output,omitempty"` // of output and reasoning
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
}

// Context says how full the model's window is.
type Context struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// A TextDelta is a piece of a text block as it comes.
type TextDelta struct {
	ID     string `json:"id,omitempty"` // of the message
	Text   string `json:"text"`
	Update Raw    `json:"update,omitempty"` // the backend's own word for it
}

// A Text is a whole block of text. If deltas came before it, they add up to it.
type Text struct {
	ID       string    `json:"id,omitempty"`
	Text     string    `json:"text"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Partial  bool      `json:"partial,omitempty"` // cut: its attempt was given up, or the stream ended in it
	Inferred bool      `json:"inferred,omitempty"`
}

// A ThoughtDelta is a piece of a thought as it comes.
type ThoughtDelta struct {
	ID     string `json:"id,omitempty"`
	Text   string `json:"text"`
	Update Raw    `json:"update,omitempty"`
}

// A Thought is a whole block of reasoning. If deltas came before it, they add up to it.
type Thought struct {
	ID        string    `json:"id,omitempty"`
	Text      string    `json:"text"`
	Start     time.Time `json:"start,omitzero"`
	End       time.Time `json:"end,omitzero"`
	Signature string    `json:"signature,omitempty"` // the provider's seal, to be sent back with it
	Partial   bool      `json:"partial,omitempty"`
	Inferred  bool      `json:"inferred,omitempty"`
}

// A Compacted says that the history was shortened.
type Compacted struct {
	Reason  string `json:"reason,omitempty"`
	Summary string `json:"summary,omitempty"`
	Before  *int64 `json:"before,omitempty"` // tokens
	After   *int64 `json:"after,omitempty"`
	Usage   Usage  `json:"usage,omitzero"` // of the answer that summed it up, which is no turn
	Cost    Cost   `json:"cost,omitzero"`
}

// A Retry says that a request to the provider failed and will be sent again. What the turn has said so far is void.
type Retry struct {
	Attempt int    `json:"attempt"` // 1 is the first retry
	Limit   int    `json:"limit,omitempty"`
	Wait    int64  `json:"wait_ms,omitempty"`
	Class   string `json:"class,omitempty"` // as [RunEnd] has it
	Status  int    `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
}

func (TurnStarted) Kind() Kind  { return "turn.started" }
func (TurnEnded) Kind() Kind    { return "turn.ended" }
func (TextDelta) Kind() Kind    { return "text.delta" }
func (Text) Kind() Kind         { return "text" }
func (ThoughtDelta) Kind() Kind { return "thought.delta" }
func (Thought) Kind() Kind      { return "thought" }
func (Compacted) Kind() Kind    { return "compacted" }
func (Retry) Kind() Kind        { return "retry" }

func (TurnStarted) body()  {}
func (TurnEnded) body()    {}
func (TextDelta) body()    {}
func (Text) body()         {}
func (ThoughtDelta) body() {}
func (Thought) body()      {}
func (Compacted) body()    {}
func (Retry) body()        {}

// Add returns the sum of two usages: what either knows is known.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: sum(u.Input, v.Input), Output: sum(u.Output, v.Output), Reasoning: sum(u.Reasoning, v.Reasoning),
		CacheRead: sum(u.CacheRead, v.CacheRead), CacheWrite: sum(u.CacheWrite, v.CacheWrite),
	}
}

// InputAll is every token that went in, cached or not, and whether any is known.
func (u Usage) InputAll() (int64, bool) { return all(u.Input, u.CacheRead, u.CacheWrite) }

// OutputAll is every token that came out, thought or said, and whether any is known.
func (u Usage) OutputAll() (int64, bool) { return all(u.Output, u.Reasoning) }

// Add returns the sum of two costs. If either has only a total, only the total of both is known.
func (c Cost) Add(d Cost) Cost {
	if c == (Cost{}) {
		return d
	}
	if d == (Cost{}) {
		return c
	}
	s := Cost{
		Input: sum(c.Input, d.Input), Output: sum(c.Output, d.Output),
		CacheRead: sum(c.CacheRead, d.CacheRead), CacheWrite: sum(c.CacheWrite, d.CacheWrite),
	}
	if c.Total != nil || d.Total != nil {
		ct, _ := c.Sum()
		dt, _ := d.Sum()
		s = Cost{Total: new(ct + dt)}
	}
	return s
}

// Sum is the whole cost in dollars, and whether it is known.
func (c Cost) Sum() (float64, bool) {
	if c.Total != nil {
		return *c.Total, true
	}
	return all(c.Input, c.Output, c.CacheRead, c.CacheWrite)
}

type numeric interface{ int64 | float64 }

func sum[T numeric](a, b *T) *T {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return new(*a + *b)
}

func all[T numeric](parts ...*T) (total T, known bool) {
	for _, p := range parts {
		if p != nil {
			total, known = total+*p, true
		}
	}
	return total, known
}
