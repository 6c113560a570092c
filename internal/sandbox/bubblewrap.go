package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A mount is what stands at a path. A deeper one stands on top of those above it.
type mount struct {
	path string
	what what
}

type what int

const (
	hidden what = iota // nothing
	temp               // the run's temporary folder
	shown              // what is there, read-only
	given              // what is there
)

// mounts lists what a plan needs, in an order in which each can be made: it may change from command to command, since the
// commands make and remove what it names.
func (s *Sandbox) mounts() []mount {
	p := s.plan
	var list []mount
	add := func(w what, paths ...string) {
		for _, path := range paths {
			list = append(list, mount{path, w})
		}
	}
	add(hidden, "/run")
	add(hidden, p.Hidden...)
	add(temp, temporary(p.Workspace)...)
	add(shown, "/run/current-system") // programs, on one system
	if p.Network {
		add(shown, "/run/systemd/resolve") // where names are resolved
	}
	add(shown, p.Readable...)
	add(given, p.Workspace)
	add(given, p.Writable...)
	git, keep := repository(p.Workspace)
	add(given, git...) // also to keep it from being renamed, with what is kept in it
	add(shown, keep...)
	add(shown, filepath.Join(p.Workspace, ".sluice"))

	list = slices.DeleteFunc(list, func(m mount) bool { return !exists(m.path) })
	slices.SortStableFunc(list, func(a, b mount) int { return depth(a.path) - depth(b.path) })
	for _, dir := range git {
		if hooks := filepath.Join(dir, "hooks"); !exists(hooks) {
			list = append(list, mount{hooks, hidden})
		}
	}
	return visible(list)
}

// visible drops what need not be hidden: it is in a place that is hidden, or somebody was given that very place.
func visible(list []mount) (kept []mount) {
	for _, m := range list {
		around := shown
		for _, k := range kept { // the deepest is the last
			if _, in := below(k.path, m.path); in && k.path != m.path {
				around = k.what
			}
		}
		again := func(o mount) bool { return o.path == m.path && o.what != hidden }
		if m.what == hidden && (around == hidden || around == temp || slices.ContainsFunc(list, again)) {
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

func (s *Sandbox) bubblewrapped(args []string) []string {
	list := walls(s.able.Bubblewrap)
	var seal []string // only at the end: what is deeper needs a place to stand
	for _, m := range s.mounts() {
		switch m.what {
		case hidden:
			if exists(m.path) && !isFolder(m.path) {
				list = append(list, "--ro-bind", s.empty, m.path)
				break
			}
			list = append(list, "--tmpfs", m.path)
			seal = append(seal, "--remount-ro", m.path)
		case temp:
			list = append(list, "--bind", s.temp, m.path)
		case shown:
			list = append(list, "--ro-bind", m.path, m.path)
		case given:
			list = append(list, "--bind", m.path, m.path)
		}
	}
	list = append(list, seal...)
	if !s.plan.Network {
		list = append(list, "--unshare-net")
	}
	return append(append(list, "--new-session", "--chdir", s.plan.Workspace, "--"), args...)
}

// walls begins a command line. A command of root's stays root to the kernel, which then lets it write to /proc/sys: so /proc
// is read-only, and there are no capabilities with which that could be undone.
func walls(program string) []string {
	return []string{program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc",
		"--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL", "--die-with-parent"}
}

// trial is how long bubblewrap may take to do nothing. It takes a hundredth of that, on a machine that is not busy.
const trial = time.Second

// findBubblewrap looks for bubblewrap and tries it.
func findBubblewrap() (path, why string) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "", "bubblewrap is not installed"
	}
	ctx, cancel := context.WithTimeout(context.Background(), trial)
	defer cancel()
	args := append(walls(path), "--unshare-net", "--new-session", "--", "/bin/sh", "-c", ":")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, "/", trial/10
	said, err := cmd.CombinedOutput()
	switch text := strings.TrimSpace(string(said)); {
	case err == nil:
		return path, ""
	case ctx.Err() != nil:
		return "", fmt.Sprintf("bubblewrap did nothing for %v", trial)
	case text != "":
		return "", "bubblewrap cannot be used here: " + oneLine(strings.TrimPrefix(text, "bwrap: "))
	}
	return "", "bubblewrap cannot be used here: " + err.Error()
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ToValidUTF8(s, "\uFFFD")
}
