package dialect

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// avenor tells what a supervisor sees: chunks of text, calls and their ends, questions and answers, the end of each session;
// and around the sessions phases and a loop. It is flat: everything stands beside the event's name.
var avenor = Dialect{
	Name:    "avenor",
	Doc:     "flat events: message chunks, tool.call and tool.call_update, permission questions and answers, loop phases; session.end or avenor.loop.end last",
	encoder: func(o Options) Encoder { return (&avenorEncoder{opt: o, ended: map[string]bool{}}).fresh() },
	mute:    true,
	decoder: func(b bulk) Decoder { return &avenorDecoder{bulk: b, lines: wire.NewReader[avenorIn](b.care())} },
	shapes:  avenorShape,
	checker: func() checker { return newAvenorChecker() },
	rules:   avenorRules,
	losses:  avenorLosses,
	score:   avenorScore,
}

var avenorShape = sync.OnceValue(avenorShapes)

func avenorScore(n wire.Node) int {
	name := n.Get("event").Text()
	if name == "" {
		return 0
	}
	if avenorShape().find(name) != nil {
		return 3
	}
	for _, prefix := range []string{"agent.", "avenor.", "session.", "tool.", "permission."} {
		if strings.HasPrefix(name, prefix) {
			return 2
		}
	}
	return 1
}

// avenorEncoder remembers what is open, and which sessions are over: nothing of theirs may follow.
type avenorEncoder struct {
	opt        Options
	clock      clock
	run, label string
	session    string // of the top agent
	backend    string // as the last session.start said
	bare       bool   // loops and phases have no session: those of a run of phases are theirs
	home       string // the session of such a run itself, in which nobody speaks

	block  avenorBlock
	void   map[string]bool // ids of blocks that were cut, in this turn
	blocks int             // ids that were made up
	calls  []avenorCall
	called recent
	made   int // ids of calls that were made up
	asks   []avenorAsk
	asked  recent
	usage  event.Usage // of the turns of this reply
	spent  event.Usage // in attempts that were given up
	typed  int         // length of the last prompt

	failed    *event.Event      // the end of a reply that may be tried again
	over      bool              // session.end is the last line
	ended     map[string]bool   // sessions that are over
	held      []event.Event     // errors and custom events after session.end: they wait for the next session
	erred     map[string]bool   // sessions of the top agent in which an error was told
	announced map[string]string // stop reasons by session, by an error
	stop      string            // of the last session.end

	loop      avenorLoop
	phase     *event.PhaseStarted // as it was told
	iteration int
	most      int  // iterations; 0: no limit
	phases    int  // of the loop, in an iteration
	passed    int  // that ended well in this iteration
	cut       bool // nobody told the loop's end: the run's tells it
	retries   int
}

// fresh returns an encoder of another run: it remembers which ids were used, and nothing else.
func (a *avenorEncoder) fresh() *avenorEncoder {
	return &avenorEncoder{
		opt: a.opt, clock: a.clock, blocks: a.blocks, made: a.made, called: a.called, asked: a.asked, ended: a.ended,
		void: map[string]bool{}, erred: map[string]bool{}, announced: map[string]string{},
	}
}

// An avenorBlock is the block whose pieces are being told.
type avenorBlock struct {
	kind, source, id string // source: its id in our events
	told             int    // bytes
}

type avenorCall struct {
	agent, call       string
	session, id, name string // as they were told
}

type avenorAsk struct {
	agent, call, request string
	session, id          string // as they were told
	options              []avenorOption
}

type avenorLoop int

const (
	noLoop avenorLoop = iota
	inLoop
	loopOver
)

type avenorChunk struct {
	Content   avenorText `json:"content"`
	MessageID string     `json:"messageId,omitempty"`
	Update    event.Raw  `json:"session_update,omitempty"`
}

type avenorText struct {
	Text string `json:"text"`
}

type avenorToolCall struct {
	ToolCallID string    `json:"toolCallId"`
	Title      string    `json:"title,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Status     string    `json:"status"`
	RawInput   event.Raw `json:"rawInput,omitempty"`
	Update     event.Raw `json:"session_update,omitempty"`
}

type avenorToolUpdate struct {
	ToolCallID string    `json:"toolCallId"`
	Kind       string    `json:"kind"`
	Status     string    `json:"status"`
	Update     event.Raw `json:"session_update,omitempty"`
}

type avenorStart struct {
	Backend         string  `json:"backend,omitempty"`
	Dir             *string `json:"dir,omitempty"`
	DangerouslyLoad *bool   `json:"dangerously_load,omitempty"`
}

func (a *avenorEncoder) Encode(dst []byte, e event.Event) []byte {
	dst = a.resolve(dst, e)
	if _, ok := e.Body.(event.RunStarted); ok && e.Top() {
		*a = *a.fresh()
	}
	if a.loop == loopOver {
		a.drop(e, "nothing follows avenor.loop.end")
		return dst
	}
	if b, ok := e.Body.(event.Custom); ok {
		return a.custom(dst, e, b)
	}
	if a.backend == "claude" && unseen(e.Body) {
		a.drop(e, "the backend claude tells what its terminal shows: no text, no calls, no plan")
		return dst
	}
	if _, ends := event.AsRunEnd(e.Body); !e.Top() && !ends { // of sub-agents what they do is told, under their own sessions
		return a.work(dst, e)
	}
	if e.Session != "" && speaks(e.Body) {
		a.session = e.Session
	}
	switch b := e.Body.(type) {
	case event.RunStarted:
		a.run, a.label, a.bare, a.home = b.Run, b.Label, b.Phases, ""
		if b.Phases {
			a.home = e.Session
		}
		if !b.Inferred && e.Session != "" && !b.Phases {
			dst = a.start(dst, e, b.Backend, b.Cwd, b.DangerouslyLoad)
		}
	case event.SessionStarted:
		dst = a.start(dst, e, b.Backend, b.Cwd, b.DangerouslyLoad)
	case event.Prompt:
		dst = a.prompt(dst, e, b)
	case event.TextDelta:
		dst = a.piece(dst, e.Header, "agent.message_chunk", b.ID, b.Text, b.Update)
	case event.Text:
		dst = a.whole(dst, e.Header, "agent.message_chunk", b.ID, b.Text, b.Partial)
	case event.ThoughtDelta:
		if !a.opt.NoThoughts {
			dst = a.piece(dst, e.Header, "agent.thought_chunk", b.ID, b.Text, b.Update)
		}
	case event.Thought:
		if !a.opt.NoThoughts {
			dst = a.whole(dst, e.Header, "agent.thought_chunk", b.ID, b.Text, b.Partial)
		}
	case event.TurnEnded:
		a.usage = a.usage.Add(b.Usage)
		if !b.Inferred {
			clear(a.void)
		}
	case event.ReplyFailed:
		if b.Inferred {
			return a.reply(dst, e, "")
		}
		failed := e
		a.failed = &failed
	case event.ReplyDone, event.ReplyCancelled:
		dst = a.reply(dst, e, "")
	case event.RunDone, event.RunFailed, event.RunCancelled:
		dst = a.close(dst, e)
	case event.LoopStarted, event.PhaseStarted, event.PhaseRetry, event.PhaseEnded, event.LoopEnded:
		dst = a.looping(dst, e)
	case event.Status, event.Plan, event.ChannelReady, event.ChannelQueued, event.ChannelSubmitted, event.Report, event.Answer, event.Finished:
		dst = a.guest(dst, e)
	default:
		dst = a.work(dst, e)
	}
	return dst
}

// work tells calls, questions and errors.
func (a *avenorEncoder) work(dst []byte, e event.Event) []byte {
	switch b := e.Body.(type) {
	case event.ToolCalled:
		dst = a.call(dst, e, b)
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		dst = a.update(dst, e)
	case event.GateAsked:
		dst = a.ask(dst, e, b)
	case event.GateAllowed, event.GateDenied:
		dst = a.answer(dst, e)
	case event.Error:
		dst = a.fault(dst, e, b)
	}
	return dst
}

// unseen says whether the backend claude has no word for a body.
func unseen(b event.Body) bool {
	switch b.(type) {
	case event.TextDelta, event.Text, event.ThoughtDelta, event.Thought, event.Plan,
		event.ToolCalled, event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		return true
	}
	return false
}

// speaks says whether a body moves the top agent on to its session.
func speaks(b event.Body) bool {
	switch b.(type) {
	case event.RunStarted, event.SessionStarted, event.Prompt, event.TurnStarted, event.TextDelta, event.Text,
		event.ThoughtDelta, event.Thought, event.ToolCalled:
		return true
	}
	return false
}

// line appends a line: the envelope, the members of fields, the time.
func (a *avenorEncoder) line(dst []byte, h event.Header, name string, fields any) []byte {
	dst = append(dst, `{"event":`...)
	dst = wire.AppendString(dst, name)
	dst = appendMember(dst, `,"session_id":`, h.Session)
	runID := a.run
	if name == "agent.channel_ready" {
		runID = first(a.run, h.Session, "run")
	}
	dst = appendMember(dst, `,"run_id":`, runID)
	dst = appendMember(dst, `,"run_label":`, a.label)
	at := len(dst)
	dst = wire.Append(dst, fields)
	if dst[at+1] == '}' {
		dst = dst[:at]
	} else {
		dst[at] = ','
		dst = dst[:len(dst)-1]
	}
	if ts := a.clock.millis(h); !h.At.IsZero() || slices.Contains(avenorTimed, name) {
		dst = wire.Append(append(dst, `,"ts":`...), ts)
	}
	return append(dst, "}\n"...)
}

// avenorTimed are the events that must have a time.
var avenorTimed = []string{
	"permission.response", "agent.status", "avenor.retry", "avenor.loop.start", "avenor.loop.end", "avenor.phase.start", "avenor.phase.end",
}

func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	return wire.AppendString(append(dst, key...), value)
}

// drop reports an event that cannot be told where it stands.
func (a *avenorEncoder) drop(e event.Event, why string) {
	if _, ends := event.AsRunEnd(e.Body); !ends {
		a.opt.lose(e, "", Dropped, why)
	}
}

// enter makes sure that a session may speak: one that is over is opened again by what its user says.
func (a *avenorEncoder) enter(dst []byte, h event.Header) []byte {
	dst = a.release(dst)
	if a.ended[h.Session] {
		delete(a.ended, h.Session)
		if a.backend == "claude" {
			return a.line(dst, h, "agent.prompt_submitted", avenorSubmitted{"pty", a.typed})
		}
		dst = a.line(dst, h, "user.message_chunk", avenorChunk{})
	}
	return dst
}

// release says that the run goes on after a session's end: what waited can be told.
func (a *avenorEncoder) release(dst []byte) []byte {
	if !a.over {
		return dst
	}
	held := a.held
	a.over, a.held = false, nil
	for _, e := range held {
		switch b := e.Body.(type) {
		case event.Error:
			dst = a.fault(dst, e, b)
		case event.Custom:
			dst = a.custom(dst, e, b)
		}
	}
	return dst
}

// late says whether an event comes after the line that is the last one of a run; it waits then, in case that the run goes on.
func (a *avenorEncoder) late(e event.Event) bool {
	if !a.over || a.loop != noLoop {
		return false
	}
	a.drop(e, "it comes after session.end: it is told before the next session, or not at all")
	if len(a.held) < 64 && !a.opt.told(e.Header) {
		a.held = append(a.held, e)
	}
	return true
}

// custom tells somebody's own event.
func (a *avenorEncoder) custom(dst []byte, e event.Event, b event.Custom) []byte {
	if a.late(e) {
		return dst
	}
	return a.line(dst, a.place(e), customName(b.Name), flat(b.Fields))
}

// place is the header of an event that may be of a run of phases, and of none of its sessions.
func (a *avenorEncoder) place(e event.Event) event.Header {
	if a.home != "" && e.Session == a.home {
		a.opt.lose(e, "session", Dropped, "the sessions of a run of phases are theirs")
		e.Session = ""
	}
	return e.Header
}

func (a *avenorEncoder) start(dst []byte, e event.Event, backend, dir string, load *bool) []byte {
	dst = a.release(dst)
	delete(a.ended, e.Session)
	a.backend = backend
	l := avenorStart{Backend: backend, DangerouslyLoad: load}
	if dir != "" || backend == "claude" {
		l.Dir = &dir
	}
	if load == nil && backend == "claude" {
		l.DangerouslyLoad = new(bool)
	}
	return a.line(dst, e.Header, "session.start", l)
}

// prompt tells what the user said. Where that is not known it opens at most a session that was over.
func (a *avenorEncoder) prompt(dst []byte, e event.Event, b event.Prompt) []byte {
	if b.Source == event.SourceHistory { // nobody said it
		return dst
	}
	dst = a.release(dst)
	if a.backend == "claude" {
		a.drop(e, "the backend claude tells only that a prompt was typed")
		a.typed = len(b.Text)
		return dst
	}
	if b.Text == "" && !(a.ended[e.Session] && b.Source != event.SourceSteer) {
		return dst
	}
	delete(a.ended, e.Session)
	return a.line(dst, e.Header, "user.message_chunk", avenorChunk{avenorText{b.Text}, b.ID, b.Update})
}

// piece tells a piece of a block.
func (a *avenorEncoder) piece(dst []byte, h event.Header, kind, id, text string, update event.Raw) []byte {
	if text == "" {
		return dst
	}
	dst = a.enter(dst, h)
	if a.block.kind != kind || a.block.source != id {
		a.block = avenorBlock{kind: kind, source: id, id: a.message(id)}
	}
	a.block.told += len(text)
	return a.line(dst, h, kind, avenorChunk{avenorText{text}, a.block.id, update})
}

// whole tells what the pieces have left of a block.
func (a *avenorEncoder) whole(dst []byte, h event.Header, kind, id, text string, partial bool) []byte {
	if a.block.kind != kind || id != "" && a.block.source != id {
		a.block = avenorBlock{}
	}
	if rest := text[min(a.block.told, len(text)):]; rest != "" {
		if a.block.kind != "" {
			id = a.block.source
		}
		dst = a.piece(dst, h, kind, id, rest, nil)
	}
	if partial {
		if len(a.void) >= endedMost {
			clear(a.void)
		}
		a.void[first(id, a.block.source)] = true
	}
	a.block = avenorBlock{}
	return dst
}

// message is the id of a new block. An attempt that follows one that was given up has a new id.
func (a *avenorEncoder) message(id string) string {
	if id != "" && !a.void[id] {
		return id
	}
	a.blocks++
	return numbered("msg", a.blocks)
}

func (a *avenorEncoder) call(dst []byte, e event.Event, b event.ToolCalled) []byte {
	dst = a.enter(dst, e.Header)
	id := e.Call
	if id == "" {
		a.made++
		id = numbered("call", a.made)
	}
	id = unique(&a.called, e.Session, id)
	a.calls = append(a.calls, avenorCall{e.Agent, e.Call, e.Session, id, b.Name})
	l := avenorToolCall{ToolCallID: id, Title: first(b.Title, b.Description, b.Name), Kind: b.Name, Status: "pending", Update: b.Update}
	if len(b.Input) > 0 {
		l.RawInput = arguments(b.Input)
	}
	return a.line(dst, e.Header, "tool.call", l)
}

func (a *avenorEncoder) update(dst []byte, e event.Event) []byte {
	i := a.find(e.Header)
	if i < 0 {
		a.drop(e, "there is no such call")
		return dst
	}
	c := a.calls[i]
	a.calls = slices.Delete(a.calls, i, i+1)
	end, _ := event.AsToolEnd(e.Body)
	status := "failed"
	if _, ok := e.Body.(event.ToolDone); ok {
		status = "completed"
	}
	h := e.Header
	h.Session = c.session
	return a.line(dst, h, "tool.call_update", avenorToolUpdate{c.id, first(end.Name, c.name), status, end.Update})
}

// find returns the place of the call that is meant, or -1.
func (a *avenorEncoder) find(h event.Header) int {
	for i, c := range slices.Backward(a.calls) {
		if c.agent == h.Agent && c.call == h.Call {
			return i
		}
	}
	return -1
}

// unique makes an id that the session has not used.
func unique(used *recent, session, id string) string {
	for n, try := 2, id; ; n++ {
		if !used.add(session + "\x00" + try) {
			return try
		}
		try = numbered(id, n)
	}
}
