//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/internal/guest/standin"
)

// The test program is other agents as well: claude, and one that speaks ACP.
func init() { programs["claude"], programs["acp-agent"] = standin.Claude, standin.ACP }

// newHosted makes a run whose backend is a stand-in for another agent; what that does on its terminal is the stage.
func newHosted(t *testing.T, backend, stage string, args ...string) *avenorRun {
	t.Helper()
	a := newAvenor(t, "", append([]string{"--backend", backend}, args...)...)
	a.set("STAGE", stage)
	a.set("CLAUDE_CONFIG_DIR", a.path("home"))
	return a
}

// events are the names of the events, without the statuses, which the transcript and the terminal tell in any order.
func (a *avenorRun) events() string {
	var list []string
	for _, l := range a.lines {
		if l["event"] != "agent.status" {
			list = append(list, l["event"].(string))
		}
	}
	return strings.Join(list, " ")
}

// sources are who says what the agent is at.
func (a *avenorRun) sources() (list []string) {
	for _, l := range a.only("agent.status") {
		if s := l["source"].(string); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// The backend claude tells exactly what its document lists, whatever the transcript has.
func TestAvenorBackendClaude(t *testing.T) {
	for name, c := range map[string]struct {
		stage   string
		flags   []string
		exit    int
		stop    string
		events  string
		sources []string
	}{
		"hello": {"say:Hello.", nil, 0, "end_turn", "session.start agent.prompt_submitted session.end", []string{"transcript"}},
		"a question": {"bash:touch_made say:Done.", []string{"--auto-approve"}, 0, "end_turn",
			"session.start agent.prompt_submitted permission.request permission.response session.end", []string{"pty", "transcript"}},
		"a question on tmux": {"bash:touch_made say:Done.", []string{"--auto-approve", "--terminal", "tmux"}, 0, "end_turn",
			"session.start agent.prompt_submitted permission.request permission.response session.end", []string{"tmux", "transcript"}},
		"nobody answers": {"bash:touch_made say:Done.", nil, 5, "blocked",
			"session.start agent.prompt_submitted permission.request permission.response avenor.error session.end", []string{"pty", "transcript"}},
		"it breaks":  {"fault", nil, 1, "error", "session.start agent.prompt_submitted avenor.error session.end", []string{"transcript"}},
		"it is gone": {"exit", nil, 1, "error", "session.start agent.prompt_submitted avenor.error session.end", []string{"transcript"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHosted(t, "claude", c.stage, c.flags...)
			a.start(nil)
			a.wait()
			a.hosted(c.exit, c.stop)
			if got := a.events(); got != c.events {
				t.Errorf("events:\n got %s\nwant %s", got, c.events)
			}
			if got := a.sources(); !slices.Equal(got, c.sources) {
				t.Errorf("sources %q, want %q", got, c.sources)
			}
			start := a.lines[0]
			if start["backend"] != "claude" || start["dangerously_load"] != false || start["dir"] != a.work() {
				t.Errorf("it begins with %v", start)
			}
			sent := a.only("agent.prompt_submitted")[0]
			if want := map[bool]string{true: "tmux", false: "pty"}[slices.Contains(c.flags, "tmux")]; sent["delivery"] != want || sent["prompt_length"] != 2.0 {
				t.Errorf("the prompt: %v", sent)
			}
			for _, l := range a.only("permission.request") {
				o := fmt.Sprint(l["options"])
				if l["tool"] != "Bash" || l["question"] == nil || !strings.Contains(o, "kind:allow") || !strings.Contains(o, "optionId:") {
					t.Errorf("the question: %v", l)
				}
			}
			if end := a.lines[len(a.lines)-1]; end["usage"] != nil {
				t.Errorf("the end: %v", end)
			}
			if made := exists(filepath.Join(a.path("work"), "made")); made != (c.exit == 0 && strings.HasPrefix(c.stage, "bash")) {
				t.Errorf("made: %v", made)
			}
		})
	}
}

// work is the folder that is worked in, as the program sees it.
func (a *avenorRun) work() string {
	work, err := filepath.EvalSymlinks(a.path("work"))
	if err != nil {
		a.Fatal(err)
	}
	return work
}

// hosted checks a run of a guest that has ended.
func (a *avenorRun) hosted(exit int, stop string) {
	a.Helper()
	stream, err := os.ReadFile(a.file)
	if err != nil {
		a.Fatal(err)
	}
	if a.exit != exit {
		a.Errorf("exit %d, want %d", a.exit, exit)
	}
	a.lint(a.dialect, stream)
	a.lines = a.parse(stream)
	a.once(a.lines, "event", "session.end")
	if last := a.lines[len(a.lines)-1]; last["event"] != "session.end" || last["stop_reason"] != stop {
		a.Errorf("the last event is %v, want session.end with %s", last, stop)
	}
	a.out = stream
	a.checkSentinel()
	a.checkStrays()
	for _, name := range []string{".mcp.json", ".claude"} {
		if exists(filepath.Join(a.path("work"), name)) {
			a.Errorf("%s is in the user's folder", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(a.path("tmp"), "*")); len(left) > 0 {
		a.Errorf("left behind: %q", left)
	}
	if a.Failed() {
		a.Logf("events:\n%s\nstderr:\n%s", clipped(stream), a.errs.Bytes())
	}
}

// A claude that is stopped stops, or is made to; whoever drives it is told which.
func TestAvenorBackendClaudeStopped(t *testing.T) {
	for stage, stop := range map[string]string{"work": "cancelled", "hang": "cancelled_forced"} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			a := newHosted(t, "claude", stage)
			a.start(nil)
			a.awaitEvent("text")
			a.signal(syscall.SIGTERM)
			a.wait()
			a.hosted(143, stop)
		})
	}
}

// The backend claude-channel tells what came through its channel besides.
func TestAvenorBackendChannel(t *testing.T) {
	for name, c := range map[string]struct {
		stage   string
		exit    int
		stop    string
		has     []string
		hasNot  []string
		deliver string
	}{
		"pushed, reported and finished": {"dev mcp report:working reply:boss finish:done say:Bye.", 0, "end_turn",
			[]string{"agent.channel_ready", "agent.prompt_queued", "agent.report", "agent.reply", "agent.finish"}, []string{"agent.prompt_submitted", "avenor.error"}, "channel"},
		"there are no channels": {"none mcp finish:done say:Bye.", 0, "end_turn",
			[]string{"agent.channel_ready", "agent.prompt_submitted", "agent.finish"}, []string{"agent.prompt_queued", "agent.report", "agent.reply"}, "pty"},
		"it says that it failed":     {"dev mcp finish:failed say:Bye.", 1, "error", []string{"agent.finish", "avenor.error"}, nil, "channel"},
		"it says that it is blocked": {"dev mcp finish:blocked say:Bye.", 5, "blocked", []string{"agent.finish", "avenor.error"}, nil, "channel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHosted(t, "claude-channel", c.stage, "--run-id", "run_1")
			a.start(nil)
			a.wait()
			a.hosted(c.exit, c.stop)
			got := strings.Fields(a.events())
			for _, name := range c.has {
				if !slices.Contains(got, name) {
					t.Errorf("there is no %s", name)
				}
			}
			for _, name := range c.hasNot {
				if slices.Contains(got, name) {
					t.Errorf("there is %s", name)
				}
			}
			start := a.lines[0]
			if start["backend"] != "claude-channel" || start["dangerously_load"] != true || start["dir"] != a.work() {
				t.Errorf("it begins with %v", start)
			}
			for event, fields := range map[string]string{
				"agent.channel_ready":    "run_id server_name source",
				"agent.prompt_queued":    "control_id message_type delivery prompt_length",
				"agent.prompt_submitted": "delivery prompt_length",
				"agent.report":           "state payload source",
				"agent.reply":            "to payload source",
				"agent.finish":           "status summary files_changed payload source",
			} {
				for _, l := range a.only(event) {
					for _, f := range strings.Fields(fields) {
						if l[f] == nil {
							t.Errorf("%s has no %s: %v", event, f, l)
						}
					}
					if d := l["delivery"]; d != nil && d != c.deliver || l["source"] != nil && l["source"] != "channel" {
						t.Errorf("%v", l)
					}
				}
			}
			if n := len(a.only("agent.prompt_queued")) + len(a.only("agent.prompt_submitted")); n != 1 {
				t.Errorf("the prompt was delivered %d times", n)
			}
		})
	}
}

// Other agents do the work under the same contract: claude by its stream, and whoever speaks ACP.
func TestAvenorBackends(t *testing.T) {
	for name, c := range map[string]struct {
		backend, prompt string
		starts          string
		events          []string
	}{
		"claude by its stream": {"claude-stream", "run make", "claude-stream", []string{"agent.message_chunk", "tool.call", "permission.request", "permission.response", "tool.call_update"}},
		"an ACP agent":         {"acp:acp-agent", "run make", "acp", []string{"agent.message_chunk", "tool.call", "permission.request", "permission.response", "tool.call_update"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHosted(t, c.backend, "", "--auto-approve")
			a.args[slices.Index(a.args, "--prompt")+1] = c.prompt
			a.play(0, "end_turn")
			if a.lines[0]["backend"] != c.starts || a.lines[0]["dir"] != a.work() {
				t.Errorf("it begins with %v", a.lines[0])
			}
			got := strings.Fields(a.events())
			for _, name := range c.events {
				if !slices.Contains(got, name) {
					t.Errorf("there is no %s in %q", name, got)
				}
			}
		})
	}
}
