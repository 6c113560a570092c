//go:build unix

// Bench measures the readers against jq on the same files, in one run, and prints one table: megabytes per CPU-second and
// their ratio, best of a few rounds taken in turn; then what a run of the agent costs, as ratios to the least that an agent can do
// (scripts/floor); then the peak memory on a file of a gigabyte.
//
// The files are a long run of our own agent (texts, calls with outputs of 2 to 9 kB; and the same with forty deltas a turn), and
// that run told in the other dialects. "recorded" are the short recorded runs of a program again and again: hardly any output,
// much structure. CPU time is that of the whole process, start and garbage collection included; the files are large enough that the
// start, six milliseconds, is not what is measured.
//
// Asked for a profile instead, it runs the same commands in itself and writes where their time goes to cmd/sluice/default.pgo,
// from which the compiler learns what to inline.
//
// It must be run from the root of the repository: make bench, make profile.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/cli"
)

const rounds = 3

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A row is one measurement: a command of ours, and jq's on the same file.
type row struct {
	name  string
	file  string
	ours  []string
	jq    string
	bar   float64
	best  float64 // MB per CPU-second, ours
	other float64 // jq's
}

func run() error {
	if _, err := exec.LookPath("jq"); err != nil {
		return fmt.Errorf("jq is not there; install it: apt-get install jq")
	}
	dir := "bench.tmp"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sluice := filepath.Join(dir, "sluice")
	if out, err := exec.Command("go", "build", "-o", sluice, "./cmd/sluice").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if slices.Contains(os.Args[1:], "agents") { // only these
		return agents(dir, sluice)
	}
	size := megabytes("BENCH_MB", 256)
	for name, fill := range map[string]func(*bufio.Writer, int64) error{"blocks": blocks, "deltas": deltas, "recorded": repeat("aictrl")} {
		if err := write(filepath.Join(dir, name), size, fill); err != nil {
			return err
		}
	}
	for _, d := range []string{"aictrl", "grok", "enso", "aionrs"} {
		if err := tell(sluice, filepath.Join(dir, "blocks"), d, filepath.Join(dir, d)); err != nil {
			return err
		}
	}
	if err := tell(sluice, filepath.Join(dir, "deltas"), "avenor", filepath.Join(dir, "avenor")); err != nil { // it has no outputs
		return err
	}
	const byType, byKind, byEvent = `select(.type=="x")`, `select(.kind=="run.done")`, `select(.event=="x")`
	rows := []*row{
		{name: "digest, native, blocks", file: "blocks", ours: []string{"digest"}, jq: byKind, bar: 20},
		{name: "digest, native, deltas", file: "deltas", ours: []string{"digest"}, jq: byKind, bar: 20},
		{name: "digest, aictrl", file: "aictrl", ours: []string{"digest"}, jq: byType, bar: 8},
		{name: "digest, grok", file: "grok", ours: []string{"digest"}, jq: byType, bar: 8},
		{name: "digest, avenor", file: "avenor", ours: []string{"digest"}, jq: byEvent, bar: 8},
		{name: "digest, enso", file: "enso", ours: []string{"digest"}, jq: byType, bar: 8},
		{name: "digest, aionrs", file: "aionrs", ours: []string{"digest"}, jq: byType, bar: 8},
		{name: "digest, aictrl recorded", file: "recorded", ours: []string{"digest"}, jq: byType, bar: 8},
		{name: "convert, aictrl to native", file: "aictrl", ours: []string{"convert", "--to", "native"}, jq: byType, bar: 4},
		{name: "convert, aictrl to avenor", file: "aictrl", ours: []string{"convert", "--to", "avenor"}, jq: byType, bar: 4},
		{name: "convert, grok to enso", file: "grok", ours: []string{"convert", "--to", "enso"}, jq: byType, bar: 4},
		{name: "convert, native to aictrl", file: "blocks", ours: []string{"convert", "--to", "aictrl"}, jq: byKind, bar: 4},
		{name: "lint, aictrl", file: "aictrl", ours: []string{"lint", "-q"}, jq: byType, bar: 3},
		{name: "lint, grok", file: "grok", ours: []string{"lint", "-q"}, jq: byType, bar: 3},
		{name: "lint, native", file: "blocks", ours: []string{"lint", "-q"}, jq: byKind, bar: 3},
	}
	if len(os.Args) > 1 && os.Args[1] == "profile" {
		return profile(dir, rows)
	}
	for _, r := range rows {
		file := filepath.Join(dir, r.file)
		stat, err := os.Stat(file)
		if err != nil {
			return err
		}
		size := float64(stat.Size()) / (1 << 20)
		for range rounds {
			a, _, err := measure(size, sluice, append(r.ours, file)...)
			if err != nil {
				return err
			}
			b, _, err := measure(size, "jq", "-c", r.jq, file)
			if err != nil {
				return err
			}
			r.best, r.other = max(r.best, a), max(r.other, b)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\tMB per CPU-second\tjq\tratio\tbar\t\t")
	for _, r := range rows {
		verdict := "ok"
		if r.best < r.bar*r.other {
			verdict = "BELOW"
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.1f\t%.0f\t%s\t\n", r.name, r.best, r.other, r.best/r.other, r.bar, verdict)
	}
	w.Flush()
	if err := agents(dir, sluice); err != nil {
		return err
	}
	return memory(dir, sluice) // last, since the disk is busy with its files for a while
}

// profile runs our commands and writes the compiler's profile.
func profile(dir string, rows []*row) error {
	f, err := os.Create(filepath.Join("cmd", "sluice", "default.pgo"))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	quiet := cli.IO{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	for range rounds {
		for _, r := range rows {
			cli.Run(context.Background(), append(r.ours, filepath.Join(dir, r.file)), quiet)
		}
	}
	pprof.StopCPUProfile()
	return f.Close()
}

// memory prints the peak memory of each reader on a large file of its kind.
func memory(dir, sluice string) error {
	size := megabytes("BENCH_BIG_MB", 1024)
	native, foreign := filepath.Join(dir, "big.native"), filepath.Join(dir, "big.aictrl")
	if err := write(native, size, blocks); err != nil {
		return err
	}
	if err := tell(sluice, native, "aictrl", foreign); err != nil {
		return err
	}
	fmt.Printf("\npeak memory on %d MB\n", size)
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, args := range [][]string{
		{"digest", native}, {"digest", foreign}, {"lint", "-q", native}, {"lint", "-q", foreign},
		{"convert", "--to", "aictrl", native}, {"convert", "--to", "native", foreign}, {"watch", "--classify", native}, {"watch", foreign},
	} {
		_, peak, err := measure(float64(size), sluice, args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%d MB\t\n", strings.Join(args[:len(args)-1], " ")+" "+filepath.Base(args[len(args)-1]), peak>>10)
	}
	return w.Flush()
}

// measure runs a command and returns megabytes per CPU-second and its peak memory in kilobytes.
func measure(mb float64, name string, args ...string) (speed float64, peak int64, err error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > 1 { // 1: lint found something
		return 0, 0, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := time.Duration(use.Utime.Nano() + use.Stime.Nano())
	return mb / cpu.Seconds(), int64(use.Maxrss), nil
}

// tell converts a file to another dialect.
func tell(sluice, from, dialect, to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	cmd := exec.Command(sluice, "convert", "--to", dialect, from)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return errors.Join(cmd.Run(), out.Close())
}

func megabytes(name string, def int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil && n > 0 {
		return n
	}
	return def
}

func write(file string, mb int64, fill func(*bufio.Writer, int64) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := fill(w, mb<<20); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// repeat writes a dialect's recorded and clean streams again and again.
func repeat(dialect string) func(*bufio.Writer, int64) error {
	return func(w *bufio.Writer, size int64) error {
		var all []byte
		for _, kind := range []string{"recorded", "clean"} {
			files, err := filepath.Glob(filepath.Join("dialect", "testdata", dialect, kind, "*.ndjson"))
			if err != nil {
				return err
			}
			for _, f := range files {
				data, err := os.ReadFile(f)
				if err != nil {
					return err
				}
				if bytes.HasSuffix(data, []byte("\n")) && data[0] == '{' {
					all = append(all, data...)
				}
			}
		}
		for n := int64(0); n < size; n += int64(len(all)) {
			if _, err := w.Write(all); err != nil {
				return err
			}
		}
		return nil
	}
}

// blocks writes a journal of whole blocks: text, a call, its output of 2 to 9 kB, the turn's end.
func blocks(w *bufio.Writer, size int64) error { return journal(w, size, 0) }

// deltas writes the same with forty pieces of text a turn.
func deltas(w *bufio.Writer, size int64) error { return journal(w, size, 40) }

func journal(w *bufio.Writer, size int64, pieces int) error {
	var seq uint64
	var n int64
	at := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	var buf []byte
	put := func(call string, b event.Body) {
		seq++
		at = at.Add(7 * time.Millisecond)
		e := event.Event{Header: event.Header{Seq: seq, At: at, Session: "ses_7f3a91c04d2e", Call: call}, Body: b}
		buf = append(event.Append(buf[:0], e), '\n')
		n += int64(len(buf))
		w.Write(buf)
	}
	put("", event.RunStarted{Format: event.Format, Program: "sluice", Version: "0.1.0", Cwd: "/src", Provider: "anthropic", Model: "claude-sonnet-4"})
	put("", event.Prompt{ID: "m1", Text: "fix the tests", Source: "argument"})
	output := strings.Repeat("ok  \tgithub.com/example/pkg/sub\t0.012s\n--- PASS: TestSomething (0.00s)\n\t\"quoted\" output\n", 110)
	for turn := 1; n < size-1024; turn++ {
		put("", event.TurnStarted{Number: turn})
		var text strings.Builder
		for i := range max(pieces, 12) {
			piece := fmt.Sprintf("and then step %d ", i)
			text.WriteString(piece)
			if pieces > 0 {
				put("", event.TextDelta{ID: "b" + strconv.Itoa(turn), Text: piece})
			}
		}
		put("", event.Text{ID: "b" + strconv.Itoa(turn), Text: text.String()})
		call := "toolu_" + strconv.Itoa(turn)
		put(call, event.ToolCalled{Name: "bash", Class: event.ClassExec, Input: event.Raw(`{"command":"go test ./...","timeout":120}`)})
		put("", event.TurnEnded{
			Number: turn, Provider: "anthropic", Model: "claude-sonnet-4", Finish: event.FinishToolCalls,
			Usage: event.Usage{Input: new(int64(1024)), Output: new(int64(512)), CacheRead: new(int64(8800))}, Context: event.Context{Used: 9824, Limit: 200000},
		})
		put(call, event.GateAllowed{Tool: "bash", Permission: "bash", Patterns: []string{"go test ./..."}, By: event.ByRule})
		put(call, event.ToolStarted{Name: "bash"})
		put(call, event.ToolDone{Name: "bash", Exit: new(0), Output: output[:2000+turn*997%7000]})
	}
	put("", event.TurnStarted{Number: 1})
	put("", event.Text{Text: "done"})
	put("", event.TurnEnded{Finish: event.FinishStop})
	put("", event.ReplyDone{Prompt: "m1", Stop: "end_turn"})
	put("", event.RunDone{Outcome: event.Done})
	return nil
}
