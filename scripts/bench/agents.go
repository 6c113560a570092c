//go:build unix

package main

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// A task is something that every agent is given to do, by the same scripted model. 50 and 200 turns show that a turn costs
// the same, but for the bytes of a history that grows: the floor sends them too. The command says something else each time,
// or it would be a loop.
type task struct {
	name   string
	script string
	cpu    float64 // our CPU time is at most so many times the floor's
}

var tasks = []task{
	{"one reply", "steps: [{text: Hello there.}]", 5},
	{"50 tool turns", "steps: [{text: Next., call: {tool: bash, input: {command: 'echo $RANDOM$RANDOM'}}, repeat: 50}, {text: Done.}]", 2},
	{"200 tool turns", "steps: [{text: Next., call: {tool: bash, input: {command: 'echo $RANDOM$RANDOM'}}, repeat: 200}, {text: Done.}]", 2},
	{"200 kB in 4-byte deltas", "chunk: 4\nsteps: [{text: \"" + strings.Repeat("a line of text, ", 200<<10/16) + "\"}]", 2},
}

// A rival is an agent that may be installed.
type rival struct {
	name string
	args []string
}

var rivals = []rival{
	{"claude", []string{"claude", "-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "go"}},
	{"codex", []string{"codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"}},
	{"pi", []string{"pi", "-p", "--mode", "json", "go"}},
	{"qwen", []string{"qwen", "-y", "-p", "go", "--output-format", "stream-json"}},
	{"opencode", []string{"opencode", "run", "--format", "json", "go"}},
	{"gemini", []string{"gemini", "-y", "-p", "go", "--output-format", "stream-json"}},
}

// A cost is what one run took.
type cost struct {
	first float64 // milliseconds until its first line
	cpu   float64 // milliseconds of the process and what it waited for
	peak  int64   // kilobytes
}

// scales is the program that weighs another one.
type scales string

// agents prints what a run costs, against the floor and against the agents that are installed.
func agents(dir, sluice string) error {
	built := map[string]string{}
	for _, name := range []string{"floor", "weigh"} {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if out, err := exec.Command("go", "build", "-o", path, "./scripts/"+name).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		built[name] = path
	}
	floor, weigh := built["floor"], scales(built["weigh"])
	sluice, err := filepath.Abs(sluice)
	if err != nil {
		return err
	}
	fmt.Println("\nrun, against the least that an agent can do (median of 5)")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "task\tagent\tfirst line\tCPU\tratio\tbar\tpeak memory\t\t")
	var single int64 // our memory for one reply
	for _, t := range tasks {
		s, err := script.Parse([]byte(t.script))
		if err != nil {
			return err
		}
		server := httptest.NewServer(modelserver.New(s, modelserver.Options{}))
		env := environment(server.URL)
		least, err := weigh.median(env, floor, "go")
		if err != nil {
			return err
		}
		ours, err := weigh.median(env, sluice, "run", "--ephemeral", "--max-turns", "0", "--mode", "yolo", "--model", "anthropic/m", "--format", "native", "go")
		if err != nil {
			return err
		}
		line := func(name string, c cost, bar, verdict string) {
			fmt.Fprintf(w, "%s\t%s\t%.1f ms\t%.1f ms\t%.1f\t%s\t%.1f MB\t%s\t\n", t.name, name, c.first, c.cpu, c.cpu/least.cpu, bar, float64(c.peak)/1024, verdict)
		}
		line("floor", least, "", "")
		line("sluice", ours, fmt.Sprintf("%.0f", t.cpu), t.verdict(ours, least, single))
		if single == 0 {
			single = ours.peak
		}
		for _, r := range rivals {
			if _, err := exec.LookPath(r.args[0]); err != nil {
				continue
			}
			c, err := weigh.spend(env, r.args...)
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s: %v\n", r.name, err)
				continue
			}
			line(r.name, c, "", "")
		}
		server.Close()
	}
	return w.Flush()
}

// verdict holds our cost against the bars: CPU by the floor's, and memory by our own for one reply.
func (t task) verdict(ours, least cost, single int64) string {
	var below []string
	if ours.cpu > t.cpu*least.cpu {
		below = append(below, "CPU")
	}
	if single == 0 && (ours.peak > 25<<10 || ours.first > 15) {
		below = append(below, "first line within 15 ms, 25 MB")
	}
	if single > 0 && ours.peak > single+10<<10 {
		below = append(below, "10 MB above one reply")
	}
	if below == nil {
		return "ok"
	}
	return "OVER: " + strings.Join(below, ", ")
}

// environment points every agent to the scripted model.
func environment(url string) []string {
	return append(os.Environ(),
		"ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY=sk-bench", "OPENAI_BASE_URL="+url+"/v1", "OPENAI_API_KEY=sk-bench",
		"GOOGLE_GEMINI_BASE_URL="+url, "GEMINI_API_KEY=bench",
	)
}

func (s scales) median(env []string, args ...string) (cost, error) {
	var list []cost
	for range 5 {
		c, err := s.spend(env, args...)
		if err != nil {
			return cost{}, err
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
	return list[2], nil
}

// spend runs an agent once.
func (s scales) spend(env []string, args ...string) (c cost, err error) {
	cmd := exec.Command(string(s), args...)
	cmd.Env = env
	cmd.Dir = os.TempDir() // no repository: what a run changed in one is worth some git commands, which the floor does not run
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return c, fmt.Errorf("%w: %s", err, stderr.String())
	}
	_, err = fmt.Sscan(string(out), &c.first, &c.cpu, &c.peak)
	return c, err
}
