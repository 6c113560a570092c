//go:build unix

package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// board puts a stand-in on a terminal with a channel.
func board(t *testing.T, stage string, who ...gate.Answerer) *party {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return seat(t, stage, Config{Agent: "claude-channel", Sidecar: []string{"env", playVar + "=sidecar", self}}, who...)
}

func TestChannel(t *testing.T) {
	for _, c := range []struct {
		name, stage string
		want        string
		outcome     event.Outcome
		stop        string
	}{
		{"pushed, reported and finished", "dev mcp report:working reply:boss finish:done say:Bye.",
			"prompt channel.ready channel.queued report answer finish text(Bye.) reply.done(end_turn)", event.Done, "end_turn"},
		{"there are no channels: it is typed", "none mcp report:started finish:done say:Bye.",
			"prompt channel.ready channel.submitted report finish text(Bye.) reply.done(end_turn)", event.Done, "end_turn"},
		{"it reports that it failed", "dev mcp finish:failed say:Bye.",
			"prompt channel.ready channel.queued finish text(Bye.) error reply.failed(error)", event.Failed, "error"},
		{"it reports that it is blocked", "dev mcp report:blocked finish:blocked say:Bye.",
			"prompt channel.ready channel.queued report finish text(Bye.) error reply.failed(blocked)", event.Failed, "blocked"},
		{"it never says so", "dev mcp say:Bye.",
			"prompt channel.ready channel.queued text(Bye.) reply.done(end_turn)", event.Done, "end_turn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := board(t, c.stage)
			v := p.say("Do it.")
			p.want("events", p.told(beside...), c.want) // what the transcript and the channel say of its state comes in any order
			if v.Outcome != c.outcome || v.Stop != c.stop {
				t.Errorf("%+v", v)
			}
			p.nothingLeft()
		})
	}
}

// beside are the kinds that come in one order, whoever is read first.
var beside = []event.Kind{
	"prompt", "channel.ready", "channel.queued", "channel.submitted", "report", "answer", "finish", "text", "error", "reply.done", "reply.failed",
}

// nothingLeft: neither in the folder for temporary things, nor in the project.
func (p *party) nothingLeft() {
	p.t.Helper()
	for _, dir := range []string{p.s.cfg.Temp, p.s.cfg.Workspace} {
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			p.t.Errorf("files are left: %v", left)
		}
	}
}

func TestChannelRelaysQuestions(t *testing.T) {
	for _, way := range []string{"relay", "both"} {
		for want, who := range map[string][]gate.Answerer{"gate.asked gate.allowed(auto) tool.done": {gate.Auto{}}, "gate.asked gate.denied(nobody) tool.denied": nil} {
			t.Run(way+" "+want, func(t *testing.T) {
				p := board(t, "dev mcp "+way+":make finish:done say:Bye.", who...)
				p.say("Do it.")
				p.want("calls", p.told("gate.asked", "gate.allowed", "gate.denied", "tool.done", "tool.denied", "tool.failed"), want)
			})
		}
	}
}

// TestChannelFinishedTellsAll: what claude says at its end reaches the journal.
func TestChannelFinishedTellsAll(t *testing.T) {
	p := board(t, "dev mcp report:blocked finish:done say:Bye.")
	p.say("Do it.")
	p.await(func(e event.Event) bool {
		s, ok := e.Body.(event.Status)
		return ok && s.Phase == "waiting" && s.Source == "channel"
	})
	for _, e := range p.events {
		if f, ok := e.Body.(event.Finished); ok {
			if f.Status != "done" || f.Summary != "so it is" || len(f.Files) != 1 || f.Source != "channel" || string(f.Payload) != `{"k":1}` {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("it never finished")
}
