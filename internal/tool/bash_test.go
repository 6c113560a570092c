//go:build unix

package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestBash(t *testing.T) {
	b := newBench(t, map[string]string{"a": "x\n"})
	for _, c := range []struct {
		command, output, err string
		exit                 *int
	}{
		{"echo out; echo err >&2; echo out", "out\nerr\nout\n", "", new(0)},
		{"pwd; echo $PWD", b.dir + "\n" + b.dir + "\n", "", new(0)},
		{"cat a; exit 3", "x\n", "exit status 3", new(3)},
		{"cat", "", "", new(0)}, // stdin is empty
		{"[ -t 0 ] || [ -t 1 ] || echo none", "none\n", "", new(0)},
		{"kill -9 $$", "", "signal: killed", nil},
		{"nosuchcommand 2>/dev/null", "", "exit status 127", new(127)},
		{`printf 'a\377b'`, "a\uFFFDb", "", new(0)},
	} {
		r := b.run("bash", object{"command": c.command})
		if r.Output != c.output || r.Error != c.err || !cmp.Equal(r.Exit, c.exit) || r.Truncated {
			t.Errorf("%s: %+v exit %v", c.command, r, r.Exit)
		}
	}
	b.fails("bash", object{"command": "  "}, "the command is empty")
	b.fails("bash", object{"command": "a\x00b"}, "NUL")
	b.fails("bash", object{"command": "true", "timeout": -1}, "milliseconds")
	if got := b.mustPlan("bash", object{"command": "go test\n./..."}).Title; got != "go test …" {
		t.Errorf("title %q", got)
	}
	if r := b.mustPlan("bash", object{"command": "touch x"}).Run(over(t), nil); r.Error == "" {
		t.Error("it ran after its end")
	}
}

func TestBashEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-1")
	t.Setenv("GITHUB_TOKEN", "ghp-1")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "aws-1")
	t.Setenv("DB_PASSWORD", "pw-1")
	t.Setenv("PLAIN", "yes")
	t.Setenv("PAGER", "less")
	b := newBench(t, nil)
	out := b.ok("bash", object{"command": "env"}).Output
	for _, gone := range []string{"sk-1", "ghp-1", "aws-1", "pw-1", "PAGER=less"} {
		if strings.Contains(out, gone) {
			t.Errorf("%s is there", gone)
		}
	}
	for _, there := range []string{"PLAIN=yes\n", "PAGER=cat\n", "GIT_TERMINAL_PROMPT=0\n", "TERM=dumb\n", "PATH="} {
		if !strings.Contains(out, there) {
			t.Errorf("%s is not there", there)
		}
	}
	got := Environment([]string{"GITHUB_TOKEN=a", "OPENAI_API_KEY=b", "HOME=/h", "SSH_AUTH_SOCK=/s"}, "GITHUB_TOKEN")
	if want := append([]string{"GITHUB_TOKEN=a", "HOME=/h", "SSH_AUTH_SOCK=/s"}, unattended...); !cmp.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for name, want := range map[string]bool{
		"MY_API_KEY": true, "api_key": true, "NPM_TOKEN": true, "TOKEN": true, "CLIENT_SECRET_ID": true, "PGPASSWORD": true, "AWS_ACCESS_KEY_ID": true,
		"GOOGLE_APPLICATION_CREDENTIALS": true, "PATH": false, "PWD": false, "OLDPWD": false, "SSH_AUTH_SOCK": false, "TOKENIZERS_PARALLELISM": false, "XAUTHORITY": false,
	} {
		if Secret(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestBashAccess(t *testing.T) {
	b := newBench(t, nil)
	p := b.mustPlan("bash", object{"command": "git status", "description": "look"})
	if len(p.Access) == 0 || p.Access[0].Permission != "bash" || p.Title != "git status" {
		t.Errorf("%+v", p)
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) != nil }

func waitFile(t *testing.T, path string) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(data), "\n") {
			return strings.TrimSpace(string(data))
		}
	}
	t.Fatalf("%s does not come", path)
	return ""
}

// stubborn is a script that leaves a child in a session of its own which ignores TERM, and stays itself.
const stubborn = `echo begun; (trap '' TERM; setsid sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 1; done' & ); trap '' TERM; while :; do sleep 0.05; done`

func stubbornPid(t *testing.T, b *bench) (pid int) {
	t.Helper()
	if _, err := fmt.Sscan(waitFile(t, b.path("pid")), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestBashTimeout(t *testing.T) {
	b := newBench(t, nil)
	begin := time.Now()
	r := b.run("bash", object{"command": stubborn, "timeout": 700})
	if want := "timed out after 700ms and was killed: set timeout (at most 600000), or run it in the background"; r.Error != want || r.Exit != nil || r.Output != "begun\n" {
		t.Errorf("%+v", r)
	}
	if d := time.Since(begin); d > 60*time.Second {
		t.Errorf("took %v", d)
	}
	if pid := stubbornPid(t, b); !gone(pid) {
		t.Errorf("%d lives", pid)
	}
}

func TestBashTimeoutIsBounded(t *testing.T) {
	b := benchWith(t, nil, Options{MaxTimeout: 50 * time.Millisecond})
	for _, args := range []object{{"command": "sleep 600"}, {"command": "sleep 600", "timeout": int64(1) << 50}} {
		if r := b.run("bash", args); !strings.HasPrefix(r.Error, "timed out after 50ms") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestBashCancelled(t *testing.T) {
	b := newBench(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result)
	p := b.mustPlan("bash", object{"command": stubborn})
	go func() { done <- p.Run(ctx, func(string) {}) }()
	pid := stubbornPid(t, b)
	cancel()
	select {
	case r := <-done:
		if r.Error != "cancelled: it was killed" || r.Output != "begun\n" {
			t.Errorf("%+v", r)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("it does not return")
	}
	if !gone(pid) {
		t.Errorf("%d lives", pid)
	}
}

func TestBashDoesNotWaitForTheBackground(t *testing.T) {
	b := newBench(t, nil)
	r := b.ok("bash", object{"command": "sleep 600 & echo $!", "timeout": 20000})
	var pid int
	if _, err := fmt.Sscan(r.Output, &pid); err != nil {
		t.Fatal(err)
	}
	if gone(pid) {
		t.Error("what goes on in the background was killed with its call")
	}
	killed := b.opts.Group.Close()
	if len(killed) != 1 || !strings.HasPrefix(killed[0], fmt.Sprint(pid)) || !gone(pid) {
		t.Errorf("killed %q", killed)
	}
	b.fails("bash", object{"command": "true"}, "the run is over")
}

// pieces collects live output.
type pieces struct {
	mu   sync.Mutex
	list []string
}

func (p *pieces) add(s string) { p.mu.Lock(); defer p.mu.Unlock(); p.list = append(p.list, s) }
func (p *pieces) text() string { p.mu.Lock(); defer p.mu.Unlock(); return strings.Join(p.list, "") }

func TestBashLive(t *testing.T) {
	b := newBench(t, nil)
	var got pieces
	// The first piece is there before the command ends: it waits for a file that comes only then. The é is written in halves.
	p := b.mustPlan("bash", object{"command": `printf 'a\303'; while [ ! -e go ]; do sleep 0.01; done; printf '\251b\n'; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done`})
	var once sync.Once
	r := p.Run(t.Context(), func(s string) {
		got.add(s)
		if !utf8.ValidString(s) || s == "" {
			t.Errorf("piece %q", s)
		}
		once.Do(func() { b.put("go", "") })
	})
	if r.Error != "" || got.text() != r.Output || !strings.HasPrefix(r.Output, "aéb\nline 0\n") {
		t.Errorf("%s: live %d bytes, whole %d", r.Error, len(got.text()), len(r.Output))
	}
	if len(got.list) < 2 || len(got.list) > 40 || got.list[0] != "a" {
		t.Errorf("%d pieces, the first %q", len(got.list), got.list[0])
	}
}

func TestBashSpills(t *testing.T) {
	b := benchWith(t, nil, Options{Keep: 100_000})
	var got pieces
	p := b.mustPlan("bash", object{"command": "seq 1 200000; exit 5"})
	r := p.Run(t.Context(), got.add)
	if !r.Truncated || *r.Exit != 5 {
		t.Fatalf("%+v", r.Error)
	}
	var file string
	if _, err := fmt.Sscanf(strings.ReplaceAll(string(r.Metadata), `"`, " "), "{ spill : %s }", &file); err != nil {
		t.Fatalf("%s: %v", r.Metadata, err)
	}
	if filepath.Dir(file) != b.opts.Spill {
		t.Errorf("spilled to %s", file)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	data, _ := os.ReadFile(file)
	var want strings.Builder
	for i := range 200000 {
		fmt.Fprintln(&want, i+1)
	}
	if string(data) != want.String() {
		t.Errorf("the file has %d bytes, want %d", len(data), want.Len())
	}
	if len(r.Output) > Shown || !strings.HasPrefix(r.Output, "1\n2\n") || !strings.HasSuffix(r.Output, "\n200000\n") {
		t.Errorf("%d bytes: %.20q", len(r.Output), r.Output)
	}
	head, tail, ok := strings.Cut(r.Output, "\n[… ")
	lines := strings.Count(head, "\n") + strings.Count(tail, "\n") - 1
	var bytes, left int
	if _, err := fmt.Sscanf(tail, "%d bytes (%d lines) left out; all of it is in", &bytes, &left); err != nil || !ok || left+lines != 200000 {
		t.Errorf("%.100q: %v, %d lines shown", tail, err, lines)
	}
	if !strings.Contains(tail, file+"]\n") {
		t.Errorf("the file is not named: %.100q", tail)
	}
	if live := got.text(); len(live) > 300_000 || !strings.HasSuffix(live, "not shown live]\n") {
		t.Errorf("%d bytes live", len(live))
	}
	// The model can look into it.
	out := b.ok("read", object{"file_path": file, "offset": 150_000, "limit": 1}).Output
	if !strings.HasPrefix(out, "150000\t150000\n") {
		t.Errorf("read %q", out)
	}
}

func TestBashSpillIsBounded(t *testing.T) {
	b := benchWith(t, nil, Options{Keep: 1000, MaxSpill: 1 << 20})
	r := b.ok("bash", object{"command": "head -c 3000000 /dev/zero | tr '\\0' x"})
	if !strings.Contains(r.Output, "[the file has only the first 1 MB]") {
		t.Errorf("%.300q", r.Output)
	}
	list, _ := os.ReadDir(b.opts.Spill)
	if info, _ := list[0].Info(); info.Size() != 1<<20 {
		t.Errorf("the file has %d bytes", info.Size())
	}
}

func TestBashWithoutSpillFolder(t *testing.T) {
	b := benchWith(t, nil, Options{Keep: 1000})
	if err := os.WriteFile(b.opts.Spill, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	r := b.ok("bash", object{"command": "seq 1 100000"})
	if !r.Truncated || r.Metadata != nil || !strings.HasSuffix(r.Output, "\n100000\n") || strings.Contains(r.Output, "all of it is in") {
		t.Errorf("%+v", r)
	}
	b.fails("bash", object{"command": "true", "background": true}, "file for its output cannot be made")
}

func TestJobs(t *testing.T) {
	b := newBench(t, nil)
	r := b.ok("bash", object{"command": `echo first; while [ ! -e go ]; do sleep 0.01; done; echo second; exit 4`, "background": true})
	if !strings.HasPrefix(r.Output, "job-1 runs in the background") || !strings.Contains(string(r.Metadata), `"job":"job-1"`) {
		t.Fatalf("%+v", r)
	}
	var out string
	for end := time.Now().Add(10 * time.Second); !strings.Contains(out, "first"); {
		out = b.ok("bash_output", object{"job": "job-1"}).Output
		if time.Now().After(end) {
			t.Fatal(out)
		}
	}
	if out != "first\n[job-1: it still runs]\n" {
		t.Errorf("%q", out)
	}
	if out = b.ok("bash_output", object{"job": "job-1", "wait": 20}).Output; out != "(nothing new)\n[job-1: it still runs]\n" {
		t.Errorf("%q", out)
	}
	b.put("go", "")
	r = b.ok("bash_output", object{"job": "job-1", "wait": 20000})
	if r.Output != "second\n[job-1: it has ended: exit status 4]\n" || *r.Exit != 4 {
		t.Errorf("%+v", r)
	}

	b.ok("bash", object{"command": stubborn, "background": true})
	pid := stubbornPid(t, b)
	r = b.ok("bash_output", object{"job": "job-2", "kill": true})
	if !strings.HasPrefix(r.Output, "begun\n[job-2: it has ended: signal: killed]") || !gone(pid) {
		t.Errorf("%+v, gone %v", r, gone(pid))
	}
	b.fails("bash_output", object{"job": "job-9"}, `there is no job "job-9"; there are job-1, job-2`)
	p := b.mustPlan("bash_output", object{"job": "job-1", "wait": -1 + 1})
	if r := p.Run(t.Context(), nil); r.Error != "" {
		t.Errorf("%+v", r)
	}
}

func TestJobsEndWithTheRun(t *testing.T) {
	b := newBench(t, nil)
	b.ok("bash", object{"command": stubborn, "background": true})
	pid := stubbornPid(t, b)
	if killed := b.opts.Group.Close(); len(killed) < 2 || !gone(pid) {
		t.Errorf("killed %q, gone %v", killed, gone(pid))
	}
}

func TestJobSaysTooMuch(t *testing.T) {
	b := benchWith(t, nil, Options{Keep: 1000})
	b.ok("bash", object{"command": "seq 1 100000", "background": true})
	out := b.ok("bash_output", object{"job": "job-1", "wait": 20000}).Output
	if len(out) > 4000 || !strings.Contains(out, "all of it is in "+b.opts.Spill) || !strings.Contains(out, "\n100000\n[job-1: it has ended") {
		t.Errorf("%q", out)
	}
}

// Four commands of half a second at once take little over half a second.
func TestBashInParallel(t *testing.T) {
	b := newBench(t, nil)
	var wg sync.WaitGroup
	var got pieces
	for i := range 4 {
		p := b.mustPlan("bash", object{"command": fmt.Sprintf("touch %d; while [ $(ls | wc -l) -lt 4 ]; do sleep 0.01; done; echo %d", i, i), "timeout": 20000})
		wg.Go(func() { got.add(p.Run(t.Context(), func(string) {}).Output) })
	}
	wg.Wait()
	slices.Sort(got.list)
	if got.text() != "0\n1\n2\n3\n" {
		t.Errorf("they did not run at once: %q", got.list)
	}
}
