package dialect

import (
	"slices"
	"strconv"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file is what avenor's encoder tells of a guest: its state, its plan, its channel; and of events that are somebody's own.

type avenorStatus struct {
	Phase  string `json:"phase"`
	Label  string `json:"label,omitempty"`
	Source string `json:"source"`
}

type avenorReady struct {
	ServerName string `json:"server_name"`
	Source     string `json:"source"`
}

type avenorQueued struct {
	ControlID    string `json:"control_id"`
	MessageType  string `json:"message_type"`
	Delivery     string `json:"delivery"`
	PromptLength int    `json:"prompt_length"`
}

type avenorSubmitted struct {
	Delivery     string `json:"delivery"`
	PromptLength int    `json:"prompt_length"`
}

type avenorReport struct {
	State   string    `json:"state"`
	Payload event.Raw `json:"payload"`
	Source  string    `json:"source"`
}

type avenorReply struct {
	To      string    `json:"to"`
	Payload event.Raw `json:"payload"`
	Source  string    `json:"source"`
}

type avenorFinish struct {
	Status       string    `json:"status"`
	Summary      string    `json:"summary"`
	FilesChanged []string  `json:"files_changed"`
	Payload      event.Raw `json:"payload,omitempty"`
	Source       string    `json:"source"`
}

// guest tells what a guest is at. A prompt on its way to it opens a session that was over; anything else comes too late then.
func (a *avenorEncoder) guest(dst []byte, e event.Event) []byte {
	h := e.Header
	switch b := e.Body.(type) {
	case event.ChannelQueued:
		if a.backend == "claude" {
			a.drop(e, "the backend claude has no channel")
			return dst
		}
		dst = a.release(dst)
		delete(a.ended, h.Session)
		return a.line(dst, h, "agent.prompt_queued", avenorQueued{b.Control, first(b.Type, "continue"), first(b.Delivery, "channel"), max(b.Length, 0)})
	case event.ChannelSubmitted:
		dst = a.release(dst)
		delete(a.ended, h.Session)
		if b.Delivery != "tmux" {
			b.Delivery = "pty"
		}
		return a.line(dst, h, "agent.prompt_submitted", avenorSubmitted{b.Delivery, max(b.Length, 0)})
	}
	if b, ok := e.Body.(event.Status); ok && a.backend == "claude" && !a.over && slices.Contains(claudeSources, b.Source) {
		dst = a.enter(dst, h) // its prompt was not told
	}
	if a.ended[h.Session] || a.over && a.loop == noLoop {
		a.drop(e, "it comes after session.end")
		return dst
	}
	if b, ok := e.Body.(event.Status); ok {
		return a.status(dst, e, b)
	}
	if b, ok := e.Body.(event.Plan); ok {
		return a.line(dst, h, "session.plan", flat(b.Fields))
	}
	if a.backend == "claude" {
		a.drop(e, "the backend claude has no channel")
		return dst
	}
	switch b := e.Body.(type) {
	case event.ChannelReady:
		return a.line(dst, h, "agent.channel_ready", avenorReady{b.Server, first(b.Source, "channel")})
	case event.Report:
		return a.line(dst, h, "agent.report", avenorReport{b.State, b.Payload, first(b.Source, "channel")})
	case event.Answer:
		return a.line(dst, h, "agent.reply", avenorReply{b.To, b.Payload, first(b.Source, "channel")})
	case event.Finished:
		files := append([]string{}, b.Files...)
		return a.line(dst, h, "agent.finish", avenorFinish{b.Status, b.Summary, files, b.Payload, first(b.Source, "channel")})
	}
	return dst
}

func (a *avenorEncoder) status(dst []byte, e event.Event, b event.Status) []byte {
	if a.backend == "claude" && !slices.Contains(claudeSources, b.Source) {
		a.drop(e, "the backend claude tells what its transcript and its terminal say")
		return dst
	}
	if !slices.Contains(avenorPhases, b.Phase) {
		b.Phase = "working"
	}
	return a.line(dst, e.Header, "agent.status", avenorStatus{b.Phase, b.Label, first(b.Source, "avenor")})
}

var (
	avenorPhases  = []string{"thinking", "working", "waiting", "done"}
	claudeSources = []string{"transcript", "pty", "tmux"}
)

// flat returns the members of an object that are not the envelope's.
func flat(fields event.Raw) event.Raw {
	return members(wire.Span(tidy(wire.Span(fields))), func(key string, _ wire.Span) bool { return !slices.Contains(avenorEnvelope, key) })
}

// avenorEnvelope are the fields that any event may have.
var avenorEnvelope = []string{"event", "session_id", "run_id", "run_label", "ts"}

// customName keeps somebody's own event from looking like one of the specification's.
func customName(name string) string {
	if avenorShape().find(name) != nil {
		return "custom." + name
	}
	return name
}

// diagnostics are what a detector saw, less what has another type than it should.
func diagnostics(raw event.Raw) event.Raw {
	if raw = tidy(wire.Span(raw)); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return members(wire.Span(raw), func(key string, v wire.Span) bool {
		if key == "abort_signal" {
			return v[0] == '"'
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		return !slices.Contains(avenorCounters, key) || err == nil && n >= 0
	})
}

var avenorCounters = []string{"observed_total", "hex_total", "hex_in_window", "window_size", "consecutive_hex", "progress_in_window"}
