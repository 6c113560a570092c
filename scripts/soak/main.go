//go:build unix

// Soak runs a loop of many phases on the scripted model and watches the process: its memory, its files, its children; and reads its
// control socket with one subscriber who stays and several who come and go. It exits 1 if anything grows, is left behind, or is
// told to one of them and not to another.
//
//	go run ./scripts/soak [-phases 10000] [-guests 8]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/control"
)

var (
	phases = flag.Int("phases", 10000, "phases to run")
	guests = flag.Int("guests", 8, "subscribers who come and go")
)

func main() {
	flag.Parse()
	s := &soak{}
	if err := s.run(); err != nil {
		s.complain("%v", err)
	}
	if len(s.faults) > 0 {
		fmt.Println("\nFAILED")
		os.Exit(1)
	}
	fmt.Println("\nok")
}

type soak struct {
	dir    string
	mu     sync.Mutex
	faults []string
}

func (s *soak) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	s.faults = append(s.faults, text)
	fmt.Println("!", text)
}

// script says the same in every phase: a command, then a text. The marker never comes, so the loop runs to its limit.
const script = `
steps:
  - text: I look.
    call: {tool: bash, input: {command: "true"}}
    usage: {input: 10, output: 5}
  - text: That is that.
    usage: {input: 20, output: 5}
`

func (s *soak) run() error {
	var err error
	if s.dir, err = os.MkdirTemp("", "soak-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	for _, d := range []string{"work", "tmp", "home"} {
		if err := os.Mkdir(s.path(d), 0o700); err != nil {
			return err
		}
	}
	program := s.path("sluice")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/sluice").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	loop := map[string]any{
		"max_iterations": (*phases + 1) / 2,
		"loop":           []any{map[string]string{"name": "one", "prompt": "Do it, {{.Iteration}}."}, map[string]string{"name": "two", "prompt": "Again."}},
	}
	config, err := json.Marshal(loop)
	if err == nil {
		err = os.WriteFile(s.path("loop.json"), config, 0o600)
	}
	if err == nil {
		err = os.WriteFile(s.path("script.yaml"), []byte(script), 0o600)
	}
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "as", "avenor", "run", "--config", s.path("loop.json"), "--on-event", s.path("events.ndjson"),
		"--control-socket", s.path("s"), "--label", "soak", "--auto-approve", "--dir", s.path("work"), "--model", "script/"+s.path("script.yaml"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "TMPDIR=" + s.path("tmp"), "XDG_STATE_HOME=" + s.path("state"), "XDG_CONFIG_HOME=" + s.path("home")}
	cmd.Dir = s.path("work")
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	subs := s.subscribe()
	samples := s.watch(cmd.Process.Pid, ended)
	took := time.Since(began)
	subs.wait()
	if code := cmd.ProcessState.ExitCode(); code != 4 {
		s.complain("exit %d, want 4, the limit of iterations; stderr: %s", code, said.String())
	}
	fmt.Printf("%d phases in %s\n", *phases, took.Round(time.Second))
	s.judge(samples)
	s.journal(subs)
	s.left()
	return nil
}

func (s *soak) path(name string) string { return filepath.Join(s.dir, name) }

// A sample is the process at a moment.
type sample struct {
	memory   int // kB
	files    int
	children int
}

// watch looks at the process until it ends.
func (s *soak) watch(pid int, ended <-chan error) (list []sample) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ended:
			return list
		case <-tick.C:
		}
		if at, ok := look(pid); ok {
			list = append(list, at)
			if n%50 == 0 {
				fmt.Printf("%5ds  %6d kB  %3d files  %2d children\n", n/5, at.memory, at.files, at.children)
			}
		}
	}
}

func look(pid int) (at sample, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return at, false
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(v, &at.memory)
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return at, false
	}
	at.files = len(files)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		data, _ := os.ReadFile(t) // a thread that has just ended has none
		at.children += len(strings.Fields(string(data)))
	}
	return at, at.memory > 0
}

// judge holds the last third of the run to the second: what grows shows there.
func (s *soak) judge(list []sample) {
	if len(list) < 9 {
		fmt.Println("too short to say whether anything grows")
		return
	}
	middle, end := median(list[len(list)/3:2*len(list)/3]), median(list[2*len(list)/3:])
	fmt.Printf("memory %d → %d kB, files %d → %d, children at most %d\n", middle.memory, end.memory, middle.files, end.files, most(list))
	if end.memory > middle.memory+middle.memory/10+4096 {
		s.complain("memory grows: %d kB, then %d kB", middle.memory, end.memory)
	}
	if end.files > middle.files+4 {
		s.complain("descriptors leak: %d, then %d", middle.files, end.files)
	}
	if n := most(list); n > 4 {
		s.complain("%d children at once", n)
	}
}

func median(list []sample) sample {
	pick := func(f func(sample) int) int {
		values := make([]int, len(list))
		for i, at := range list {
			values[i] = f(at)
		}
		for i := range values {
			for j := i; j > 0 && values[j] < values[j-1]; j-- {
				values[j], values[j-1] = values[j-1], values[j]
			}
		}
		return values[len(values)/2]
	}
	return sample{pick(func(s sample) int { return s.memory }), pick(func(s sample) int { return s.files }), 0}
}

func most(list []sample) (n int) {
	for _, at := range list {
		n = max(n, at.children)
	}
	return n
}

// A reader is a subscriber: what it was told, in the end.
type reader struct {
	last    uint64
	sum     hash.Hash64 // of all that it was told
	came    int
	tracker fold.Tracker
}

type readers struct {
	list []*reader
	busy sync.WaitGroup
}

func (r *readers) wait() { r.busy.Wait() }

// subscribe begins one who stays and others who come and go.
func (s *soak) subscribe() *readers {
	all := &readers{}
	for i := range *guests + 1 {
		r := &reader{sum: fnv.New64a()}
		all.list = append(all.list, r)
		all.busy.Go(func() { s.follow(r, i == 0) })
	}
	return all
}

// take reads one line that the reader was told, and says whether it is the run's end.
func (s *soak) take(r *reader, line []byte) (end bool) {
	l, err := event.Parse(line)
	if err != nil {
		s.complain("%v in %s", err, line)
		return false
	}
	if l.Seq != r.last+1 {
		s.complain("after %d came %d", r.last, l.Seq)
	}
	r.last = l.Seq
	r.sum.Write(line)
	e, err := l.Event()
	if err != nil {
		s.complain("%v in %s", err, line)
	}
	fold.Apply(e, &r.tracker)
	_, end = event.AsRunEnd(e.Body)
	return end
}

// follow reads until the run is over. Who does not stay leaves after some events, at random, and comes back for the rest. Who
// was away at the end finds nobody there any more, and reads on in the journal.
func (s *soak) follow(r *reader, stays bool) {
	for over := false; !over; {
		ctx, leave := context.WithCancel(context.Background())
		budget := -1
		if !stays {
			budget = rand.IntN(5000)
		}
		told := func(e control.Event) {
			if over || ctx.Err() != nil {
				return
			}
			over = s.take(r, e.Line)
			if budget--; budget == 0 || over {
				leave()
			}
		}
		err := s.visit(ctx, r, told)
		leave()
		if err != nil {
			if over = s.readOn(r); !over || stays || r.came == 0 {
				s.complain("the end was not told: %v", err)
			}
			return
		}
	}
}

// readOn reads what the journal has beyond what the reader knows.
func (s *soak) readOn(r *reader) (end bool) {
	data, err := s.written()
	if err != nil {
		s.complain("%v", err)
	}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if l, err := event.Parse(line); err == nil && l.Seq > r.last {
			end = s.take(r, line)
		}
	}
	return end
}

// written is the run's journal.
func (s *soak) written() ([]byte, error) {
	found, _ := filepath.Glob(s.path("state/sluice/sessions/*/journal.ndjson"))
	if len(found) != 1 {
		return nil, fmt.Errorf("%d journals, want one", len(found))
	}
	return os.ReadFile(found[0])
}

// visit connects, and stays until somebody leaves.
func (s *soak) visit(ctx context.Context, r *reader, told func(control.Event)) error {
	var c *control.Client
	var err error
	for range 100 { // the run may not be there yet
		if c, err = control.Dial(ctx, s.path("s"), told); err == nil || r.came > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	r.came++
	if _, err := c.Subscribe(ctx, control.Subscribe{AfterSeq: &r.last, Replay: true, Format: "native"}); err != nil && ctx.Err() == nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-c.Done():
	}
	return nil
}

// journal compares what everybody was told with what was written down.
func (s *soak) journal(all *readers) {
	data, err := s.written()
	if err != nil {
		s.complain("%v", err)
		return
	}
	sum, last, ran := fnv.New64a(), uint64(0), 0
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		sum.Write(line)
		l, err := event.Parse(line)
		if err != nil || l.Seq != last+1 {
			s.complain("the journal breaks after %d: %v", last, err)
			return
		}
		last = l.Seq
		if l.Kind == "phase.ended" {
			ran++
		}
	}
	fmt.Printf("%d events, %d phases, %.1f MB\n", last, ran, float64(len(data))/(1<<20))
	if want := (*phases + 1) / 2 * 2; ran != want {
		s.complain("%d phases ended, want %d", ran, want)
	}
	stays := all.list[0]
	visits := 0
	for i, r := range all.list {
		visits += r.came
		if r.last != last || r.sum.Sum64() != sum.Sum64() {
			s.complain("subscriber %d was told something else: up to %d of %d", i, r.last, last)
		}
		a, _ := json.Marshal(stays.tracker.Snapshot())
		if b, _ := json.Marshal(r.tracker.Snapshot()); !bytes.Equal(a, b) {
			s.complain("subscriber %d ends elsewhere:\n%s\n%s", i, a, b)
		}
	}
	fmt.Printf("%d subscribers, who came %d times\n", len(all.list), visits)
}

// left looks for what the run forgot.
func (s *soak) left() {
	for _, pattern := range []string{"tmp/*", "work/*", "s*.lock", "s"} {
		if found, _ := filepath.Glob(s.path(pattern)); len(found) > 0 {
			s.complain("left behind: %s", strings.Join(found, ", "))
		}
	}
}
