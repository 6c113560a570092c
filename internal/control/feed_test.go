package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/journal"
)

// story tells a run with questions, sub-agents' calls and a failure, so that an event is sometimes several lines and often none.
func (p *play) story(n int) {
	for i := range n {
		p.emit(event.ThoughtDelta{ID: fmt.Sprint("t", i), Text: "hm"})
		p.emit(event.Thought{ID: fmt.Sprint("t", i), Text: "hm"})
		p.say(fmt.Sprintf("line %d <&>\n", i))
		h := event.Header{Call: fmt.Sprint("c", i)}
		p.src.Emit(event.Event{Header: h, Body: event.ToolCalled{Name: "bash", Input: event.Raw(`{}`)}})
		p.src.Emit(event.Event{Header: h, Body: event.ToolStarted{Name: "bash"}})
		p.src.Emit(event.Event{Header: h, Body: event.ToolDone{Name: "bash", Output: strings.Repeat("x", 100)}})
		p.emit(event.Custom{Name: "my.event", Fields: event.Raw(`{"seq":"mine","n":` + fmt.Sprint(i) + `}`)})
	}
}

// whole is what the journal says in a dialect, as lines.
func (p *play) whole(t *testing.T, name string) (lines []string) {
	t.Helper()
	d := must(dialect.Lookup(name))
	enc := d.NewEncoder(dialect.Options{})
	file := must(os.Open(p.info.Journal))
	defer file.Close()
	for l, err := range journal.Scan(file, nil) {
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(encode(enc, d, nil, l)) {
			lines = append(lines, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return lines
}

// bare is a line without what the socket adds to it, with its keys in order.
func bare(t *testing.T, line []byte) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"seq", "runtime_id", "more"} {
		delete(m, key)
	}
	out, _ := json.Marshal(m)
	return string(out)
}

// A reader subscribes, loses the connection, and comes back.
type reader struct {
	after uint64   // the last number of which everything was read
	lines []string // read so far
	group []string // of a number of which more is to come
	over  bool

	several bool // an event made several lines
}

func (r *reader) take(t *testing.T, e Event, format string) {
	line := bare(t, e.Raw)
	if format == "native" {
		line = string(e.Line)
		if e.Seq != r.after+1 {
			t.Errorf("%d came after %d", e.Seq, r.after)
		}
	}
	if e.Seq <= r.after {
		t.Errorf("%d came again after %d", e.Seq, r.after)
	}
	r.several = r.several || e.More
	if r.group = append(r.group, line); !e.More {
		r.lines = append(r.lines, r.group...)
		r.group, r.after = nil, e.Seq
	}
	r.over = strings.Contains(line, `"run.done"`) || strings.Contains(line, `"session.end"`)
}

// read reads some events, or until the run is over.
func (r *reader) read(t *testing.T, s *Server, format string, most int) {
	done := make(chan struct{})
	n := 0
	c, err := Dial(within(t), s.Path(), func(e Event) {
		if r.over || n == most {
			return
		}
		n++
		if r.take(t, e, format); r.over || n == most {
			close(done)
		}
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if _, err := c.Subscribe(within(t), Subscribe{AfterSeq: &r.after, Format: format}); err != nil {
		t.Error(err)
		return
	}
	select {
	case <-done:
	case <-within(t).Done():
		t.Error("nothing more came")
		r.over = true
	}
	r.group = nil // of what was cut off, all comes again
}

// TestSubscribersComeBack: whoever loses the connection at random, again and again, ends with the same lines as one who never
// did: no gap, none twice.
func TestSubscribersComeBack(t *testing.T) {
	p := newPlay(t, "r1")
	s := serve(t, ServerOptions{}, p)
	var reading sync.WaitGroup
	readers := map[string][]*reader{}
	for _, format := range []string{"native", "avenor"} {
		for i := range 4 {
			r := &reader{}
			readers[format] = append(readers[format], r)
			reading.Go(func() {
				for !r.over {
					most := -1 // never loses it
					if i > 0 {
						most = 1 + rand.IntN(40)
					}
					r.read(t, s, format, most)
				}
			})
		}
	}
	p.story(60)
	p.emit(event.GateAsked{Request: "open", Options: gate.Options()}) // the end answers it: one event, several lines
	p.end(event.RunDone{Outcome: event.Done})
	reading.Wait()
	if !readers["avenor"][0].several {
		t.Error("no event made several lines: the test has lost its point")
	}
	for _, format := range []string{"native", "avenor"} {
		var want []string
		for _, line := range p.whole(t, format) {
			if format != "native" {
				line = bare(t, []byte(line))
			}
			want = append(want, line)
		}
		for i, r := range readers[format] {
			if d := cmp.Diff(want, r.lines); d != "" {
				t.Errorf("%s, reader %d: %s", format, i, d)
			}
		}
	}
}

// TestNobodyMissesTheEnd: a server that closes gives those who subscribed what the journal has, also those who read slowly.
func TestNobodyMissesTheEnd(t *testing.T) {
	p := newPlay(t, "r1")
	s, err := Listen(folder(t)+"/s", ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Add(p)
	var last Event
	first := make(chan struct{})
	slow := make(chan struct{})
	c, err := Dial(within(t), s.Path(), func(e Event) {
		if e.Seq == 1 {
			close(first)
			<-slow
		}
		last = e
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Subscribe(within(t), Subscribe{Replay: true, Format: "native"}); err != nil {
		t.Fatal(err)
	}
	<-first
	p.say(strings.Repeat("x", 1<<20)) // more than a socket holds
	p.story(20)
	p.end(event.RunDone{Outcome: event.Done})
	closed := make(chan error)
	go func() { closed <- s.Close(within(t)) }()
	close(slow)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	<-c.Done()
	if !strings.Contains(string(last.Line), `"run.done"`) {
		t.Errorf("the last event was %s", last.Line)
	}
}

// TestWhoNeverReads holds up nobody: not the run, not the others, and the server's end not for longer than it is given.
func TestWhoNeverReads(t *testing.T) {
	p := newPlay(t, "r1")
	s, err := Listen(folder(t)+"/s", ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Add(p)
	deaf, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	io.WriteString(deaf, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"replay":true}}`+"\n")
	p.say(strings.Repeat("x", 4<<20))
	p.story(10)
	c := must(Dial(within(t), s.Path(), nil))
	defer c.Close()
	if st := must(c.Status(within(t), "")); st.LatestSeq < 50 {
		t.Errorf("%+v", st.LatestSeq)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestHalfClosedSubscriber: who asks by a pipe, as in printf | nc, gets what is there.
func TestHalfClosedSubscriber(t *testing.T) {
	p := newPlay(t, "r1")
	p.story(3)
	s := serve(t, ServerOptions{}, p)
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"replay":true}}`+"\n")
	c.(*net.UnixConn).CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), `"method":"event"`); n != len(p.whole(t, "avenor")) {
		t.Errorf("%d events, want %d", n, len(p.whole(t, "avenor")))
	}
}

// TestWhatASubscriberWants: from now on, all, the last few, or after a number; and the same as history.
func TestWhatASubscriberWants(t *testing.T) {
	p := newPlay(t, "r1")
	p.story(5)
	s := serve(t, ServerOptions{}, p)
	last := must(journal.Last(p.info.Journal)).Seq
	for name, c := range map[string]struct {
		want  Subscribe
		first uint64
	}{
		"now":     {Subscribe{}, last + 1},
		"all":     {Subscribe{Replay: true}, 1},
		"last 3":  {Subscribe{Replay: true, Limit: 3}, last - 2},
		"after 7": {Subscribe{AfterSeq: new(uint64(7))}, 8},
		"after 0": {Subscribe{AfterSeq: new(uint64(0))}, 1},
	} {
		seen := make(chan Event, 1000)
		cl := connect(t, s, func(e Event) { seen <- e })
		c.want.Format = "native"
		latest, err := cl.Subscribe(within(t), c.want)
		if err != nil {
			t.Fatal(err)
		}
		p.emit(event.Notice{Text: name})
		want := c.first
		if name == "now" || name == "last 3" {
			want = c.first + latest - last // the tests before this one said something too
		}
		for {
			e := <-seen
			if e.Seq != want {
				t.Fatalf("%s: %d came, want %d", name, e.Seq, want)
			}
			if want++; e.Seq > latest {
				break
			}
		}
		cl.Close()
	}
	c := connect(t, s, nil)
	if h := must(c.History(within(t), Subscribe{AfterSeq: new(uint64(1000))})); h.Events == nil || len(h.Events) > 0 {
		t.Errorf("after the end there is %q, want an empty list", h.Events)
	}
	h := must(c.History(within(t), Subscribe{Format: "native", Limit: 4}))
	if len(h.Events) != 4 || h.More || h.LatestSeq != p.src.Last() || !strings.Contains(string(h.Events[3]), fmt.Sprintf(`"seq":%d,`, h.LatestSeq)) {
		t.Errorf("%+v", h)
	}
	var all []json.RawMessage
	for after, more := uint64(0), true; more; {
		h := must(c.History(within(t), Subscribe{Format: "native", AfterSeq: &after, Limit: 7}))
		all = append(all, h.Events...)
		after += uint64(len(h.Events))
		more = h.More
	}
	if len(all) != int(p.src.Last()) {
		t.Errorf("%d by pages, want %d", len(all), p.src.Last())
	}
}

// TestSubscribeBeyondTheEnd: what was there before a number that has not come is not told, however large the number is.
func TestSubscribeBeyondTheEnd(t *testing.T) {
	p := newPlay(t, "r1")
	p.story(5)
	s := serve(t, ServerOptions{}, p)
	for _, after := range []uint64{1000, math.MaxUint64} {
		seen := make(chan Event, 1000)
		c := connect(t, s, func(e Event) { seen <- e })
		if _, err := c.Subscribe(within(t), Subscribe{AfterSeq: &after}); err != nil {
			t.Fatal(err)
		}
		p.emit(event.Notice{Text: "now"})
		if _, err := c.Subscribe(within(t), Subscribe{Format: "native", Replay: true}); err != nil {
			t.Fatal(err)
		}
		for e := range seen { // the second subscription comes to its end when the first has had its time
			if e.Line == nil {
				t.Fatalf("after %d: %d was told", after, e.Seq)
			}
			if e.Seq == p.src.Last() {
				break
			}
		}
		c.Close()
	}
}

func TestStamp(t *testing.T) {
	for _, c := range []struct {
		line       string
		more, flat bool
		want       string
	}{
		{`{"event":"x","a":1}`, false, true, `{"event":"x","a":1,"runtime_id":"r\"1","seq":7}`},
		{`{"event":"x","seq":"mine","more":2,"n":12345678901234567890}`, true, true, `{"event":"x","n":12345678901234567890,"runtime_id":"r\"1","seq":7,"more":true}`},
		{`{}`, false, true, `{"runtime_id":"r\"1","seq":7}`},
		{`noise`, false, true, `{"event":"unknown","runtime_id":"r\"1","seq":7,"line":"noise"}`},
		{`{"seq":7,"kind":"text"}`, false, false, `{"runtime_id":"r\"1","seq":7,"line":{"seq":7,"kind":"text"}}`},
	} {
		if got := string(stamp([]byte(c.line), `r"1`, 7, c.more, c.flat)); got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s", c.line, got)
		}
	}
}
