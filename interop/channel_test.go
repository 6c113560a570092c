//go:build interop && linux

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Without an account claude loads no channels, so the prompt is typed. All the rest of a channel works: the sidecar is started and
// registers, its tools are offered and can be called.
func TestClaudeChannel(t *testing.T) {
	a := claudeChannel
	fetch(t, a.name, a.set)
	w := newWorld(t)
	w.with(a.set)
	w.model(script(a, two(a, w)))
	a.setup(w)
	hello := situation{name: "hello", prompt: "Say one.", format: "avenor", outcome: "done"}
	d := &drive{t: t, w: w, a: a, s: hello, socket: filepath.Join(w.dir, "socket")}
	d.run()
	d.said("This is one.")
	d.one("channel.ready")
	if by := d.one("channel.submitted").field("delivery"); by != "pty" {
		t.Errorf("the prompt was delivered by %s: can claude do it now? then this test and docs/guests.md are behind", by)
	}
	asked, err := os.ReadFile(w.served)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range regexp.MustCompile(`"(mcp__avenor-channel-[0-9a-f]+__avenor_(\w+))"`).FindAllStringSubmatch(string(asked), -1) {
		names[m[2]] = m[1]
	}
	if len(names) != 3 {
		t.Fatalf("claude does not offer the sidecar's tools: %v", names)
	}
	if repo := w.ok(w.command("git", "status", "--porcelain")); repo != "" {
		t.Errorf("something was left in the user's project: %s", repo)
	}

	// The server is called after the session, so in the same one its tools have the same names.
	w.model(script(a, fmt.Sprintf("  - text: This is one.\n  - call: %s\n  - call: %s\n  - call: %s\n  - text: And this is two.\n",
		call{names["report"], map[string]any{"state": "working", "payload": "halfway"}},
		call{names["reply"], map[string]any{"to": "you", "payload": "an answer"}},
		call{names["finish"], map[string]any{"status": "done", "summary": "all is well", "files_changed": []string{"a.txt"}}})))
	a.setup(w)
	d.s.prompt = "And now two."
	d.s.flags = []string{"--resume", "latest"}
	p := w.start(sluice(t), d.args(append(d.s.flags, d.s.prompt)...)...)
	if !p.wait(patience) || p.code != 0 {
		t.Errorf("exit %d: %s%s\nmodel: %s", p.code, p.out.String(), p.err.String(), w.log())
	}
	for _, want := range []string{`"event":"agent.report"`, `"event":"agent.reply"`, `"event":"agent.finish"`, `"summary":"all is well"`, `"dangerously_load":true`} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("there is no %s in %s", want, p.out.String())
		}
	}
	stream := filepath.Join(w.dir, "again")
	write(t, stream, p.out.String())
	d.lint("avenor", stream)
	if left := w.living(); len(left) > 0 {
		t.Errorf("left behind: %q", told(left))
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, "tmp")); len(left) > 0 {
		for _, e := range left {
			if strings.Contains(e.Name(), "sluice") || strings.Contains(e.Name(), "channel") {
				t.Errorf("left behind: %s", e.Name())
			}
		}
	}
	fmt.Print("\nclaude-channel: the sidecar registers, its tools are called; the prompt is typed, since channels want an account.\n")
}

// The same program in tmux.
func TestClaudeTmux(t *testing.T) {
	a := claudeTUI
	fetch(t, a.name, a.set)
	w := newWorld(t)
	w.with(a.set)
	w.model(script(a, touch(a, w)))
	a.setup(w)
	s := situation{name: "tmux", prompt: "Touch it.", format: "avenor", flags: []string{"--terminal", "tmux", "--auto-approve"}, outcome: "done"}
	d := &drive{t: t, w: w, a: a, s: s, socket: filepath.Join(w.dir, "socket")}
	d.run()
	if by := d.one("channel.submitted").field("delivery"); by != "tmux" || !w.has("touched.txt") {
		t.Errorf("by %s: %v", by, d.events)
	}
}
