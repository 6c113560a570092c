//go:build unix

package tool

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// secretBench has a file outside that must stay what it is and where it is.
func secretBench(t *testing.T, files map[string]string) (b *bench, outer string) {
	b = newBench(t, files)
	outer = filepath.Join(filepath.Dir(b.dir), "outer")
	if err := os.MkdirAll(outer, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outer, "secret"), []byte("top secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		data, _ := os.ReadFile(filepath.Join(outer, "secret"))
		list, _ := os.ReadDir(outer)
		if string(data) != "top secret\n" || len(list) != 1 {
			t.Errorf("outside is %q and %d files", data, len(list))
		}
	})
	return b, outer
}

// Between plan and run, somebody puts a link where there was none.
func TestSwappedBetweenPlanAndRun(t *testing.T) {
	calls := map[string]func(path string) (string, object){
		"read":  func(p string) (string, object) { return "read", object{"file_path": p} },
		"write": func(p string) (string, object) { return "write", object{"file_path": p, "content": "mine\n"} },
		"edit": func(p string) (string, object) {
			return "edit", object{"file_path": p, "old_string": "secret", "new_string": "mine"}
		},
		"grep": func(p string) (string, object) { return "grep", object{"pattern": "secret", "path": p} },
	}
	swaps := map[string]func(b *bench, outer string) error{
		"file by a link out":         func(b *bench, outer string) error { return swapLink(b, "sub/secret", outer+"/secret") },
		"folder by a link out":       func(b *bench, outer string) error { return swapLink(b, "sub", outer) },
		"file by a link inside":      func(b *bench, outer string) error { return swapLink(b, "sub/secret", "../protected/secret") },
		"folder by a link inside":    func(b *bench, outer string) error { return swapLink(b, "sub", "protected") },
		"file by a relative way out": func(b *bench, outer string) error { return swapLink(b, "sub/secret", "../../outer/secret") },
	}
	for how, swap := range swaps {
		for name, call := range calls {
			t.Run(name+", "+how, func(t *testing.T) {
				b, outer := secretBench(t, map[string]string{"sub/secret": "known\n", "protected/secret": "protected secret\n"})
				tool, args := call("sub/secret")
				p := b.mustPlan(tool, args)
				if err := swap(b, outer); err != nil {
					t.Fatal(err)
				}
				r := p.Run(t.Context(), func(string) {})
				if strings.Contains(r.Output, "secret\n") {
					t.Errorf("it was read: %+v", r)
				}
				if b.get("protected/secret") != "protected secret\n" {
					t.Errorf("another file was changed: %+v", r)
				}
				if r.Error == "" {
					t.Errorf("no error: %+v", r)
				}
			})
		}
	}
}

// swapLink replaces what is there by a link.
func swapLink(b *bench, name, to string) error {
	if err := os.RemoveAll(b.path(name)); err != nil {
		return err
	}
	return os.Symlink(to, b.path(name))
}

// A folder that was missing when the call was planned is a link when it is run.
func TestLinkInsteadOfMissingFolder(t *testing.T) {
	b, outer := secretBench(t, nil)
	p := b.mustPlan("write", object{"file_path": "new/secret", "content": "mine\n"})
	b.link(outer, "new")
	if r := p.Run(t.Context(), nil); !strings.Contains(r.Error, "the path changed") {
		t.Errorf("%+v", r)
	}
}

// The same, but while it runs, again and again.
func TestSwappedWhileRunning(t *testing.T) {
	b, outer := secretBench(t, map[string]string{"sub/secret": "known\n", "spare/secret": "known\n"})
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			os.Rename(b.path("sub"), b.path("aside"))
			os.Symlink(outer, b.path("sub"))
			os.Remove(b.path("sub"))
			os.Rename(b.path("aside"), b.path("sub"))
		}
	}()
	for range 300 {
		if p, err := b.plan("read", object{"file_path": "sub/secret"}); err == nil && p.Access[0].Target == "sub/secret" {
			if r := p.Run(t.Context(), nil); strings.Contains(r.Output, "top") {
				t.Errorf("it was read: %+v", r)
			}
		}
		if p, err := b.plan("write", object{"file_path": "sub/secret", "content": "known\n"}); err == nil && p.Access[0].Target == "sub/secret" {
			p.Run(t.Context(), nil)
		}
	}
	stop.Store(true)
	<-done
}

// A place outside that was allowed is opened there, and not where a link leads that was put there since.
func TestOutside(t *testing.T) {
	b, outer := secretBench(t, nil)
	if r := b.ok("read", object{"file_path": "../outer/secret"}); !strings.Contains(r.Output, "top secret") {
		t.Errorf("%+v", r)
	}
	other := t.TempDir()
	file := filepath.Join(other, "deep", "er", "f")
	b.ok("write", object{"file_path": file, "content": "x\n"})
	p := b.mustPlan("write", object{"file_path": file, "content": "y\n"})
	if p.Diff != "" {
		t.Error("it was read before anybody agreed")
	}
	os.Remove(file)
	os.Symlink(outer+"/secret", file)
	if r := p.Run(t.Context(), nil); !strings.Contains(r.Error, "the path changed") {
		t.Errorf("%+v", r)
	}
	file = filepath.Join(other, "wide", "secret")
	b.ok("write", object{"file_path": file, "content": "mine\n"})
	reading := b.mustPlan("read", object{"file_path": file})
	writing := b.mustPlan("write", object{"file_path": file, "content": "y\n"})
	os.RemoveAll(filepath.Join(other, "wide"))
	os.Symlink(outer, filepath.Join(other, "wide"))
	for _, p := range []Plan{reading, writing} {
		if r := p.Run(t.Context(), nil); !strings.Contains(r.Error, "the path changed") {
			t.Errorf("%+v", r)
		}
	}
}

func TestSpecialFiles(t *testing.T) {
	b := newBench(t, nil)
	if err := syscall.Mkfifo(b.path("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	sock, err := net.Listen("unix", b.path("sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	for path, word := range map[string]string{"fifo": "named pipe", "sock": "socket", "/dev/zero": "device", "/dev/tty": "device", "..": "folder"} {
		b.fails("read", object{"file_path": path}, word)
		b.fails("write", object{"file_path": path, "content": "x"}, word)
		b.fails("edit", object{"file_path": path, "old_string": "a", "new_string": "b"}, word)
	}
	// A pipe that takes a file's place in between does not hold us up either.
	b.put("f", "x\n")
	p := b.mustPlan("read", object{"file_path": "f"})
	os.Remove(b.path("f"))
	syscall.Mkfifo(b.path("f"), 0o644)
	if r := p.Run(t.Context(), nil); r.Error == "" {
		t.Errorf("%+v", r)
	}
	if r := b.ok("grep", object{"pattern": "x"}); r.Output != "no matches\n" {
		t.Errorf("%+v", r)
	}
	b.fails("grep", object{"pattern": "x", "path": "fifo"}, "named pipe")
}

func TestLinkLoops(t *testing.T) {
	b := newBench(t, nil)
	b.link("b", "a")
	b.link("a", "b")
	b.fails("read", object{"file_path": "a"}, "too many links")
	b.fails("read", object{"file_path": "none/../x"}, "no such folder to go up from")
	b.link(".", "self")
	b.put("f", "x\n")
	if p := b.mustPlan("read", object{"file_path": "self/self/self/f"}); p.Access[0].Target != "f" {
		t.Errorf("%+v", p.Access)
	}
}
