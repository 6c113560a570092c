//go:build unix

package terminal

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/internal/proc"
)

// kinds are the ways to open a terminal.
func kinds(t *testing.T, f func(*testing.T, func(Options) (Terminal, error))) {
	t.Run("pty", func(t *testing.T) { f(t, Open) })
	t.Run("tmux", func(t *testing.T) {
		if _, err := exec.LookPath("tmux"); err != nil {
			t.Fatal("tmux is not installed: make need installs it")
		}
		f(t, OpenTmux)
	})
}

func options(t *testing.T, args ...string) Options {
	g := &proc.Group{}
	t.Cleanup(func() {
		if left := g.Close(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return Options{
		Group: g, Args: args, Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8"},
		Cols: 60, Rows: 10, Temp: t.TempDir(),
	}
}

// await waits until the screen shows a text.
func await(t *testing.T, on Terminal, text string) string {
	t.Helper()
	end := time.After(60 * time.Second)
	for {
		screen := on.Screen()
		if strings.Contains(screen, text) {
			return screen
		}
		select {
		case <-on.Changed():
		case <-end:
			t.Fatalf("the screen never showed %q, but\n%s", text, screen)
		}
	}
}

func TestTalk(t *testing.T) {
	kinds(t, func(t *testing.T, open func(Options) (Terminal, error)) {
		o := options(t, "sh", "-c", `printf 'who? '; read who; printf '\033[2J\033[3;5Hhello %s\n' "$who"; read x; exit 7`)
		on, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		await(t, on, "who?")
		if err := on.Type("wörld" + Enter); err != nil {
			t.Fatal(err)
		}
		screen := await(t, on, "hello")
		if lines := strings.Split(screen, "\n"); len(lines) < 3 || lines[2] != "    hello wörld" || strings.Contains(screen, "who?") {
			t.Errorf("the screen is\n%s", screen)
		}
		if err := on.Type(Enter); err != nil {
			t.Fatal(err)
		}
		<-on.Exited()
		if e := on.Exit(); e.Code != 7 {
			t.Errorf("it ended with %v", e)
		}
		if err := on.Type("x"); err == nil {
			t.Error("keys for a program that has ended are taken")
		}
		on.Close()
	})
}

// TestHowItEnded: by itself, or by a signal.
func TestHowItEnded(t *testing.T) {
	kinds(t, func(t *testing.T, open func(Options) (Terminal, error)) {
		for line, want := range map[string]proc.Exit{"sleep .3; exit 0": {}, "sleep .3; exit 3": {Code: 3}, "sleep .3; kill -9 $$": {Code: -1, Signal: "killed"}} {
			on, err := open(options(t, "sh", "-c", line))
			if err != nil {
				t.Fatal(err)
			}
			e := on.Exit()
			on.Close()
			if e.Err != nil || e.Code != want.Code || (e.Signal == "") != (want.Signal == "") { // tmux has a name of its own for it
				t.Errorf("%s: it ended with %v, want %v", line, e, want)
			}
		}
	})
}

// TestPasteIsNoKeys: what is pasted is marked as such if the program wants to know, and has no keys in it.
func TestPasteIsNoKeys(t *testing.T) {
	kinds(t, func(t *testing.T, open func(Options) (Terminal, error)) {
		o := options(t, "sh", "-c", `stty raw -echo; printf '\033[?2004hgo'; head -c 26 | od -An -c; sleep 60`)
		on, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer on.Close()
		await(t, on, "go")
		if err := on.Paste("two\x1b[A\nlines\x03 ok"); err != nil {
			t.Fatal(err)
		}
		screen := await(t, on, "o   k")
		flat := strings.Join(strings.Fields(screen), " ")
		if !strings.Contains(flat, "033 [ 2 0 0 ~ t w o [ A") || strings.Contains(flat, "003") || !strings.Contains(flat, "l i n e s") {
			t.Errorf("the program got\n%s", screen)
		}
	})
}

func TestArgumentsAreNoShell(t *testing.T) {
	kinds(t, func(t *testing.T, open func(Options) (Terminal, error)) {
		// It stays until it was read: tmux may lose what is said by one that ends in the same breath.
		o := options(t, "sh", "-c", `printf '\n\n[%s]' "$1"; read x`, "sh", "$(touch pwned); `touch pwned` 'x' \"y\" # |")
		on, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer on.Close()
		await(t, on, "[$(touch pwned); `touch pwned` 'x' \"y\" # |]")
		if err := on.Type(Enter); err != nil {
			t.Fatal(err)
		}
		<-on.Exited()
		if _, err := os.Stat(filepath.Join(o.Dir, "pwned")); err == nil {
			t.Error("a shell read it")
		}
	})
}

// TestCloseLeavesNothing: also not what the program put into the background.
func TestCloseLeavesNothing(t *testing.T) {
	kinds(t, func(t *testing.T, open func(Options) (Terminal, error)) {
		o := options(t, "sh", "-c", `(trap '' HUP TERM; sleep 600) & echo ready; sleep 600`)
		on, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		await(t, on, "ready")
		on.Close()
		if left, _ := filepath.Glob(filepath.Join(o.Temp, "*")); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
		o.Group.Close() // whatever tmux detached; the cleanup then finds nothing
	})
}
