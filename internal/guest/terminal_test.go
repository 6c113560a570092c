//go:build unix

package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// seat puts a stand-in for claude on a terminal.
func seat(t *testing.T, stage string, cfg Config, who ...gate.Answerer) *party {
	t.Helper()
	if cfg.Agent == "" {
		cfg.Agent = "claude-tui"
	}
	cfg.Env = append(cfg.Env, "STAGE="+stage, "CLAUDE_CONFIG_DIR="+t.TempDir())
	cfg.Temp = t.TempDir()
	return invite(t, cfg, nil, who...)
}

func TestTerminal(t *testing.T) {
	for _, c := range []struct {
		name, stage string
		who         gate.Answerer
		want        string
		outcome     event.Outcome
		reason      string
		denials     int
	}{
		{"hello", "say:Hello.", nil,
			"prompt channel.submitted status(working transcript) turn.started text(Hello.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"the folder is trusted", "trust say:Hello.", nil,
			"prompt channel.submitted status(working transcript) turn.started text(Hello.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"Enter is lost once", "deaf:2 say:Hello.", nil,
			"prompt channel.submitted status(working transcript) turn.started text(Hello.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"allowed", "bash:touch_made say:Done.", gate.Auto{},
			"prompt channel.submitted status(working transcript) turn.started tool.called status(waiting pty) gate.asked gate.allowed(auto) turn.ended tool.done status(working transcript) turn.started text(Done.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"asked before the transcript knows", "late:touch_made say:Done.", gate.Auto{},
			"prompt channel.submitted status(working transcript) turn.started tool.called status(waiting pty) gate.asked gate.allowed(auto) turn.ended tool.done status(working transcript) turn.started text(Done.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"denied", "bash:touch_made say:Done.", nil,
			"prompt channel.submitted status(working transcript) turn.started tool.called status(waiting pty) gate.asked gate.denied(nobody) turn.ended tool.denied status(working transcript) reply.done(end_turn)", event.Done, "", 1},
		{"a question that is only quoted", "quote", nil,
			"prompt channel.submitted status(working transcript) turn.started text(It asked.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"what a sub-agent says ends nothing", "side say:Hello.", nil,
			"prompt channel.submitted status(working transcript) turn.started text(Hello.) turn.ended reply.done(end_turn)", event.Done, "", 0},
		{"the model cannot be reached", "fault", nil,
			"prompt channel.submitted status(working transcript) error reply.failed(error)", event.Failed, "overloaded", 0},
		{"the answer is cut", "cut", nil,
			"prompt channel.submitted status(working transcript) turn.started text(It begins) turn.ended error reply.failed(max_tokens)", event.Failed, "max_tokens", 0},
		{"it ends without a word", "exit", nil,
			"prompt channel.submitted status(working transcript) error reply.failed(error)?", event.Failed, "ended before it had answered", 0},
		{"it does not even begin", "dies", nil, "prompt error reply.failed(error)?", event.Failed, "ended before it had answered", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var who []gate.Answerer
			if c.who != nil {
				who = append(who, c.who)
			}
			p := seat(t, c.stage, Config{}, who...)
			v := p.say("Do\nit.")
			p.want("events", p.told(), c.want)
			if v.Outcome != c.outcome || !strings.Contains(v.Reason, c.reason) || v.Denials != c.denials {
				t.Errorf("%+v", v)
			}
			made := filepath.Join(p.s.cfg.Workspace, "made")
			if _, err := os.Stat(made); (err == nil) != strings.Contains(c.want, "gate.allowed") {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

func TestTerminalUsageIsInTheTranscript(t *testing.T) {
	p := seat(t, "bash:touch_made say:Done.", Config{}, gate.Auto{})
	v := p.say("go")
	if in, _ := v.Usage.InputAll(); in != 20 || v.Usage.Output == nil || *v.Usage.Output != 10 {
		t.Errorf("usage is %+v", v.Usage)
	}
}

// The transcript is not always in order.
func TestTerminalTranscriptOutOfOrder(t *testing.T) {
	p := seat(t, "unordered say:Done.", Config{})
	p.say("go")
	p.want("texts", p.told("text", "reply.done"), "text(Done.) reply.done(end_turn)")
	p.wantOf()
	p = seat(t, "unordered bash:touch_made say:Done.", Config{}, gate.Auto{})
	p.say("go")
	p.want("calls", p.told("tool.called", "gate.allowed", "tool.done", "reply.done"), "tool.called gate.allowed(auto) tool.done reply.done(end_turn)")
}

func TestTerminalFollowsUpAndResumes(t *testing.T) {
	p := seat(t, "say:One. | say:Two.", Config{})
	v := p.say("first", "second")
	p.want("texts", p.told("text", "reply.done"), "text(One.) reply.done(end_turn) text(Two.) reply.done(end_turn)")
	if v.Outcome != event.Done || p.s.ID() == "" {
		t.Errorf("%+v", v)
	}
	again := Config{Resume: p.s.ID(), Env: []string{}}
	again.Env = append(again.Env, "STAGE=say:Three.")
	for _, kv := range p.s.cfg.Env {
		if strings.HasPrefix(kv, "CLAUDE_CONFIG_DIR=") {
			again.Env = append(again.Env, kv)
		}
	}
	again.Agent, again.Temp = "claude-tui", t.TempDir()
	q := invite(t, again, nil)
	q.say("third")
	q.want("texts", q.told("text", "reply.done"), "text(Three.) reply.done(end_turn)")
}

func TestTerminalIsStopped(t *testing.T) {
	for stage, stop := range map[string]string{"work": "cancelled", "job": "cancelled", "hang": "cancelled_forced"} {
		t.Run(stage, func(t *testing.T) {
			p := seat(t, stage, Config{Grace: time.Second})
			p.inbox <- event.Message{Text: "go"}
			p.await(kind("text"))
			if stage == "job" {
				p.await(kind("tool.called"))
			}
			p.inbox <- event.Stop{}
			close(p.inbox)
			v := p.wait()
			if v.Outcome != event.Cancelled || v.Stop != stop || v.Denials > 0 {
				t.Errorf("%+v", v)
			}
			if stage == "job" {
				p.want("calls", p.told("tool.called", "tool.denied", "tool.cancelled"), "tool.called tool.cancelled")
			}
		})
	}
}

// TestAvenorDefect28NeverReady: a program that wants something else first ends the reply, and says what it shows.
func TestAvenorDefect28NeverReady(t *testing.T) {
	now := time.Now()
	p := seat(t, "never", Config{Now: func() time.Time { now = now.Add(2 * time.Second); return now }})
	if v := p.say("go"); v.Outcome != event.Failed || !strings.Contains(v.Reason, "Please log in") {
		t.Errorf("%+v", v)
	}
}

func TestTerminalTmux(t *testing.T) {
	p := seat(t, "trust bash:touch_made say:Done.", Config{Terminal: "tmux"}, gate.Auto{})
	v := p.say("Do it.")
	p.want("events", p.told(), "prompt channel.submitted status(working transcript) turn.started tool.called status(waiting tmux) gate.asked gate.allowed(auto) turn.ended tool.done status(working transcript) turn.started text(Done.) turn.ended reply.done(end_turn)")
	if v.Outcome != event.Done {
		t.Errorf("%+v", v)
	}
}
