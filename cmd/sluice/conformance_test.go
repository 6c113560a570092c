//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-dev/sluice/dialect"
)

// A comparison is what a real program and Sluice make of the same scenarios: a file of testdata/conformance.
type comparison struct {
	Name      string     // of the dialect, and of the face
	Program   string     // the real one, with its version
	Args      []string   // of every run
	Scenarios []scenario // each of which was recorded at least once
}

// A scenario is what the model does, and what else happens.
type scenario struct {
	Recorded map[string]string // streams of the real program, and what it exited with
	What     string            // for a person
	Note     string            // what is wrong with the real one that lint cannot see

	Before []string // arguments of a run before it, in the same place
	Args   []string
	Env    map[string]string
	Files  map[string]string
	Stdin  string
	Script string
	At     string // text on stdout after which there is a signal
	Signal string
	Talk   []string // what a client does

	events, verdict string
	exit            int
}

// bigText is a reply of 200 kB in small pieces.
var bigText = `{chunk: 4, steps: [{text: "` + strings.Repeat("The quick brown fox jumps over the lazy dog 0123456789. ", 3572) + `"}]}`

func init() { programs["mcp-notes"] = mcpNotes }

// mcpNotes is an MCP server whose tools work, but for one.
func mcpNotes() {
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	for _, name := range []string{"echo", "record_finding", "fail"} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: name == "fail", Content: []sdk.Content{&sdk.TextContent{Text: name + ":" + string(q.Params.Arguments)}}}, nil
		})
	}
	_ = s.Run(context.Background(), &sdk.StdioTransport{}) // it ends when nobody is there any more
}

// Sluice in the place of a real program: for each recorded stream, what the real program told and what Sluice tells when the
// model does the same. The real ones break their own documents; ours may not, anywhere.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "conformance", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	list := make([]comparison, len(files))
	t.Run("play", func(t *testing.T) {
		for i, file := range files {
			data, err := os.ReadFile(file)
			if err == nil {
				err = yaml.UnmarshalWithOptions(data, &list[i], yaml.Strict())
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for j := range list[i].Scenarios {
				s := &list[i].Scenarios[j]
				t.Run(list[i].Name+" "+slices.Min(slices.Collect(maps.Keys(s.Recorded))), func(t *testing.T) {
					t.Parallel()
					list[i].play(t, s)
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	doc := filepath.Join("..", "..", "docs", "conformance.md")
	page := tellConformance(t, list)
	if *update {
		if err := os.WriteFile(doc, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(was), "\n"), strings.Split(page, "\n")); diff != "" {
		t.Errorf("docs/conformance.md is not up to date: go test ./cmd/sluice -run TestConformance -update\n%s", diff)
	}
}

// play runs our side of a scenario.
func (c comparison) play(t *testing.T, s *scenario) {
	d, err := dialect.Lookup(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, d)
	r.program = c.Name
	r.set("SLUICE_MODEL", "anthropic/scripted")
	r.serve(strings.ReplaceAll(s.Script, "$BIGTEXT", bigText))
	named := strings.NewReplacer("$SERVER", r.getenv("ANTHROPIC_BASE_URL"), "$CLOSED", "http://"+r.closed(), "$KEY", key)
	for name, value := range s.Env {
		r.set(name, named.Replace(value))
	}
	for name, text := range s.Files {
		if at, ok := strings.CutPrefix(name, "~/"); ok {
			r.write("home/"+at, text)
		} else {
			r.write("work/"+name, text)
		}
	}
	if s.Before != nil {
		first := *r
		first.args = slices.Concat(c.Args, s.Before)
		first.start(nil)
		first.wait()
		if first.exit != 0 {
			t.Fatalf("the run before ends with %d: %s", first.exit, first.errs.Bytes())
		}
	}
	r.args = slices.Concat(c.Args, s.Args)
	switch {
	case s.Talk != nil:
		r.converse(s.Talk, c.Args)
	case s.Signal != "":
		signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}
		r.startUntil(s.At)
		if strings.Contains(s.Script, "stray one") {
			r.awaitStray("one")
		}
		r.signal(signals[s.Signal])
		r.wait()
	default:
		if s.Stdin != "" {
			r.write("stdin", s.Stdin)
			r.shell = "exec " + c.Name + ` "$@" <../stdin`
		}
		r.start(nil)
		r.wait()
	}
	r.lint(d, r.out)
	r.checkStrays()
	s.events, s.verdict, s.exit = eventsOf(r.out), verdictOf(d, r.out), r.exit
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", clipped(r.out), r.errs.Bytes())
	}
}

// startUntil starts the program and waits until its stdout has a text.
func (r *run) startUntil(text string) {
	r.Helper()
	var once sync.Once
	seen := make(chan struct{})
	r.start(func(_ *run, in *os.File) (all []byte) {
		defer once.Do(func() { close(seen) })
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			if all = append(all, buf[:n]...); bytes.Contains(all, []byte(text)) {
				once.Do(func() { close(seen) })
			}
			if err != nil {
				return all
			}
		}
	})
	select {
	case <-seen:
	case <-time.After(patient):
		r.Fatalf("it never said %s", text)
	}
}

// eventsOf is how many lines of each type a stream has, in the order in which they first came. Of pieces of a text the number
// is left out: it says more about the wire than about the program.
func eventsOf(stream []byte) string {
	var order []string
	count := map[string]int{}
	for line := range bytes.Lines(stream) {
		var l struct{ Type string }
		if json.Unmarshal(line, &l) != nil {
			l.Type = "(not JSON)"
		}
		if count[l.Type]++; count[l.Type] == 1 {
			order = append(order, l.Type)
		}
	}
	for i, typ := range order {
		switch n := count[typ]; {
		case strings.HasSuffix(typ, "_delta") || typ == "thinking":
			order[i] = typ + " …"
		case n > 1:
			order[i] = fmt.Sprint(typ, " ×", n)
		}
	}
	if len(order) == 0 {
		return "nothing"
	}
	return strings.Join(order, ", ")
}

// verdictOf is which rules of its document a stream breaks.
func verdictOf(d *dialect.Dialect, stream []byte) string {
	broken := map[string]bool{}
	l := dialect.NewLinter(d, func(g dialect.Diagnostic) { broken[g.Rule] = true })
	l.NoNotes = true
	for line := range bytes.Lines(stream) {
		whole, ok := bytes.CutSuffix(line, []byte("\n"))
		l.Line(whole, !ok)
	}
	l.Close()
	if len(broken) == 0 {
		return "clean"
	}
	return strings.Join(slices.Sorted(maps.Keys(broken)), ", ")
}
