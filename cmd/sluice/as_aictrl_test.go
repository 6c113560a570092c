//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/tools/txtar"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

var update = flag.Bool("update", false, "write down what the scenarios of faces give; look at the difference")

// An aictrlRun is a run of aictrl, as a process, against a scripted model behind a socket.
type aictrlRun struct {
	*run
	mu       sync.Mutex
	requests []string // what the model was sent
	lines    []map[string]any
}

// newAictrl makes a run of "aictrl run --format json"; args go behind.
func newAictrl(t *testing.T, text string, args ...string) *aictrlRun {
	t.Helper()
	d, err := dialect.Lookup("aictrl")
	if err != nil {
		t.Fatal(err)
	}
	a := &aictrlRun{run: newRun(t, d)}
	a.program, a.args = "aictrl", append([]string{"run", "--format", "json"}, args...)
	a.set("SLUICE_MODEL", "anthropic/scripted")
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key, Record: func(r modelserver.Recorded) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requests = append(a.requests, string(r.Body))
	}}))
	t.Cleanup(server.Close)
	a.set("ANTHROPIC_BASE_URL", server.URL)
	a.set("OPENAI_BASE_URL", server.URL+"/v1")
	a.set("OPENAI_API_KEY", key)
	return a
}

// asked is what the model was sent so far.
func (a *aictrlRun) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// again is another run in the same world, against the same model.
func (a *aictrlRun) again(args ...string) *aictrlRun {
	r := *a.run
	r.args, r.gone, r.errs = append([]string{"run", "--format", "json"}, args...), make(chan struct{}), bytes.Buffer{}
	return &aictrlRun{run: &r}
}

// put writes a file of the run's world: work/…, home/….
func (a *aictrlRun) put(name, text string) {
	a.Helper()
	if err := os.MkdirAll(filepath.Dir(a.path(name)), 0o700); err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(a.path(name), []byte(text), 0o600); err != nil {
		a.Fatal(err)
	}
}

// play runs it to its end, which must have this exit code.
func (a *aictrlRun) play(exit int) *aictrlRun {
	a.Helper()
	a.start(nil)
	a.wait()
	return a.ended(exit)
}

// ended checks a run that has ended: whatever happened, the stream is what the document says, and nobody is left behind.
func (a *aictrlRun) ended(exit int) *aictrlRun {
	a.Helper()
	if a.exit != exit {
		a.Errorf("exit %d, want %d: %s", a.exit, exit, a.errs.Bytes())
	}
	a.lint(a.dialect, a.out)
	a.lines = a.parse(a.out)
	if n := len(a.lines); n < 3 || a.lines[0]["type"] != "session_start" || a.lines[1]["type"] != "tool_catalog" || a.lines[n-1]["type"] != "session_complete" {
		a.Error("it does not go from session_start and tool_catalog to session_complete")
	}
	a.once(a.lines, "type", "session_start")
	a.once(a.lines, "type", "session_complete")
	if i := slices.IndexFunc(a.lines, func(l map[string]any) bool { return l["type"] == "session_error" }); i >= 0 && i != len(a.lines)-2 {
		a.Error("session_error does not stand immediately before session_complete")
	}
	for line := range strings.Lines(a.errs.String()) {
		if !strings.HasPrefix(line, "sluice: ") {
			a.Errorf("stderr: %q", line)
		}
	}
	a.checkStrays()
	if a.Failed() {
		a.Logf("stdout:\n%s\nstderr:\n%s", clipped(a.out), a.errs.Bytes())
	}
	return a
}

// only are the lines of a type.
func (a *aictrlRun) only(typ string) (list []map[string]any) {
	for _, l := range a.lines {
		if l["type"] == typ {
			list = append(list, l)
		}
	}
	return list
}

// one is the only line of a type.
func (a *aictrlRun) one(typ string) map[string]any {
	a.Helper()
	list := a.only(typ)
	if len(list) != 1 {
		a.Fatalf("%d lines are %s, want one\n%s", len(list), typ, clipped(a.out))
	}
	return list[0]
}

// at is a value inside a line, by its names; lists have numbers.
func at(v any, path ...string) any {
	for _, name := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i < len(in) {
				v = in[i]
				continue
			}
			return nil
		default:
			return nil
		}
	}
	return v
}

// says fails if a text does not hold some words.
func (a *aictrlRun) says(text any, words string) {
	a.Helper()
	if s, ok := text.(string); !ok || !strings.Contains(s, words) {
		a.Errorf("it says %q, want something with %q", text, words)
	}
}

// reads reads the stream as it comes, and closes seen when it has these words.
func reads(words string, seen chan<- struct{}) func(*run, *os.File) []byte {
	return func(_ *run, in *os.File) (all []byte) {
		piece, told := make([]byte, 64<<10), false
		for {
			n, err := in.Read(piece)
			all = append(all, piece[:n]...)
			if !told && bytes.Contains(all, []byte(words)) {
				told = true
				close(seen)
			}
			if err != nil {
				return all
			}
		}
	}
}

// within waits for something, but not for ever.
func (a *aictrlRun) within(seen <-chan struct{}) {
	a.Helper()
	select {
	case <-seen:
	case <-time.After(patient):
		a.Fatal("it never came")
	}
}

func init() { programs["review-server"] = reviewServer }

// reviewServer is an MCP server with two tools.
func reviewServer() {
	s := sdk.NewServer(&sdk.Implementation{Name: "review", Version: "1"}, nil)
	for _, name := range []string{"record_finding", "weird.tool name"} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "recorded"}}}, nil
		})
	}
	_ = s.Run(context.Background(), &sdk.StdioTransport{}) // it ends when nobody is there any more
}

// A scenario is a file of testdata/aictrl: what is set, the files of the world, the model's script and the stream that comes of it.
func (a *aictrlRun) scenario(file *txtar.Archive) (want string) {
	for line := range strings.Lines(string(file.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch word {
		case "args":
			a.args = append([]string{"run", "--format", "json"}, words(rest)...)
		case "env":
			name, value, _ := strings.Cut(rest, "=")
			a.set(name, strings.ReplaceAll(value, "$DIR", a.dir))
		}
	}
	for _, f := range file.Files {
		switch {
		case f.Name == "want":
			want = string(f.Data)
		case strings.Contains(f.Name, "/"):
			a.put(f.Name, strings.ReplaceAll(string(f.Data), "$DIR", a.dir))
		}
	}
	return want
}

// scriptOf is the part of a scenario that the model plays.
func scriptOf(file *txtar.Archive) string {
	for _, f := range file.Files {
		if f.Name == "script" {
			return string(f.Data)
		}
	}
	return greets
}

var (
	whens    = regexp.MustCompile(`"(timestamp|start|end|durationMs)":(\d+)`)
	sessions = regexp.MustCompile(`(ses_)?[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// settled is a stream without what is new each time: times, sessions and folders. Times must be milliseconds of this run.
func (a *aictrlRun) settled() string {
	a.Helper()
	text := whens.ReplaceAllStringFunc(string(a.out), func(s string) string {
		m := whens.FindStringSubmatch(s)
		ms, _ := strconv.ParseInt(m[2], 10, 64)
		if since := time.Since(time.UnixMilli(ms)); m[1] != "durationMs" && (since < 0 || since > 2*patient) || m[1] == "durationMs" && ms > patient.Milliseconds() {
			a.Errorf("%s is no time of this run", s)
		}
		return `"` + m[1] + `":0`
	})
	names := map[string]string{}
	text = sessions.ReplaceAllStringFunc(text, func(s string) string {
		if names[s] == "" {
			names[s] = fmt.Sprintf("ses_%d", len(names)+1)
		}
		return names[s]
	})
	dir, err := filepath.EvalSymlinks(a.dir)
	if err != nil {
		a.Fatal(err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, dir, "$DIR"), a.dir, "$DIR")
}

// aictrlDocument is what the document names: its types of lines, and the fields of each; a star is an element of a list.
var aictrlDocument = map[string]string{
	"session_start":         "schemaVersion model agent permissions permissions.*.permission permissions.*.pattern permissions.*.action",
	"tool_catalog":          "tools tools.*.name tools.*.source tools.*.server skills skills.*.name skills.*.version",
	"session_complete":      "durationMs error",
	"session_error":         "reason code message",
	"message_complete":      "modelID providerID agent cost.input cost.output cost.cache.read cost.cache.write tokens.input tokens.output tokens.reasoning tokens.cache.read tokens.cache.write context context.used context.limit context.ratio finish",
	"text":                  "sequenceNum part.type part.text part.time.start part.time.end",
	"reasoning":             "sequenceNum part.type part.text part.time.start part.time.end",
	"tool_use":              "sequenceNum part.type part.tool part.sessionID part.state.status part.state.input part.state.metadata part.state.metadata.exit part.state.metadata.output part.state.error",
	"step_start":            "part.type",
	"step_finish":           "part.type",
	"skill_discovered":      "name description location",
	"skill_loaded":          "name location",
	"skill_resource_loaded": "skillName filePath",
	"subagent_start":        "subagentSessionID parentSessionID title",
	"subagent_complete":     "subagentSessionID parentSessionID",
	"error":                 "error.name error.data error.data.message sourceSessionID",
	"permission_rejected":   "callID tool permission patterns input",
	"permission_granted":    "callID tool permission patterns input",
}

// collect notes the fields that a value has.
func collect(seen map[string]bool, path string, v any) {
	seen[path] = true
	switch v := v.(type) {
	case map[string]any:
		for name, in := range v {
			collect(seen, path+"."+name, in)
		}
	case []any:
		for _, in := range v {
			collect(seen, path+".*", in)
		}
	}
}

// Each scenario gives the stream that is written down, line by line and field by field; and all that the document names is in one
// of them.
func TestAictrlScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/aictrl/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scenarios", err)
	}
	seen := map[string]bool{}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			file, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			exit := 0
			if m := regexp.MustCompile(`(?m)^exit: (\d+)$`).FindSubmatch(file.Comment); m != nil {
				exit, _ = strconv.Atoi(string(m[1]))
			}
			a := newAictrl(t, scriptOf(file))
			want := a.scenario(file)
			a.play(exit)
			got := a.settled()
			if *update {
				file.Files = slices.DeleteFunc(file.Files, func(f txtar.File) bool { return f.Name == "want" })
				file.Files = append(file.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(file), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want, +got)\n%s", d)
			}
			for _, l := range a.lines {
				for _, field := range []string{"type", "timestamp", "sessionID"} {
					if l[field] == nil {
						t.Errorf("a line has no %s: %v", field, l)
					}
				}
				collect(seen, l["type"].(string), l)
			}
		})
	}
	for typ, fields := range aictrlDocument {
		for field := range strings.FieldsSeq(fields) {
			if !seen[typ+"."+field] {
				t.Errorf("no scenario shows %s of %s", field, typ)
			}
		}
	}
}
