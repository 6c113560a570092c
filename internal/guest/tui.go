package guest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/terminal"
	"github.com/sluice-dev/sluice/journal"
)

// How long a terminal may take.
const (
	tuiStart  = 30 * time.Second       // until it takes a prompt
	tuiSubmit = 3 * time.Second        // until it has taken one; then Enter is pressed again
	tuiLast   = 300 * time.Millisecond // until what it wrote down last has been read
	tuiSettle = 3 * time.Second        // until screen and transcript agree
)

// tui is claude on a terminal: prompts are typed, its transcript is read, and of its screen only the questions.
type tui struct {
	*Session
	on   terminal.Terminal
	file transcript

	early []told // what was written down before our prompt was
	view  view

	began    time.Time
	opened   bool      // it has been ready once
	trusted  bool      // the question about the folder was answered
	typed    time.Time // when the prompt was pasted; zero: none waits to be submitted
	entered  int       // how often Enter was pressed for it
	length   int       // of the prompt
	phase    string    // the last status that was told
	shown    *dialog   // the one that was seen last
	answered bool      // and it was answered
	since    time.Time // when it was seen
	quiet    time.Time // when the transcript said that the reply is over

	// What one with a channel does otherwise.
	hold      func() bool                                     // the reply is not over yet
	last      func(event.ReplyEnd) (event.Body, *event.Error) // how it ended, if it was told elsewhere
	elsewhere func() bool                                     // the question on the screen was asked elsewhere
	start     func(*dialog) bool                              // a question before the first prompt is answered with yes
}

func newTUI(s *Session, _ string) tongue {
	t := &tui{Session: s, on: s.link.on, began: s.cfg.Now()}
	t.file.tell = s.tell
	return t
}

// tuiCommand starts claude as a person would. Each word is an argument of its own.
func tuiCommand(c Config, resume string) []string {
	args := []string{"claude"}
	if resume != "" {
		args = append(args, "--resume", resume)
	} else {
		args = append(args, "--session-id", c.terminalID)
	}
	args = flag(args, "--agent", c.Profile)
	args = flag(args, "--model", c.Model)
	args = flag(args, "--name", c.Label)
	return append(args, "--permission-mode", "default")
}

// A name of a session that can stand in a path.
var sessionName = pattern.Lazy(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`)

// newID makes a UUID, as claude wants it for a session.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// openTUI starts claude on a terminal, and listens to its transcript and its screen.
func openTUI(s *Session, env []string, resume string) (*link, error) {
	session := first(resume, s.cfg.terminalID)
	if !sessionName().MatchString(session) {
		return nil, fmt.Errorf("%q cannot be a session of claude", session)
	}
	var b *broker
	if s.guest.channel {
		var err error
		if b, err = openBroker(s.cfg.Temp, session, s.cfg.Sidecar); err != nil {
			return nil, err
		}
		s.cfg.broker = b
	}
	o := terminal.Options{Group: s.cfg.Group, Args: s.guest.command(s.cfg, resume), Dir: s.cfg.Workspace, Env: append(env, "TERM=xterm-256color", "COLORTERM=truecolor"), Temp: s.cfg.Temp}
	start := terminal.Open
	if s.cfg.Terminal == "tmux" {
		start = terminal.OpenTmux
	}
	on, err := start(o)
	if err != nil {
		if b != nil {
			b.close()
		}
		return nil, err
	}
	l := newLink()
	l.on, l.broker = on, b
	l.kill = on.Close
	if b != nil {
		b.serve(&l.spool)
	}
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	readers.Go(func() { l.readTranscript(ctx, env, session, resume != "") })
	readers.Go(func() { l.watchScreen(ctx) })
	go func() {
		<-on.Exited()
		time.Sleep(tuiLast)
		stop()
		readers.Wait()
		if b != nil {
			b.close()
		}
		l.spool.put(word{exit: new(on.Exit())})
	}()
	go l.listen()
	return l, nil
}

// readTranscript passes records on as they are written down. Nobody says where the file will be before it is there.
func (l *link) readTranscript(ctx context.Context, env []string, session string, again bool) {
	wait := time.NewTicker(100 * time.Millisecond)
	defer wait.Stop()
	path, ok := transcriptPath(env, session)
	for !ok {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
			path, ok = transcriptPath(env, session)
		}
	}
	for line, err := range journal.Follow(ctx, path, journal.FollowOptions{FromEnd: again}) {
		if err != nil {
			l.spool.put(word{noise: true, line: []byte("the transcript cannot be read: " + err.Error())})
			return
		}
		l.spool.put(word{line: slices.Clone(line)})
	}
}

// watchScreen passes the screen on when it has changed, though not more often than a person could look.
func (l *link) watchScreen(ctx context.Context) {
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.on.Changed():
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		if now := l.on.Screen(); now != last {
			last = now
			l.spool.put(word{screen: &now})
		}
	}
}

func (t *tui) greet() {}

// ready says whether it takes a prompt.
func (t *tui) ready() bool { return t.opened && t.view.ready && t.typed.IsZero() }

// prompt types a prompt. It is submitted when the screen shows it.
func (t *tui) prompt(text string, files []string) {
	for _, f := range files {
		text += "\n@" + f
	}
	t.reset(len(text))
	t.typed = t.cfg.Now()
	if err := t.on.Paste(text); err != nil {
		t.fail("the prompt could not be typed: " + err.Error())
	}
}

// reset forgets the last prompt.
func (t *tui) reset(length int) {
	t.file, t.early = transcript{tell: t.tell}, nil
	t.phase, t.quiet, t.entered, t.length = "", time.Time{}, 0, length
}

// submit presses Enter, once the prompt stands there; and again, if that was lost in what the program did then.
func (t *tui) submit() {
	if t.typed.IsZero() {
		return
	}
	shown := t.entered == 0 && !t.view.ready // the line is no longer empty
	if !shown && t.cfg.Now().Sub(t.typed) < tuiSubmit {
		return
	}
	if t.entered == 3 {
		t.typed = time.Time{}
		t.fail("claude does not take the prompt")
		return
	}
	t.entered++
	t.typed = t.cfg.Now()
	if err := t.on.Type(terminal.Enter); err != nil {
		t.fail("the prompt could not be submitted: " + err.Error())
	}
}

// submitted says that the prompt has been taken.
func (t *tui) submitted() {
	if t.typed.IsZero() || t.entered == 0 {
		return
	}
	t.typed = time.Time{}
	t.put(event.Event{Body: event.ChannelSubmitted{Delivery: t.on.Kind(), Length: t.length}})
}

// line takes a record of the transcript.
func (t *tui) line(line []byte) {
	if t.now == nil || !t.now.sent {
		return // of before
	}
	before := t.file.prompt
	t.file.line(line)
	if !t.file.prompt {
		t.early = append(t.early, told{t.of, line})
		return
	}
	if !before {
		t.submitted()
		t.reorder()
	}
	t.status("working", "transcript", "")
	t.finish()
}

// A told is a line that was read before.
type told struct {
	of   uint64
	line []byte
}

// reorder reads what was written down before our prompt, and is about it: claude does not keep the order when it has much to do.
func (t *tui) reorder() {
	now := t.of
	for _, e := range t.early {
		t.of = e.of
		t.file.line(e.line)
	}
	t.of, t.early = now, nil
}

// status tells what claude is at, when that changes.
func (t *tui) status(phase, source, label string) {
	if t.phase != phase {
		t.phase = phase
		t.put(event.Event{Body: event.Status{Phase: phase, Source: source, Label: label}})
	}
}

// screen takes what the screen shows now.
func (t *tui) screen(text string) {
	t.view = look(text)
	d := t.view.dialog
	switch {
	case d == nil:
		t.shown, t.answered = nil, false
	case !d.same(t.shown):
		t.shown, t.answered, t.since = d, false, t.cfg.Now()
	}
	if t.view.ready && !t.opened {
		t.opened = true
		t.learn(t.session())
	}
	t.submit()
	t.meet()
	t.finish()
}

// session is claude's name of the conversation.
func (t *tui) session() string { return first(t.id, t.cfg.terminalID) }

// meet deals with the question on the screen. The call that it is about is in the transcript, or will be in a moment.
func (t *tui) meet() {
	d := t.shown
	if d == nil || t.answered {
		return
	}
	if !t.opened {
		trust := d.trusts() && !t.trusted // whoever sent us here trusts it
		if trust || t.start != nil && t.start(d) {
			t.trusted, t.answered = t.trusted || trust, true
			_ = t.on.Type(terminal.Enter) // if it is gone, that is heard of elsewhere
		}
		return
	}
	if t.now == nil {
		return
	}
	id, c := t.pending()
	if c == nil && t.elsewhere != nil && t.elsewhere() {
		return
	}
	if c == nil && t.cfg.Now().Sub(t.since) < tuiSettle {
		return
	}
	t.answered = true
	t.submitted() // a question is an answer too
	t.status("waiting", t.on.Kind(), d.question)
	told := event.ToolCalled{Name: first(d.about, "terminal"), Class: event.ClassExec}
	var access []gate.Access
	if c != nil {
		told = event.ToolCalled{Name: c.name, Class: c.class, Input: c.input}
		access = t.accesses(c.name, "", c.input)
	} else {
		id = t.name("screen")
		access = []gate.Access{{Permission: "terminal", Target: d.about, Class: event.ClassExec, Opaque: true, Why: "the screen does not say which call it is"}}
	}
	t.judge(request{ref: t.name("dialog"), call: id, told: told, access: access, about: strings.TrimSpace(d.about + ": " + d.question), options: d.options})
}

// pending is the call that claude waits with: the first that has not ended and that nobody has decided about.
func (t *tui) pending() (id string, found *call) {
	for theirs, c := range t.calls {
		if !c.ended && !c.judged && (found == nil || c.order < found.order) {
			id, found = theirs, c
		}
	}
	return id, found
}

// settle presses the key of an answer.
func (t *tui) settle(q *question, a gate.Answer) {
	key := q.option(a)
	if key == "" {
		key = terminal.Escape
	}
	_ = t.on.Type(key) // if it is gone, that is heard of elsewhere
	t.phase = ""       // it works again, or stops
}

func (t *tui) drop(*question) { _ = t.on.Type(terminal.Escape) }

// interrupt presses Escape, as a person would.
func (t *tui) interrupt() { _ = t.on.Type(terminal.Escape) }

// finish ends the reply, once the transcript says that it is over and the screen agrees.
func (t *tui) finish() {
	r := t.now
	if r == nil || r.said != nil || !t.file.prompt {
		return
	}
	f := &t.file
	if !f.over && f.stop == "" && !f.cut && f.fault == nil {
		t.quiet = time.Time{}
		return
	}
	if t.quiet.IsZero() {
		t.quiet = t.cfg.Now()
	}
	if !f.over && !t.view.ready && t.cfg.Now().Sub(t.quiet) < tuiSettle {
		return
	}
	if !f.over && !t.view.ready && f.fault == nil && !f.cut {
		return // it goes on by itself: it compacts, or asks again
	}
	if t.hold != nil && r.halted == nil && f.fault == nil && t.hold() {
		return
	}
	f.endTurn()
	end := event.ReplyEnd{Stop: f.stop, Usage: f.usage}
	if t.last != nil && r.halted == nil {
		if b, problem := t.last(end); b != nil {
			if problem != nil {
				t.tell(event.Event{Body: *problem})
			}
			t.tell(event.Event{Body: b})
			return
		}
	}
	switch {
	case f.fault != nil:
		t.tell(event.Event{Body: *f.fault})
		end.Stop = "error"
		t.tell(event.Event{Body: event.ReplyFailed(end)})
	case f.cut && t.denials > 0 && r.halted == nil:
		end.Stop = "end_turn" // after a no claude stops and waits to be told what to do instead
		t.tell(event.Event{Body: event.ReplyDone(end)})
	case f.cut:
		end.Stop = "cancelled"
		t.tell(event.Event{Body: event.ReplyCancelled(end)})
	case f.stop == "max_tokens" || f.stop == "refusal":
		t.tell(event.Event{Body: event.ReplyFailed(end)})
	default:
		end.Stop = first(f.stop, "end_turn")
		t.tell(event.Event{Body: event.ReplyDone(end)})
	}
}

// end: what was open is closed by the mender.
func (t *tui) end() { t.file.endTurn() }

// tick does what had to wait for the clock.
func (t *tui) tick() time.Duration {
	now := t.cfg.Now()
	if !t.opened && t.now != nil && t.now.said == nil && now.Sub(t.began) > tuiStart {
		t.fail("claude did not become ready: " + firstLines(t.on.Screen()))
	}
	t.submit()
	t.meet()
	t.finish()
	switch {
	case t.now == nil:
		return 0
	case t.now.said != nil:
		return time.Millisecond // that has yet to be seen
	}
	return 200 * time.Millisecond
}

// firstLines is what a screen says, for a complaint.
func firstLines(screen string) string {
	var words []string
	for _, w := range strings.Fields(screen) {
		if strings.ContainsFunc(w, func(r rune) bool { return r > ' ' && r < 0x7f && r != '.' && r != '*' }) {
			words = append(words, w)
		}
	}
	text := strings.Join(words, " ")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return first(strings.ToValidUTF8(text, ""), "the screen is empty")
}
