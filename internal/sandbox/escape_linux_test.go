package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test's program what Sluice's is: it can become a command. For the commands of tests it can also knock at
// a socket.
func TestMain(m *testing.M) {
	Enter()
	if network, address, ok := strings.Cut(os.Getenv("KNOCK"), " "); ok {
		if c, err := net.Dial(network, address); err == nil {
			fmt.Fprintln(c, "knock")
			c.Close()
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// kinds are the sandboxes that this machine can be tried with. The first one has no walls: what is tried must succeed in it,
// or the trial proves nothing.
func kinds(t *testing.T, f func(t *testing.T, k kind)) {
	able := Detect()
	t.Run("none", func(t *testing.T) { f(t, none) })
	t.Run("bubblewrap", func(t *testing.T) {
		if able.Bubblewrap == "" {
			t.Skipf("NOT TRIED: %s", able.Why)
		}
		f(t, bubblewrap)
	})
	t.Run("landlock", func(t *testing.T) {
		if able.Landlock < oldestLandlock {
			t.Skipf("NOT TRIED: %s", noLandlock(able.Landlock))
		}
		f(t, landlock)
	})
}

// A site is a workspace in a world with things that are nobody's business.
type site struct {
	t         *testing.T
	box       *Sandbox
	work, out string // the workspace, and what is beside it
	hall      string // a folder among the temporary ones
	neighbour *exec.Cmd
	knocks    chan string
	addresses map[string]string
}

const secret = "the secret of the key file"

func newSite(t *testing.T, k kind, change func(s *site, p *Plan)) *site {
	t.Helper()
	// Not among the temporary folders, which are hidden as a whole.
	top, err := os.MkdirTemp(".", "site-")
	if err != nil {
		t.Fatal(err)
	}
	top = follow(top)
	s := &site{t: t, work: filepath.Join(top, "work"), out: filepath.Join(top, "out"), hall: follow(t.TempDir()), knocks: make(chan string, 10), addresses: map[string]string{}}
	t.Cleanup(func() { os.RemoveAll(top) })
	for path, text := range map[string]string{
		s.out + "/open": "known\n", s.out + "/keys/id": secret + "\n", s.out + "/token": secret + "\n", s.hall + "/file": secret + "\n",
		s.work + "/.git/hooks/pre-commit": "#!/bin/sh\n", s.work + "/.git/config": "[core]\n", s.work + "/.git/HEAD": "ref: refs/heads/main\n", s.work + "/.git/objects/x": "", s.work + "/.git/refs/x": "",
		s.work + "/.sluice/config.toml": "", s.work + "/main.go": "package main\n",
	} {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := Plan{Workspace: s.work, Hidden: []string{s.out + "/keys", s.out + "/token", s.out + "/nothing"}}
	if change != nil {
		change(s, &p)
	}
	able := Detect()
	switch k {
	case none:
		s.box = &Sandbox{}
	case landlock:
		able.Bubblewrap = ""
		fallthrough
	default:
		if s.box, err = open(Auto, p, able); err != nil || s.box.kind != k {
			t.Fatalf("%+v, %v", s.box, err)
		}
	}
	t.Cleanup(func() {
		if err := s.box.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs a script in the sandbox and returns what it says.
func (s *site) run(script string) string {
	s.t.Helper()
	args := s.box.Wrap([]string{"/bin/bash", "-c", script})
	cmd := exec.CommandContext(s.t.Context(), args[0], args[1:]...)
	cmd.Dir = s.work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "OUT=" + s.out, "WORK=" + s.work, "HALL=" + s.hall}
	if s.neighbour != nil {
		cmd.Env = append(cmd.Env, fmt.Sprintf("PID=%d", s.neighbour.Process.Pid))
	}
	for name, address := range s.addresses {
		cmd.Env = append(cmd.Env, name+"="+address)
	}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// startNeighbour starts a process that is not a command's.
func (s *site) startNeighbour() {
	s.neighbour = exec.Command("sleep", "60")
	s.neighbour.Env = []string{"KEY=" + secret}
	if err := s.neighbour.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.neighbour.Process.Kill(); s.neighbour.Wait() })
}

// listen opens doors that a command could knock at, and puts a program for that into the workspace.
func (s *site) listen() {
	s.t.Helper()
	for name, where := range map[string][2]string{"TCP": {"tcp", "127.0.0.1:0"}, "UNIX": {"unix", filepath.Join(s.hall, "s")}, "ABSTRACT": {"unix", fmt.Sprintf("@sluice-%d-%d", os.Getpid(), time.Now().UnixNano())}} {
		l, err := net.Listen(where[0], where[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { l.Close() })
		s.addresses[name] = where[0] + " " + l.Addr().String()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				text, _ := io.ReadAll(c)
				s.knocks <- string(text)
			}
		}()
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { udp.Close() })
	s.addresses["UDP"] = "udp " + udp.LocalAddr().String()
	go func() {
		buf := make([]byte, 100)
		if n, _, err := udp.ReadFrom(buf); err == nil {
			s.knocks <- string(buf[:n])
		}
	}()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(s.work+"/knock", data, 0o755)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) knocked() bool {
	select {
	case <-s.knocks:
		return true
	case <-time.After(50 * time.Millisecond): // what was sent on loopback is there
		return false
	}
}

func (s *site) changed(path, was string) bool {
	data, err := os.ReadFile(path)
	return err != nil || string(data) != was
}

func TestEscapes(t *testing.T) {
	outside := func(s *site, _ string) bool {
		list, _ := os.ReadDir(s.out)
		return len(list) != 3 || s.changed(s.out+"/open", "known\n")
	}
	told := func(_ *site, said string) bool { return strings.Contains(said, secret) }
	at := func(path, was string) func(*site, string) bool {
		return func(s *site, _ string) bool { return s.changed(filepath.Join(s.work, path), was) }
	}
	hook := at(".git/hooks/pre-commit", "#!/bin/sh\n")
	knocked := func(s *site, _ string) bool { return s.knocked() }
	for _, c := range []struct {
		name, script string
		escaped      func(s *site, said string) bool
		holes        []kind // where it is known to succeed, and is said to
		prepare      func(s *site)
	}{
		{name: "write outside", script: `echo x > "$OUT/new"`, escaped: outside},
		{name: "append outside", script: `echo x >> "$OUT/open"`, escaped: outside},
		{name: "cut short outside", script: `: > "$OUT/open"; truncate -s 0 "$OUT/open"`, escaped: outside},
		{name: "remove outside", script: `rm -f "$OUT/open"`, escaped: outside},
		{name: "rename outside", script: `mv "$OUT/open" "$OUT/moved"`, escaped: outside},
		{name: "move in", script: `mv "$OUT/open" .`, escaped: outside},
		{name: "write through a link", script: `ln -s "$OUT/open" l; echo x >> l`, escaped: outside},
		{name: "write through a hard link", script: `ln "$OUT/open" h && echo x >> h`, escaped: outside},
		{name: "write through proc", script: `echo x >> "/proc/self/root/$OUT/open"`, escaped: outside},
		{name: "permissions outside", script: `chmod 600 "$OUT/open"`, holes: []kind{landlock}, escaped: func(s *site, _ string) bool {
			info, err := os.Stat(s.out + "/open")
			return err != nil || info.Mode().Perm() != 0o644
		}},
		{name: "read a key in a folder", script: `cat "$OUT/keys/id"`, escaped: told},
		{name: "read a key file", script: `cat "$OUT/token"`, escaped: told},
		{name: "read a key through a link", script: `ln -s "$OUT/keys" k; cat k/id`, escaped: told},
		{name: "read a key through a hard link", script: `ln "$OUT/token" k; cat k`, escaped: told},
		{name: "read a key through proc", script: `cat "/proc/self/root/$OUT/keys/id" "/proc/self/cwd/../out/token"`, escaped: told},
		{name: "move a key in", script: `mv "$OUT/keys" k; cat k/id`, escaped: told},
		{name: "read a key by another mount", script: `cat "$OUT/token"; unshare -Urm sh -c 'umount "$OUT/keys" "$OUT/token"; cat "$OUT/keys/id" "$OUT/token"'`, escaped: told},
		{name: "mount", script: `mount -o remount,rw / || unshare -Urm mount -o remount,rw,bind /; echo x > "$OUT/new"`, escaped: outside},
		{name: "read a temporary file", script: `cat "$HALL/file"`, escaped: told},
		{name: "read a neighbour's environment", script: `cat "/proc/$PID/environ"`, escaped: told, prepare: (*site).startNeighbour},
		{name: "kill a neighbour", script: `kill -9 "$PID" && echo killed`, prepare: (*site).startNeighbour, escaped: func(_ *site, said string) bool { return said == "killed\n" }},
		{name: "TCP", script: `KNOCK=$TCP ./knock`, escaped: knocked, prepare: (*site).listen},
		{name: "UDP", script: `KNOCK=$UDP ./knock`, escaped: knocked, prepare: (*site).listen, holes: []kind{landlock}},
		{name: "a daemon's socket", script: `KNOCK=$UNIX ./knock`, escaped: knocked, prepare: (*site).listen, holes: []kind{landlock}},
		{name: "an abstract socket", script: `KNOCK=$ABSTRACT ./knock`, escaped: knocked, prepare: (*site).listen},
		{name: "write a hook", script: `echo x > .git/hooks/pre-commit`, escaped: hook, holes: []kind{landlock}},
		{name: "replace the hooks", script: `mv .git/hooks h; mkdir .git/hooks; echo x > .git/hooks/pre-commit`, escaped: hook, holes: []kind{landlock}},
		{name: "replace .git", script: `mv .git g; cp -r g .git; echo x > .git/hooks/pre-commit`, escaped: hook, holes: []kind{landlock}},
		{name: "name other hooks", script: `echo hooksPath=x >> .git/config; mv .git/config c; cp c .git/config`, escaped: at(".git/config", "[core]\n"), holes: []kind{landlock}},
		{name: "configure the next run", script: `echo x > .sluice/config.toml`, escaped: at(".sluice/config.toml", ""), holes: []kind{landlock}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, k kind) {
				s := newSite(t, k, nil)
				if c.prepare != nil {
					c.prepare(s)
				}
				said := s.run(c.script)
				if got, want := c.escaped(s, said), k == none || slices.Contains(c.holes, k); got != want {
					t.Errorf("escaped: %v, want %v: %s", got, want, said)
				}
			})
		})
	}
}

// What root can do to the kernel without any capability is not tried without walls.
func TestKernelSettings(t *testing.T) {
	const path = "/proc/sys/kernel/core_pattern"
	was, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("NOT TRIED: %v", err)
	}
	kinds(t, func(t *testing.T, k kind) {
		if k == none {
			return
		}
		s := newSite(t, k, nil)
		said := s.run("cat " + path + " > was; cat was > " + path + " && echo written")
		if now, _ := os.ReadFile(path); string(now) != string(was) || strings.Contains(said, "written") {
			t.Errorf("it was written: %s", said)
		}
	})
}
