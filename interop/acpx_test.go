//go:build interop && linux

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A client is acpx, which drives our agent.
func client(t *testing.T, steps string) *world {
	t.Helper()
	fetch(t, "acpx", "acpx")
	w := newWorld(t)
	w.with("acpx")
	w.model(script(agent{}, steps))
	w.set("ANTHROPIC_BASE_URL="+w.base, "ANTHROPIC_API_KEY=dummy", "SLUICE_MODEL=anthropic/claude-sonnet-4-5")
	return w
}

func (w *world) acpx(args ...string) *process {
	w.t.Helper()
	return w.start("acpx", append([]string{"--agent", sluice(w.t) + " acp", "--format", "json", "--ttl", "1"}, args...)...)
}

// answer is what acpx says when it is done.
func (w *world) answer(p *process, code int, want ...string) {
	w.t.Helper()
	if !p.wait(patience) || p.code != code {
		w.t.Errorf("exit %d, and not %d: %s%s\nmodel: %s", p.code, code, p.out.String(), p.err.String(), w.log())
	}
	for _, text := range want {
		if !strings.Contains(p.out.String(), text) {
			w.t.Errorf("there is no %s in %s", text, p.out.String())
		}
	}
}

func bash(command string) call { return call{"bash", map[string]any{"command": command}} }

func TestACPX(t *testing.T) {
	touch := fmt.Sprintf("  - text: I shall touch it.\n    call: %s\n  - text: That was that.\n", bash("touch touched.txt"))
	var table strings.Builder
	row := func(t *testing.T, name string, p *process) {
		if t.Failed() {
			name += " **wrong**"
		}
		fmt.Fprintf(&table, "| %s | %d |\n", name, p.code)
	}
	t.Run("prompt", func(t *testing.T) {
		w := client(t, "  - text: Hello from the script.\n")
		p := w.acpx("exec", "Say hello.")
		w.answer(p, 0, "Hello from the script.", `"stopReason":"end_turn"`)
		w.alone()
		row(t, "prompt", p)
	})
	t.Run("permission allowed", func(t *testing.T) {
		w := client(t, touch)
		p := w.acpx("--approve-all", "exec", "Touch it.")
		w.answer(p, 0, "session/request_permission", `"status":"completed"`, "That was that.")
		if !w.has("touched.txt") {
			t.Error("it was not touched")
		}
		w.alone()
		row(t, "permission allowed", p)
	})
	t.Run("permission denied", func(t *testing.T) {
		w := client(t, touch)
		p := w.acpx("--deny-all", "exec", "Touch it.")
		w.answer(p, 5, "session/request_permission", `"status":"failed"`, "That was that.")
		if w.has("touched.txt") {
			t.Error("it was touched")
		}
		w.alone()
		row(t, "permission denied", p)
	})
	t.Run("cancel", func(t *testing.T) {
		w := client(t, fmt.Sprintf("  - text: It will take long.\n    call: %s\n  - text: That was long.\n", bash(slow)))
		w.answer(w.acpx("sessions", "new"), 0)
		p := w.acpx("--approve-all", "prompt", "Take long.")
		if w.until("the tool begins", func() bool { return w.has("begun") || p.wait(0) }) {
			w.answer(w.acpx("cancel"), 0)
		}
		p.wait(patience)
		if !strings.Contains(p.out.String(), `"stopReason":"cancelled"`) {
			t.Errorf("exit %d: %s%s", p.code, p.out.String(), p.err.String())
		}
		w.alone()
		row(t, "cancel", p)
	})
	t.Run("resume", func(t *testing.T) {
		w := client(t, two(agent{}, nil))
		w.answer(w.acpx("sessions", "new"), 0)
		w.answer(w.acpx("prompt", "Say one."), 0, "This is one.")
		w.alone() // whoever held the session has gone
		p := w.acpx("prompt", "And now two.")
		w.answer(p, 0, "And this is two.")
		w.alone()
		row(t, "resume", p)
		if all, _ := os.ReadDir(filepath.Join(w.home, ".local", "state", "sluice", "sessions")); len(all) != 1 {
			t.Errorf("there are %d sessions of ours, and not one", len(all))
		}
	})
	fmt.Printf("\n| acpx drives sluice acp | exit code |\n|---|---|\n%s\n", table.String())
}

// alone waits until nobody is left: acpx keeps a process of its own for a moment.
func (w *world) alone() {
	w.t.Helper()
	if !w.until("everybody leaves", func() bool { return len(w.living()) == 0 }) {
		w.t.Errorf("left behind: %q", told(w.living()))
	}
}
