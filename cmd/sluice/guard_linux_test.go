package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/dialect"
)

// daemons leaves strays behind: one of a command, one of a daemon, one of a Sluice in the Sluice. The last command stays.
const daemons = `
conversations:
- when: {prompt: Inner}
  steps: [{call: {tool: bash, input: {command: "stray inner; sleep 60"}}}, {text: Done.}]
steps:
- calls:
  - {tool: bash, input: {command: "stray one; (setsid sh -c 'stray two; sleep 60' >/dev/null 2>&1 &)"}}
  - {tool: bash, input: {command: "ANTHROPIC_API_KEY=` + key + ` setsid sluice run --ephemeral --model anthropic/scripted --mode yolo --format native Inner >/dev/null 2>&1 &"}}
- {call: {tool: bash, input: {command: "stray three; sleep 60"}}}
- {text: Done.}
`

func guardedRun(t *testing.T, script string) *run {
	d, err := dialect.Lookup("native")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, d)
	r.serve(script)
	return r
}

// processesOf lists who has this run's folders in its environment: the run itself and all that it started, but not its guard.
func processesOf(t *testing.T, r *run) (list []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no table of processes: %v", err)
	}
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		data, _ := os.ReadFile(file) // somebody else's, or one that has ended
		if bytes.Contains(data, []byte(r.dir)) && alive(pid) {
			list = append(list, pid)
		}
	}
	return list
}

// guardOf returns the guard of a program that runs, and waits until there is one.
func guardOf(t *testing.T, pid int) int {
	t.Helper()
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
		for _, file := range lists {
			data, _ := os.ReadFile(file) // a thread that has ended has none
			for _, child := range strings.Fields(string(data)) {
				line, _ := os.ReadFile("/proc/" + child + "/cmdline")
				if words := bytes.Split(line, []byte{0}); len(words) > 1 && string(words[1]) == "__guard" {
					n, _ := strconv.Atoi(child)
					return n
				}
			}
		}
	}
	t.Fatal("it has no guard")
	return 0
}

// Nothing that a run started lives on when it is killed: not what forked twice in a session of its own, nor a run in the run.
func TestKilledRunLeavesNothing(t *testing.T) {
	t.Parallel()
	r := guardedRun(t, daemons)
	r.start(nil)
	for _, name := range []string{"one", "two", "inner", "three"} {
		r.awaitStray(name)
	}
	guard := guardOf(t, r.cmd.Process.Pid)
	if n := len(processesOf(t, r)); n < 6 {
		t.Errorf("%d processes run, and four strays, the run and the one in it should", n)
	}
	r.signal(syscall.SIGKILL)
	r.wait()
	var left []int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if left = processesOf(t, r); len(left) == 0 && !alive(guard) {
			return
		}
	}
	t.Errorf("left behind: %d, guard: %v", left, alive(guard))
	r.checkStrays()
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// A run that ends as it should has no guard afterwards, from the moment on when it has ended; nor does it tell of one.
func TestGuardLeavesWithTheRun(t *testing.T) {
	t.Parallel()
	r := guardedRun(t, `steps: [{call: {tool: bash, input: {command: "stray one; until [ -e go ]; do sleep 0.01; done"}}}, {text: Done.}]`)
	r.start(nil)
	r.awaitStray("one")
	guard := guardOf(t, r.cmd.Process.Pid)
	if err := os.WriteFile(r.path("work/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.wait()
	if syscall.Kill(guard, 0) == nil {
		t.Error("the guard is still there")
	}
	if left := processesOf(t, r); len(left) > 0 {
		t.Errorf("left behind: %d", left)
	}
	if r.exit != 0 || !bytes.Contains(r.out, []byte(`"kind":"run.done"`)) || bytes.Contains(r.out, []byte("__guard")) || strings.Contains(r.errs.String(), "__guard") {
		t.Errorf("exit %d\n%s%s", r.exit, r.out, r.errs.String())
	}
}
