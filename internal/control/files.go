package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// Files asks by files. Each open question is BASE.ID.req, and the oldest one also BASE.req; an answer is put beside it as
// BASE.ID.req.response or BASE.req.response. A question's files are there before anybody hears of it, and gone when it is over,
// whoever answered it.
//
// An answer that cannot be taken is told, and waited out: the question stays open until somebody answers it well, or until
// its deadline.
type Files struct {
	Base     string                             // path that the files' names begin with
	Deadline time.Duration                      // for an answer; 0 means ten minutes
	Session  func() string                      // whose questions they are; nil: not told
	Hide     func(string) string                // takes secrets out of what is written; nil: there are none
	Tell     func(q event.GateAsked, err error) // told what went wrong: an answer that was not taken, a deadline; may be nil

	mu    sync.Mutex
	open  []*paper // oldest first
	shown *paper   // the one that is BASE.req
	stale int      // answers without a request id that may still come for questions that were BASE.req and are over
	stop  func()   // of the watch, while anything is open
	wrong []func() // to be told when f.mu is free
}

const (
	fileDeadline = 10 * time.Minute
	filePoll     = 2 * time.Second
)

// A paper is a question that is out.
type paper struct {
	asked  event.GateAsked
	path   string // BASE.ID.req
	body   []byte
	answer func(gate.Answer) error // once it was asked
	timer  *time.Timer
	err    error      // it could not be written
	given  bool       // an answer is on its way to the gate, or was taken
	taken  bool       // and it came where the oldest one is
	ending sync.Mutex // held while it is refused
}

// A request is what is in a .req file.
type request struct {
	RequestID string          `json:"request_id"`
	SessionID string          `json:"session_id,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Question  string          `json:"question,omitempty"`
	Options   []Option        `json:"options,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
}

// An Option is one of the answers to a question, in avenor's words.
type Option struct {
	ID              string `json:"optionId"`
	Kind            string `json:"kind,omitempty"`
	Name            string `json:"name,omitempty"`
	RequiresMessage bool   `json:"requiresMessage,omitempty"`
}

func options(list []event.Option) (out []Option) {
	for _, o := range list {
		out = append(out, Option{ID: o.ID, Kind: cmp.Or(o.Kind, o.ID), Name: o.Name})
	}
	return out
}

// Check says whether questions can be put where Base says, and takes away what an earlier run left there.
func (f *Files) Check() error {
	dir := filepath.Dir(f.Base)
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("the folder of the permission files: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder: permission files cannot be put there", dir)
	}
	return errors.Join(remove(f.Base+".req"), remove(f.Base+".req.response"))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Opened puts the question out.
func (f *Files) Opened(q event.GateAsked) {
	p := &paper{asked: q, path: f.Base + "." + fileName(q.Request) + ".req"}
	p.body = f.write(q)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, p)
	p.err = errors.Join(remove(p.path+".response"), put(p.path, p.body), f.show())
}

// write makes the content of a .req file.
func (f *Files) write(q event.GateAsked) []byte {
	r := request{RequestID: q.Request, Tool: q.Tool, Question: q.Question, Options: options(q.Options)}
	if f.Session != nil {
		r.SessionID = f.Session()
	}
	payload := map[string]any{"event": "permission.request", "request_id": q.Request, "tool": q.Tool, "question": q.Question, "options": r.Options}
	for name, v := range map[string]string{"session_id": r.SessionID, "permission": q.Permission} {
		if v != "" {
			payload[name] = v
		}
	}
	if len(q.Patterns) > 0 {
		payload["patterns"] = q.Patterns
	}
	if json.Valid(q.Input) {
		payload["rawInput"] = q.Input
	}
	r.Payload, _ = json.Marshal(payload) // it is JSON
	body, _ := json.MarshalIndent(r, "", "  ")
	if f.Hide != nil {
		body = []byte(f.Hide(string(body)))
	}
	return append(body, '\n')
}

// show makes the oldest question BASE.req. f.mu is held.
func (f *Files) show() error {
	var oldest *paper
	if len(f.open) > 0 {
		oldest = f.open[0]
	}
	if oldest == f.shown {
		return nil
	}
	if f.shown != nil && !f.shown.taken {
		f.stale++
	}
	f.shown = oldest
	err := remove(f.Base + ".req.response")
	if oldest == nil {
		return errors.Join(err, remove(f.Base+".req"))
	}
	return errors.Join(err, put(f.Base+".req", oldest.body))
}

// Asked waits for an answer to come.
func (f *Files) Asked(q event.GateAsked, answer func(gate.Answer) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.find(q.Request)
	if p == nil {
		return
	}
	p.answer = answer
	if p.err != nil {
		go f.refuse(p, fmt.Errorf("the question cannot be put out: %w", p.err))
		return
	}
	limit := cmp.Or(f.Deadline, fileDeadline)
	p.timer = time.AfterFunc(limit, func() { f.refuse(p, fmt.Errorf("handler timed out after %s", brief(limit))) })
	if f.stop == nil {
		f.stop = f.watch()
	}
}

// refuse denies a question that cannot be answered by file.
func (f *Files) refuse(p *paper, why error) {
	p.ending.Lock()
	defer p.ending.Unlock()
	if p.answer(gate.Answer{By: event.ByNobody, Reason: why.Error()}) == nil {
		f.tell(p.asked, why)
	}
}

func (f *Files) tell(q event.GateAsked, err error) {
	if f.Tell != nil {
		f.Tell(q, err)
	}
}

// Closed takes the question away.
func (f *Files) Closed(q event.GateAsked) {
	f.mu.Lock()
	p := f.find(q.Request)
	f.mu.Unlock()
	if p == nil {
		return
	}
	p.ending.Lock() // why it was refused is told before the refusal
	defer p.ending.Unlock()
	f.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	f.open = slices.DeleteFunc(f.open, func(o *paper) bool { return o == p })
	err := errors.Join(remove(p.path), remove(p.path+".response"), f.show())
	stop := func() {}
	if len(f.open) == 0 && f.stop != nil {
		f.stop, stop = nil, f.stop
	}
	f.mu.Unlock()
	stop()
	if err != nil {
		f.tell(q, fmt.Errorf("what was out for a question cannot be taken away: %w", err))
	}
}

// find returns the open question of that request. f.mu is held.
func (f *Files) find(request string) *paper {
	for _, p := range f.open {
		if p.asked.Request == request {
			return p
		}
	}
	return nil
}

// put writes a file that is either not there or whole, for the user only.
func put(path string, body []byte) error {
	tmp, err := draft(path, body)
	if err != nil {
		return err
	}
	if err = os.Rename(tmp, path); err != nil {
		os.Remove(tmp) // what counts is why
	}
	return err
}

// draft writes a file beside the one that it is to become.
func draft(path string, body []byte) (name string, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp.*") // 0600
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(body)
	if err = errors.Join(err, tmp.Close()); err != nil {
		os.Remove(tmp.Name()) // what counts is why
	}
	return tmp.Name(), err
}

// fileName makes a request's id part of a file's name: ids may come from programs that we do not trust. Two ids never have one
// name.
func fileName(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	const most = 100 // a name may have 255 bytes, and ours has more parts
	name := b.String()
	if len(name) > most {
		name = name[:most-17] + "%" + hash(id)
	}
	return cmp.Or(name, "%")
}

// brief writes a duration without the parts that are zero.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
