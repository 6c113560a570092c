package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A transcript is the file in which claude writes down a conversation, record by record. It is how a claude on a terminal is
// heard: the screen is for people.
type transcript struct {
	tell   func(event.Event)
	prompt bool   // our prompt has been written down: what follows is about it
	asked  string // when that was
	turn   string // id of the message that is being read
	ended  *event.TurnEnded
	blocks int
	open   map[string]string // calls that have no result: id → name

	stop  string // why the last message of the main conversation ended, if that ends the reply
	cut   bool   // somebody interrupted it
	fault *event.Error
	over  bool // claude has written down that it is done
	usage event.Usage
}

// A record is a line of it.
type record struct {
	Type      string `json:"type"` // user, assistant, system …
	Subtype   string `json:"subtype"`
	At        string `json:"timestamp"`
	Side      bool   `json:"isSidechain"`
	Meta      bool   `json:"isMeta"`
	Failed    bool   `json:"isApiErrorMessage"`
	Status    int    `json:"apiErrorStatus"`
	Result    any    `json:"toolUseResult"`
	SessionID string `json:"sessionId"`
	Message   struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"` // a string, or blocks
		Stop    string          `json:"stop_reason"`
		Usage   struct {
			Input      *int64 `json:"input_tokens"`
			Output     *int64 `json:"output_tokens"`
			CacheRead  *int64 `json:"cache_read_input_tokens"`
			CacheWrite *int64 `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	} `json:"message"`
}

// A block is a piece of a message.
type block struct {
	Type     string          `json:"type"` // text, thinking, tool_use, tool_result
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    event.Raw       `json:"input"`
	Call     string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"` // of a result: a string, or blocks
	Error    bool            `json:"is_error"`
}

const (
	interrupted = "[Request interrupted by user"
	rejected    = "User rejected tool use"
)

// line reads a record. What belongs to a sub-agent is left out: the record of its call says what came of it.
func (t *transcript) line(line []byte) {
	var r record
	if json.Unmarshal(line, &r) != nil || r.Side || r.At < t.asked && r.At != "" {
		return
	}
	switch {
	case r.Type == "user" && !r.Meta:
		t.user(r)
	case r.Type == "assistant" && t.prompt:
		t.assistant(r)
	case r.Type == "system" && r.Subtype == "turn_duration" && t.prompt:
		t.over = true
	}
}

// user reads what was given to the model: the prompt, results of calls, and that somebody stopped it.
func (t *transcript) user(r record) {
	blocks := blocksOf(r.Message.Content)
	for _, b := range blocks {
		switch {
		case b.Type == "text" && strings.HasPrefix(b.Text, interrupted):
			t.cut = t.prompt
		case b.Type == "text":
			if !t.prompt {
				t.prompt, t.asked = true, r.At
			}
		case b.Type == "tool_result" && t.prompt:
			t.endTurn()
			t.result(r, b)
		}
	}
}

// result tells what came of a call.
func (t *transcript) result(r record, b block) {
	name, ok := t.open[b.Call]
	if !ok {
		return
	}
	delete(t.open, b.Call)
	end := event.ToolEnd{Name: name, Output: textOf(b.Content)}
	var body event.Body = event.ToolDone(end)
	if b.Error {
		end.Error = oneLine([]byte(end.Output))
		body = event.ToolFailed(end)
		if said, ok := r.Result.(string); ok && strings.HasPrefix(said, rejected) {
			end.Error, end.Output = "rejected on the terminal", ""
			body = event.ToolDenied(end)
		}
	}
	t.tell(event.Event{Header: event.Header{Call: b.Call}, Body: body})
}

// assistant reads what the model said. Each block is a record of its own; those of one message have its id.
func (t *transcript) assistant(r record) {
	m := r.Message
	if r.Failed {
		t.endTurn()
		e := event.Error{Message: first(textOf(m.Content), "claude could not reach its model"), Name: "ProviderError", Source: "provider", Class: "provider", Retryable: new(false)}
		if r.Status != 0 {
			e.Code = fmt.Sprint(r.Status)
		}
		t.fault = &e
		return
	}
	if m.ID != t.turn {
		t.endTurn()
		t.turn, t.blocks = m.ID, 0
		t.tell(event.Event{Body: event.TurnStarted{}})
	}
	t.ended = &event.TurnEnded{Provider: "anthropic", Model: m.Model, Finish: finishOf(m.Stop), Usage: event.Usage{
		Input: m.Usage.Input, Output: m.Usage.Output, CacheRead: m.Usage.CacheRead, CacheWrite: m.Usage.CacheWrite,
	}}
	for _, b := range blocksOf(m.Content) {
		t.blocks++
		id := fmt.Sprintf("%s-%d", m.ID, t.blocks)
		switch b.Type {
		case "text":
			t.tell(event.Event{Body: event.Text{ID: id, Text: b.Text}})
		case "thinking":
			if b.Thinking != "" {
				t.tell(event.Event{Body: event.Thought{ID: id, Text: b.Thinking}})
			}
		case "tool_use":
			if t.open == nil {
				t.open = map[string]string{}
			}
			t.open[b.ID] = b.Name
			t.tell(event.Event{Header: event.Header{Call: b.ID}, Body: event.ToolCalled{Name: b.Name, Class: classOf(b.Name, ""), Input: b.Input}})
		}
	}
	switch m.Stop {
	case "end_turn", "max_tokens", "stop_sequence", "refusal":
		t.stop = m.Stop
	case "tool_use":
		t.stop = ""
	}
}

// endTurn ends the message that is being read, if there is one.
func (t *transcript) endTurn() {
	if t.ended == nil {
		return
	}
	t.tell(event.Event{Body: *t.ended})
	add(&t.usage, t.ended.Usage)
	t.turn, t.ended = "", nil
}

// add adds what is known.
func add(to *event.Usage, u event.Usage) {
	for _, pair := range []struct{ to, from **int64 }{
		{&to.Input, &u.Input}, {&to.Output, &u.Output}, {&to.CacheRead, &u.CacheRead}, {&to.CacheWrite, &u.CacheWrite},
	} {
		if *pair.from == nil {
			continue
		}
		sum := **pair.from
		if *pair.to != nil {
			sum += **pair.to
		}
		*pair.to = &sum
	}
}

func finishOf(stop string) event.Finish {
	switch stop {
	case "end_turn":
		return event.FinishStop
	case "tool_use":
		return event.FinishToolCalls
	case "max_tokens":
		return event.FinishLength
	case "refusal":
		return event.FinishRefusal
	case "stop_sequence":
		return event.FinishSequence
	}
	return ""
}

// blocksOf reads a content, which may be a string.
func blocksOf(raw json.RawMessage) []block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var list []block
	_ = json.Unmarshal(raw, &list) // what is of another shape says nothing to us
	return list
}

// textOf is the text of a content.
func textOf(raw json.RawMessage) string {
	var parts []string
	for _, b := range blocksOf(raw) {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// transcriptPath finds the file of a session. Claude names its folder after that of the project, by rules that have changed; the session's
// name is ours and nobody else's.
func transcriptPath(env []string, session string) (string, bool) {
	found, err := filepath.Glob(filepath.Join(configDir(env), "projects", "*", session+".jsonl"))
	if err != nil || len(found) == 0 {
		return "", false
	}
	return found[0], true
}

// configDir is where claude keeps its files.
func configDir(env []string) string {
	if dir := lookup(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	home := lookup(env, "HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	return filepath.Join(home, ".claude")
}

// lookup returns a variable of an environment: of several, the last.
func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
