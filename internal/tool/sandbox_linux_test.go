package tool

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/sandbox"
)

// boxed makes a bench whose commands are in the sandbox that this machine has.
func boxed(t *testing.T, files map[string]string) (*bench, *sandbox.Sandbox) {
	t.Helper()
	group := &proc.Group{Grace: 50 * time.Millisecond}
	var box *sandbox.Sandbox
	b := benchWith(t, files, Options{Group: group, Sandbox: func(args []string) []string { return box.Wrap(args) }})
	keys := filepath.Join(filepath.Dir(b.dir), "keys")
	if err := os.WriteFile(keys, []byte("top secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if box, err = sandbox.Open(sandbox.Auto, sandbox.Plan{Workspace: b.dir, Readable: []string{b.opts.Spill}, Hidden: []string{keys}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Close(); box.Close() })
	if strings.HasPrefix(box.Enforced(), "no sandbox") {
		t.Skipf("NOT TRIED: %s", box.Enforced())
	}
	t.Log(box.Enforced())
	return b, box
}

// running lists the processes, of this machine, that have a word among their arguments.
func running(t *testing.T, word string) (list []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), word) {
			list = append(list, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return list
}

func TestBashInASandbox(t *testing.T) {
	b, _ := boxed(t, map[string]string{"a": "x\n"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := b.ok("bash", object{"command": "pwd; cat a; echo y > new; cat new"}).Output; got != b.dir+"\nx\ny\n" {
		t.Errorf("got %q", got)
	}
	// In a /tmp of its own a command may think that it has written beside the workspace.
	b.run("bash", object{"command": "echo x > ../escaped"})
	for _, command := range []string{
		"cat ../keys", "echo x > /etc/escaped", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", l.Addr().(*net.TCPAddr).Port), fmt.Sprintf("kill -0 %d", os.Getpid()),
	} {
		for _, background := range []bool{false, true} {
			r := b.run("bash", object{"command": command, "background": background})
			if background {
				r = b.ok("bash_output", object{"job": r.Output[:strings.IndexByte(r.Output, ' ')], "wait": 20000})
			}
			if r.Exit == nil || *r.Exit == 0 || strings.Contains(r.Output, "top secret") {
				t.Errorf("%s: %+v", command, r)
			}
		}
	}
	if exists(filepath.Join(filepath.Dir(b.dir), "escaped")) || exists("/etc/escaped") {
		t.Error("it was written")
	}
	if r := b.run("bash", object{"command": "exit 7"}); r.Exit == nil || *r.Exit != 7 {
		t.Errorf("%+v", r)
	}
}

// What was spilled can be read by a command, too, although the folders around it are hidden.
func TestSpillInASandbox(t *testing.T) {
	b, box := boxed(t, nil)
	b.opts.Keep = 1000
	b.set = Builtin(b.opts)
	r := b.ok("bash", object{"command": "seq 1 10000"})
	file, _, _ := strings.Cut(strings.SplitAfter(string(r.Metadata), `"spill":"`)[1], `"`)
	if got := b.ok("bash", object{"command": "tail -n 1 " + file}).Output; got != "10000\n" {
		t.Errorf("%s: %q", box.Enforced(), got)
	}
}

// What forked twice, left its session, wiped its environment and ignores TERM is gone with its call, or with the run, in a
// sandbox as without one.
func TestKilledInASandbox(t *testing.T) {
	run := func(ctx context.Context, b *bench, args object) <-chan Result {
		done := make(chan Result, 1)
		p := b.mustPlan("bash", args)
		go func() { done <- p.Run(ctx, nil) }()
		return done
	}
	for name, end := range map[string]func(t *testing.T, b *bench, command string, begun func()){
		"timeout": func(t *testing.T, b *bench, command string, begun func()) {
			done := run(t.Context(), b, object{"command": command, "timeout": 1500})
			begun()
			if r := <-done; !strings.HasPrefix(r.Error, "timed out") {
				t.Errorf("%+v", r)
			}
		},
		"cancelled": func(t *testing.T, b *bench, command string, begun func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := run(ctx, b, object{"command": command})
			begun()
			cancel()
			<-done
		},
		"job": func(t *testing.T, b *bench, command string, begun func()) {
			b.ok("bash", object{"command": command, "background": true})
			begun()
			b.ok("bash_output", object{"job": "job-1", "kill": true})
		},
		"end of the run": func(t *testing.T, b *bench, command string, begun func()) {
			b.ok("bash", object{"command": command, "background": true})
			begun()
			if killed := b.opts.Group.Close(); len(killed) == 0 {
				t.Error("nothing is told to have been killed")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := boxed(t, nil)
			word := fmt.Sprintf("sluice-test-%d-%d", os.Getpid(), time.Now().UnixNano())
			forever := `trap "" TERM; touch begun; while :; do sleep 0.05; done; : ` + word
			command := fmt.Sprintf(`(env -i setsid sh -c '%s' & ); %s`, forever, forever)
			end(t, b, command, func() {
				b.await("begun")
				if len(running(t, word)) == 0 {
					t.Error("nothing runs")
				}
			})
			if left := running(t, word); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// await waits for a file that a command makes.
func (b *bench) await(name string) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); !exists(b.path(name)); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come", name)
		}
	}
}

// Commands that end by themselves leave nothing in the table of processes.
func TestNoZombiesOfASandbox(t *testing.T) {
	b, _ := boxed(t, nil)
	for range 10 {
		b.ok("bash", object{"command": "true & true"})
	}
	dead := -1
	for end := time.Now().Add(10 * time.Second); dead != 0 && time.Now().Before(end); {
		b.ok("bash", object{"command": "true"})
		dead = 0
		files, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, f := range files {
			data, _ := os.ReadFile(f)
			_, rest, _ := strings.Cut(string(data), ") ")
			if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", os.Getpid())) {
				dead++
			}
		}
		dead = max(0, dead-1) // the last one may still be on its way
	}
	if dead > 0 {
		t.Errorf("%d are left", dead)
	}
}
