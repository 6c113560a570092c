package dialect

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file is what avenor's encoder tells of questions, errors and ends.

type avenorRequest struct {
	RequestID string         `json:"request_id"`
	Tool      string         `json:"tool,omitempty"`
	Question  string         `json:"question,omitempty"`
	Options   []avenorOption `json:"options"`
	ToolCall  *avenorCallID  `json:"toolCall,omitempty"` // the program has it; written where the tool's name is not enough
}

type avenorCallID struct {
	ToolCallID string `json:"toolCallId"`
}

type avenorOption struct {
	OptionID string `json:"optionId"`
	Kind     string `json:"kind"`
	Name     string `json:"name,omitempty"`
}

type avenorResponse struct {
	RequestID string `json:"request_id"`
	OptionID  string `json:"option_id"`
	Kind      string `json:"kind"`
	Source    string `json:"source"`
}

type avenorError struct {
	Source      string    `json:"source"`
	Message     string    `json:"message"`
	Kind        string    `json:"kind,omitempty"`
	StopReason  string    `json:"stop_reason,omitempty"`
	Model       string    `json:"model,omitempty"`
	Diagnostics event.Raw `json:"diagnostics,omitempty"`
}

type avenorEnd struct {
	StopReason string       `json:"stop_reason"`
	Usage      *avenorUsage `json:"usage,omitempty"`
}

type avenorUsage struct {
	InputTokens      int64  `json:"input_tokens"`
	OutputTokens     int64  `json:"output_tokens"`
	TotalTokens      int64  `json:"total_tokens"`
	CachedReadTokens *int64 `json:"cached_read_tokens,omitempty"`
}

func (a *avenorEncoder) ask(dst []byte, e event.Event, b event.GateAsked) []byte {
	dst = a.enter(dst, e.Header)
	id := unique(&a.asked, e.Session, first(b.Request, e.Call, "request"))
	q := avenorAsk{e.Agent, e.Call, b.Request, e.Session, id, avenorOptions(b.Options)}
	a.asks = append(a.asks, q)
	l := avenorRequest{RequestID: id, Tool: b.Tool, Question: b.Question, Options: q.options}
	if i := a.find(e.Header); e.Call != "" && i >= 0 && !a.alone(a.calls[i], b.Tool) {
		l.ToolCall = &avenorCallID{a.calls[i].id}
	}
	return a.line(dst, e.Header, "permission.request", l)
}

// alone says whether the call is the only open one of that tool in its session.
func (a *avenorEncoder) alone(call avenorCall, tool string) bool {
	n := 0
	for _, c := range a.calls {
		if c.session == call.session && c.name == tool {
			n++
		}
	}
	return n == 1 && call.name == tool
}

// avenorOptions are the options of a question, made such that it can be answered with yes and with no.
func avenorOptions(options []event.Option) []avenorOption {
	var list []avenorOption
	has, ids := map[string]bool{}, map[string]bool{}
	fresh := func(id string) string {
		free := id
		for n := 2; ids[free]; n++ {
			free = numbered(id, n)
		}
		ids[free] = true
		return free
	}
	for _, o := range options {
		ids[o.ID] = true
	}
	for _, o := range options {
		kind := o.Kind
		if kind == "" {
			kind = guessed(o)
		}
		id := o.ID
		if id == "" {
			id = fresh(first(side(kind), "option"))
		}
		list = append(list, avenorOption{id, kind, o.Name})
		has[side(kind)] = true
	}
	for _, kind := range []string{"allow", "reject"} {
		if !has[kind] {
			list = append(list, avenorOption{OptionID: fresh(kind), Kind: kind})
		}
	}
	return list
}

// side says what an option's kind comes to: allow, reject, or neither.
func side(kind string) string {
	switch k := strings.ToLower(kind); {
	case strings.HasPrefix(k, "allow"):
		return "allow"
	case strings.HasPrefix(k, "reject"), strings.HasPrefix(k, "deny"):
		return "reject"
	}
	return ""
}

// guessed is the kind of an option that does not say it; what is not a yes is a no.
func guessed(o event.Option) string {
	for _, word := range []string{o.Name, o.ID} {
		if w := strings.ToLower(word); strings.HasPrefix(w, "yes") || side(w) == "allow" {
			return "allow"
		}
	}
	return "reject"
}

// answer tells a decision, if it answers a question.
func (a *avenorEncoder) answer(dst []byte, e event.Event) []byte {
	b, _ := event.AsGateAnswer(e.Body)
	if a.backend == "claude" && b.Inferred {
		return dst // somebody may have answered at the terminal
	}
	kind := "allow"
	if _, ok := e.Body.(event.GateDenied); ok {
		kind = "reject"
	}
	i := slices.IndexFunc(a.asks, func(q avenorAsk) bool {
		return b.Request != "" && q.request == b.Request || b.Request == "" && e.Call != "" && q.agent == e.Agent && q.call == e.Call
	})
	if i < 0 && b.Request != "" && b.Option != "" && !a.asked.ids[e.Session+"\x00"+b.Request] { // it was asked before the stream begins
		dst = a.ask(dst, e, event.GateAsked{Request: b.Request, Tool: b.Tool, Options: []event.Option{{ID: b.Option, Kind: kind}}})
		i = len(a.asks) - 1
	}
	if i < 0 {
		if e.Call != "" || b.Request != "" {
			a.drop(e, "only the answer to a question is told")
		}
		return dst
	}
	source := "avenor"
	switch b.By {
	case event.ByControl, event.ByClient:
		source = "control"
	case event.ByFile:
		source = "file"
	}
	q := a.asks[i]
	a.asks = slices.Delete(a.asks, i, i+1)
	return a.respond(dst, e.Header, q, b.Option, kind, source)
}

func (a *avenorEncoder) respond(dst []byte, h event.Header, q avenorAsk, option, kind, source string) []byte {
	fits := func(o avenorOption) bool { return side(o.Kind) == kind }
	i := slices.IndexFunc(q.options, func(o avenorOption) bool { return o.OptionID == option && fits(o) })
	if i < 0 {
		i = slices.IndexFunc(q.options, fits)
	}
	if i >= 0 {
		option = q.options[i].OptionID
	}
	h.Session = q.session
	return a.line(dst, h, "permission.response", avenorResponse{q.id, first(option, kind), kind, source})
}

// settle answers what nobody answered: no question outlives its session.
func (a *avenorEncoder) settle(dst []byte, h event.Header) []byte {
	for _, q := range a.asks {
		if a.backend == "claude" {
			break // somebody may have answered at the terminal
		}
		dst = a.respond(dst, h, q, "", "reject", "avenor")
	}
	a.asks, a.calls = nil, nil
	return dst
}

func (a *avenorEncoder) fault(dst []byte, e event.Event, b event.Error) []byte {
	if a.late(e) {
		return dst
	}
	a.over, e.Header = false, a.place(e)
	if e.Top() && b.Class != "mcp" { // a server that is lost is no reason for a run to fail
		note(a.erred, e.Session, true)
	}
	if b.Stop != "" && !slices.Contains(avenorStops, b.Stop) {
		a.opt.lose(e, "stop", Dropped, "it is not one of the document's")
		b.Stop = ""
	}
	if b.Stop != "" {
		note(a.announced, e.Session, b.Stop)
	}
	return a.line(dst, e.Header, "avenor.error", avenorError{
		first(b.Source, "backend"), b.Message, b.Type, b.Stop, b.Model, diagnostics(b.Diagnostics),
	})
}

// note remembers something of a session; of endedMost at most.
func note[V any](of map[string]V, session string, v V) {
	if len(of) >= endedMost {
		clear(of)
	}
	of[session] = v
}

// resolve tells the end of a reply that failed, now that it is known whether it is tried again: then the session goes on.
func (a *avenorEncoder) resolve(dst []byte, next event.Event) []byte {
	e, reason, at := a.failed, "", len(dst)
	if e == nil {
		return dst
	}
	switch b := next.Body.(type) {
	case nil, event.Notice, event.Diag, event.Unknown: // these say nothing here
		return dst
	case event.PhaseRetry:
		a.failed = nil
		r, _ := event.AsReplyEnd(e.Body)
		if r.Usage == (event.Usage{}) {
			r.Usage = a.usage
		}
		a.spent, a.usage, a.block = a.spent.Add(r.Usage), event.Usage{}, avenorBlock{}
		dst = a.settle(dst, e.Header)
		a.opt.lose(*e, "", Dropped, "an attempt that is retried has no end of its own: its tokens are in that of the last one")
	case event.RunFailed:
		reason = b.Reason
	}
	if a.failed != nil {
		a.failed = nil
		dst = a.reply(dst, *e, reason)
	}
	if a.opt.told(e.Header) {
		return dst[:at]
	}
	return dst
}

// reply ends a session.
func (a *avenorEncoder) reply(dst []byte, e event.Event, reason string) []byte {
	r, _ := event.AsReplyEnd(e.Body)
	h := e.Header
	if h.Session == "" || r.Inferred {
		h.Session = a.session
	}
	stop, usage := r.Stop, r.Usage
	switch e.Body.(type) {
	case event.ReplyDone:
		if !slices.Contains(avenorStops, stop) {
			stop = "end_turn"
		}
	case event.ReplyCancelled:
		if !isCancelled(stop) && stop != "timeout" {
			stop = "cancelled"
		}
		if stop != "cancelled" && stop != "timeout" && a.backend != "" && !strings.HasPrefix(a.backend, "claude") {
			a.opt.lose(e, "stop", Approximated, "only the backend claude is cancelled by force")
			stop = "cancelled"
		}
	default:
		if stop == "" || isDone(stop) || isCancelled(stop) {
			stop = "error"
		}
	}
	if a.backend == "claude" && usage != (event.Usage{}) {
		a.opt.lose(e, "usage", Dropped, "the backend claude tells none")
	}
	if usage == (event.Usage{}) {
		usage = a.usage
	}
	if a.spent != (event.Usage{}) {
		a.opt.lose(e, "usage", Approximated, "it has the tokens of the attempts before it too")
	}
	return a.end(dst, h, stop, first(reason, "the session failed"), usage)
}

// avenorStops are the stop reasons that are told: the document's, and those that have an exit code of their own.
var avenorStops = []string{
	"end_turn", "max_tokens", "stop_sequence", "tool_use", "timeout", "cancelled", "cancelled_forced", degenerate,
	"refusal", "max_turn_requests", "blocked", "error",
}

func isDone(stop string) bool      { return stop == "end_turn" || stop == "stop_sequence" }
func isCancelled(stop string) bool { return stop == "cancelled" || stop == "cancelled_forced" }

// end tells session.end. A stop reason that does not explain itself has an error before it.
func (a *avenorEncoder) end(dst []byte, h event.Header, stop, message string, usage event.Usage) []byte {
	h.Call = ""
	dst = a.settle(dst, h)
	dst = a.enter(dst, h)
	announced := a.announced[h.Session]
	stop = first(announced, stop)
	known := slices.Contains(avenorStops, stop)
	if message == "the session failed" && stop != "error" {
		message = "the session ended with " + stop
	}
	if !known {
		stop = "error"
	}
	odd := a.backend == "claude" && !isCancelled(stop) && stop != "end_turn"
	switch {
	case stop == degenerate && announced == "":
		dst = a.line(dst, h, "avenor.error", avenorError{Source: "loop", Message: message, Kind: degenerate, StopReason: degenerate})
	case (stop == "error" || odd) && !a.erred[h.Session] && !a.erred[""]:
		dst = a.line(dst, h, "avenor.error", avenorError{Source: "backend", Message: message})
	}
	l := avenorEnd{StopReason: stop}
	if a.backend != "claude" {
		l.Usage = avenorTokens(usage.Add(a.spent))
	}
	a.block, a.usage, a.spent = avenorBlock{}, event.Usage{}, event.Usage{}
	a.over, a.stop = true, stop
	clear(a.erred)
	delete(a.announced, h.Session)
	if isDone(stop) {
		a.retries = 0
	}
	note(a.ended, h.Session, true)
	return a.line(dst, h, "session.end", l)
}

// endedMost is how many sessions are remembered that are over.
const endedMost = 4096

func avenorTokens(u event.Usage) *avenorUsage {
	if u == (event.Usage{}) {
		return nil
	}
	in := counted(u.Input) + counted(u.CacheRead) + counted(u.CacheWrite)
	out := counted(u.Output) + counted(u.Reasoning)
	l := &avenorUsage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
	if u.CacheRead != nil {
		l.CachedReadTokens = new(counted(u.CacheRead))
	}
	return l
}

// counted is a count as one can be.
func counted(n *int64) int64 {
	if n == nil {
		return 0
	}
	return min(max(*n, 0), 1<<50)
}

// close ends the run: a session, or the loop, that is still open.
func (a *avenorEncoder) close(dst []byte, e event.Event) []byte {
	if a.loop == inLoop {
		if a.bare {
			e.Session = ""
		}
		return a.cutLoop(dst, e)
	}
	if a.over {
		return dst
	}
	r, _ := event.AsRunEnd(e.Body)
	stop := "end_turn"
	switch e.Body.(type) {
	case event.RunFailed:
		if stop = "error"; r.Outcome == event.Timeout || r.Outcome == event.Stalled {
			stop = "timeout"
		}
	case event.RunCancelled:
		stop = "cancelled"
	}
	h := e.Header
	h.Session = a.session
	return a.end(dst, h, stop, first(r.Reason, "the run failed"), a.usage)
}
