package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// says runs a script that must say this.
func (s *site) says(script, want string) {
	s.t.Helper()
	if got := s.run(script); strings.TrimSpace(got) != want {
		s.t.Errorf("%s: got %q, want %q", script, got, want)
	}
}

func (s *site) put(path, text string) {
	s.t.Helper()
	os.MkdirAll(filepath.Dir(path), 0o755)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// A sandbox in which no work can be done is none.
func TestWork(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		s := newSite(t, k, nil)
		s.says(`pwd; echo a > new; mkdir -p d/e; mv new d/e; ln -s d l; cat l/e/new; rm -r d l; ls`, s.work+"\na\nmain.go")
		s.says(`cat "$OUT/open"`, "known")
		s.says(`exit 3`, "")
		s.says(`echo x > /dev/null; (echo in a pipe) | cat; cat <<< here; head -c 3 /dev/zero | wc -c`, "in a pipe\nhere\n3")
		s.says(`id -u`, strings.TrimSpace(s.output("id", "-u")))
		s.says(`grep -c . /etc/passwd > /dev/null && echo read`, "read")
		if k == none {
			return
		}
		s.says(`grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\t0'`, "CapEff:\nNoNewPrivs:1")
		s.says(`touch "$OUT/keys/new" /run/new 2>/dev/null || echo no`, "no")
		// Temporary files are of this run, and stay between commands.
		s.says(`echo kept > "${TMPDIR:-/tmp}/f"; mktemp > /dev/null && echo made`, "made")
		s.says(`cat "${TMPDIR:-/tmp}/f"`, "kept")
		if _, err := os.Stat("/tmp/f"); err == nil {
			t.Error("it is everybody's")
		}
		args := s.box.Wrap([]string{"/bin/sh", "-c", "exit 3"})
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = s.work
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("exit: %v", err)
		}
	})
}

func (s *site) output(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.work
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

const commit = `git -c user.name=n -c user.email=e@x add -A && git -c user.name=n -c user.email=e@x commit -qm m && git log --format=%s`

// Git can commit, in a repository and in a work tree beside it; what it would run stays what it was.
func TestGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	kinds(t, func(t *testing.T, k kind) {
		s := newSite(t, k, func(s *site, p *Plan) {
			os.RemoveAll(s.work + "/.git")
			s.output("git", "init", "-q", "-b", "main", ".")
		})
		s.says(commit, "m")
		tree := filepath.Join(s.out, "tree")
		s.output("git", "worktree", "add", "-q", "-b", "side", tree)
		beside := newSite(t, k, func(s *site, p *Plan) { s.work, p.Workspace = tree, tree })
		beside.put(tree+"/more", "x\n")
		beside.says(commit, "m\nm")
		if k == bubblewrap {
			beside.says(`{ echo x > "$(git rev-parse --git-path hooks)/pre-commit"; } 2>/dev/null || echo no`, "no")
			beside.says(`git config core.hooksPath x 2>/dev/null || echo no; rm -f .git 2>/dev/null || echo no`, "no\nno")
		}
	})
}

// A .git that names somebody else's folder is not believed.
func TestForgedGit(t *testing.T) {
	for name, forge := range map[string]func(s *site){
		"nothing there":      func(s *site) {},
		"no way back":        func(s *site) { s.put(s.out+"/worktrees/w/commondir", "../..\n") },
		"another's way back": func(s *site) { s.put(s.out+"/worktrees/w/gitdir", s.out+"/.git\n") },
		"not its parent": func(s *site) {
			s.put(s.out+"/worktrees/w/gitdir", s.work+"/.git\n")
			s.put(s.out+"/worktrees/w/commondir", s.hall+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{t: t, work: follow(t.TempDir()), out: follow(t.TempDir()), hall: follow(t.TempDir())}
			s.put(s.out+"/objects/x", "")
			s.put(s.hall+"/objects/x", "")
			s.put(s.out+"/worktrees/w/commondir", "../..\n")
			forge(s)
			s.put(s.work+"/.git", "gitdir: "+s.out+"/worktrees/w\n")
			if write, keep := repository(s.work); len(write) != 0 || len(keep) != 1 {
				t.Errorf("write %q, keep %q", write, keep)
			}
		})
	}
}

func TestPlans(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		if k == none {
			return
		}
		t.Run("places", func(t *testing.T) {
			s := newSite(t, k, func(s *site, p *Plan) {
				s.put(s.out+"/keys/spill/output", "long\n")
				s.put(s.out+"/cache/x", "")
				s.put(s.work+"/.env", secret)
				p.Writable = []string{s.out + "/cache", s.out + "/not there"}
				p.Readable = []string{s.out + "/keys/spill"}
				if k == bubblewrap {
					p.Hidden = append(p.Hidden, s.work+"/.env")
				}
			})
			s.says(`echo y > "$OUT/cache/x"; cat "$OUT/cache/x"`, "y")
			s.says(`cat "$OUT/keys/spill/output"; cat "$OUT/keys/id" 2>/dev/null; touch "$OUT/keys/spill/new" 2>/dev/null || echo no`, "long\nno")
			if k == bubblewrap {
				s.says(`cat .env`, "")
			}
		})
		t.Run("a workspace among temporary files", func(t *testing.T) {
			s := newSite(t, k, func(s *site, p *Plan) { s.work, p.Workspace = s.hall+"/w", s.hall+"/w"; os.Mkdir(s.work, 0o755) })
			s.says(`echo a > f; cat f; cat ../file 2>/dev/null || echo no`, "a\nno")
			if s.changed(s.work+"/f", "a\n") {
				t.Error("it is not in the workspace")
			}
		})
		t.Run("a workspace in a hidden place", func(t *testing.T) {
			s := newSite(t, k, func(s *site, p *Plan) {
				s.work, p.Workspace = s.out+"/keys/w", s.out+"/keys/w"
				os.Mkdir(s.work, 0o755)
			})
			s.says(`echo a > f; cat f; cat ../id 2>/dev/null || echo no`, "a\nno")
		})
		t.Run("a hidden workspace", func(t *testing.T) {
			s := newSite(t, k, func(s *site, p *Plan) { p.Hidden = append(p.Hidden, s.work) })
			s.says(`echo a > f; cat f`, "a")
		})
		t.Run("a workspace by a link", func(t *testing.T) {
			s := newSite(t, k, func(s *site, p *Plan) { os.Symlink(s.work, s.out+"/link"); p.Workspace = s.out + "/link" })
			s.says(`echo a > f; cat f`, "a")
		})
		t.Run("network", func(t *testing.T) {
			s := newSite(t, k, func(_ *site, p *Plan) { p.Network = true })
			s.listen()
			for _, name := range []string{"TCP", "UDP"} {
				if said := s.run("KNOCK=$" + name + " ./knock"); !s.knocked() {
					t.Errorf("%s: nobody came: %s", name, said)
				}
			}
		})
		t.Run("no hooks yet", func(t *testing.T) {
			s := newSite(t, k, func(s *site, _ *Plan) { os.RemoveAll(s.work + "/.git/hooks") })
			s.run(`mkdir -p .git/hooks; echo x > .git/hooks/pre-commit`)
			if _, err := os.Stat(s.work + "/.git/hooks/pre-commit"); (err == nil) != (k == landlock) {
				t.Errorf("a hook was made, or not: %v", err)
			}
		})
	})
}

// To be installed is not enough.
func TestDetect(t *testing.T) {
	t.Logf("this machine: %+v", Detect())
	for script, why := range map[string]string{
		"": "not installed",
		"echo bwrap: No permissions to create a new namespace >&2; echo try this >&2; exit 1": "cannot be used here: No permissions to create a new namespace",
		"exit 1":        "cannot be used here: exit status 1",
		"exec sleep 60": "did nothing for 1s",
		"exit 0":        "",
	} {
		dir := t.TempDir()
		if script != "" {
			if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\nPATH=/bin:/usr/bin\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		path, got := findBubblewrap()
		if !strings.Contains(got, why) || (why == "") != (got == "") || (got == "") != (path != "") || strings.Contains(got, "\n") {
			t.Errorf("%q: %q, %q", script, path, got)
		}
	}
}

func TestOpen(t *testing.T) {
	work := t.TempDir()
	can := func(c Capability) Capability { c.Why = "bubblewrap is not installed"; return c }
	for _, c := range []struct {
		mode Mode
		able Capability
		says []string // of Enforced, or of the error
		err  bool
	}{
		{Auto, Capability{Bubblewrap: "/usr/bin/bwrap", Landlock: 7}, []string{"bubblewrap", "no network"}, false},
		{Require, Capability{Bubblewrap: "/usr/bin/bwrap"}, []string{"bubblewrap"}, false},
		{Auto, can(Capability{Landlock: 7}), []string{"landlock 7 (bubblewrap is not installed)", "TCP is cut off, but not UDP", "hooks", "not protected"}, false},
		{Auto, can(Capability{Landlock: 3}), []string{"landlock 3", "the network is not cut off", "they may kill"}, false},
		{Auto, can(Capability{Landlock: 2}), []string{"no sandbox (bubblewrap is not installed; the kernel's Landlock is version 2, and 3 is needed)"}, false},
		{Auto, can(Capability{}), []string{"no sandbox (bubblewrap is not installed; the kernel has no Landlock)"}, false},
		{Require, can(Capability{Landlock: 7}), []string{"bubblewrap is not installed; install bubblewrap"}, true},
		{Auto, Capability{Bubblewrap: filepath.Join(work, "bwrap")}, []string{"no sandbox (bubblewrap in PATH is the workspace's own"}, false},
	} {
		s, err := open(c.mode, Plan{Workspace: work}, c.able)
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			text = s.Enforced()
			s.Close()
		}
		if (err != nil) != c.err || strings.Contains(text, "\n") {
			t.Errorf("%s %+v: %v", c.mode, c.able, err)
		}
		for _, w := range c.says {
			if !strings.Contains(text, w) {
				t.Errorf("%s %+v: %q does not say %q", c.mode, c.able, text, w)
			}
		}
	}
	if s, err := Open(Off, Plan{}); err != nil || !strings.Contains(s.Enforced(), "no sandbox (it is off)") || len(s.Wrap([]string{"a", "b"})) != 2 || s.Close() != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Open("on", Plan{Workspace: work}); err == nil || !strings.Contains(err.Error(), "auto, require or off") {
		t.Errorf("%v", err)
	}
	if _, err := Open(Auto, Plan{}); err == nil {
		t.Error("no workspace is fine")
	}
	var zero Sandbox
	if got := zero.Wrap([]string{"a"}); len(got) != 1 || zero.Enforced() == "" || zero.Close() != nil {
		t.Errorf("%q", got)
	}
}

// What stands between a program and its sandbox does not let it out.
func TestEnterFails(t *testing.T) {
	if Detect().Landlock < oldestLandlock {
		t.Skipf("NOT TRIED: %s", noLandlock(Detect().Landlock))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{enterWord, "no JSON", "--", "/bin/echo", "ran"}, {enterWord, "{}", "--", "no-such-program"}} {
		cmd := exec.Command(self, args...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 126 || strings.Contains(string(out), "ran\n") || !strings.HasPrefix(string(out), "sluice: the sandbox cannot be entered: ") {
			t.Errorf("%q: %s, %s", args, cmd.ProcessState, out)
		}
	}
	// With no rules at all nothing can be written and no network used.
	out, err := exec.Command(self, enterWord, `{"Version":4}`, "--", "/bin/sh", "-c", "echo x > /tmp/sluice-escaped || echo no").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "no\n") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestKeyPlaces(t *testing.T) {
	env := map[string]string{"HOME": "/home/u", "XDG_CONFIG_HOME": "/cfg", "KUBECONFIG": "/k/one:/k/two:relative", "GOOGLE_APPLICATION_CREDENTIALS": "/g.json", "NETRC": "relative"}
	list := KeyPlaces(func(name string) string { return env[name] })
	for _, must := range []string{"/home/u/.ssh", "/home/u/.aws", "/home/u/.config/gcloud", "/home/u/.config/sluice", "/home/u/.local/state/sluice", "/cfg/sluice", "/k/one", "/k/two", "/g.json"} {
		if !slices.Contains(list, must) {
			t.Errorf("%s is not hidden", must)
		}
	}
	for _, path := range list {
		if !filepath.IsAbs(path) || path == "/home/u" || path == "/" {
			t.Errorf("%q is hidden", path)
		}
	}
	if len(KeyPlaces(func(string) string { return "" })) == 0 {
		t.Error("without a home nothing is hidden")
	}
}
