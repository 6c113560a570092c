package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A bench is a hub with what it said.
type bench struct {
	*Hub
	t     *testing.T
	group *proc.Group

	mu     sync.Mutex
	events []event.Body
	grew   chan struct{}
}

// connect connects to servers, and sees to it that nothing of them is left.
func connect(t *testing.T, o Options, servers ...Server) *bench {
	t.Helper()
	b := &bench{t: t, group: &proc.Group{Grace: 50 * time.Millisecond}, grew: make(chan struct{}, 1)}
	o.Group = b.group
	o.Emit = func(e event.Body) {
		b.mu.Lock()
		b.events = append(b.events, e)
		b.mu.Unlock()
		select {
		case b.grew <- struct{}{}:
		default:
		}
	}
	b.Hub = Connect(t.Context(), servers, o)
	t.Cleanup(func() {
		b.Hub.Close()
		if left := b.group.Close(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return b
}

// told lists what was emitted, as "kind source: text".
func (b *bench) told() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		switch e := e.(type) {
		case event.Error:
			list = append(list, "error "+e.Class+" "+e.Source+": "+e.Message)
		case event.Notice:
			list = append(list, "notice: "+e.Text)
		case event.Diag:
			list = append(list, "diag "+e.Source+": "+e.Text)
		default:
			list = append(list, fmt.Sprintf("%T", e))
		}
	}
	return list
}

// await waits until something was told.
func (b *bench) await(prefix string) {
	b.t.Helper()
	enough := time.After(60 * time.Second)
	for !slices.ContainsFunc(b.told(), func(s string) bool { return strings.HasPrefix(s, prefix) }) {
		select {
		case <-b.grew:
		case <-enough:
			b.t.Fatalf("nobody said %q, only %q", prefix, b.told())
		}
	}
}

func (b *bench) tool(name string) tool.Tool {
	b.t.Helper()
	for _, t := range b.Tools() {
		if t.Spec().Name == name {
			return t
		}
	}
	b.t.Fatalf("no tool %s; %+v", name, b.Status())
	return nil
}

// run calls a tool.
func (b *bench) run(name, input string) tool.Result {
	b.t.Helper()
	return b.runIn(b.t.Context(), name, input, func(string) {})
}

func (b *bench) runIn(ctx context.Context, name, input string, out func(string)) tool.Result {
	b.t.Helper()
	p, err := b.tool(name).Plan(event.Raw(input))
	if err != nil {
		b.t.Fatal(err)
	}
	return p.Run(ctx, out)
}

// child is a server of this test binary.
func ourselves(name, kind string, args ...string) Server {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Server{Name: name, Command: append([]string{exe, "serve", kind}, args...), StartTimeout: time.Minute}
}

// overBoth runs a test with the good server over both transports.
func overBoth(t *testing.T, f func(t *testing.T, s Server)) {
	t.Run("stdio", func(t *testing.T) { f(t, ourselves("s", "good")) })
	t.Run("http", func(t *testing.T) { f(t, Server{Name: "s", URL: listen(t, handler(t, good()))}) })
}

func TestToolsOfAServer(t *testing.T) {
	overBoth(t, func(t *testing.T, s Server) {
		b := connect(t, Options{}, s)
		st := b.Status()[0]
		if st.State != Ready || st.Err != "" || st.Version != "good 1.2.3" || st.Tools != len(b.Tools()) || st.Took <= 0 || st.Transport != t.Name()[len("TestToolsOfAServer/"):] {
			t.Errorf("status %+v", st)
		}
		var names []string
		for _, x := range b.Tools() {
			names = append(names, x.Spec().Name)
		}
		want := []string{"s_change", "s_child", "s_die", "s_echo", "s_env", "s_fail", "s_huge", "s_image", "s_mixed", "s_progress", "s_refuse", "s_roots", "s_slow", "s_structured"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		echo := b.tool("s_echo")
		if diff := cmp.Diff(tool.Spec{Name: "s_echo", Description: "does echo", Class: event.ClassMCP, Schema: anything}, echo.Spec()); diff != "" {
			t.Error(diff)
		}
		if of := echo.(interface{ Server() string }).Server(); of != "s" {
			t.Errorf("it is of %q", of)
		}
		if told := b.told(); len(told) > 0 {
			t.Errorf("there is nothing to say, but %q", told)
		}
	})
}

func TestResults(t *testing.T) {
	overBoth(t, func(t *testing.T, s Server) {
		b := connect(t, Options{Workspace: t.TempDir()}, s)
		pngText := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
		for _, c := range []struct {
			name, input string
			want        tool.Result
		}{
			{"s_echo", `{"b": 12345678901234567890, "a":"<x>", "a": "y"}`, tool.Result{Output: `{"a":"y","b":12345678901234567890}` + "\nsecond part"}},
			{"s_fail", "{}", tool.Result{Output: "\nno such issue\nlook again", Error: "no such issue"}},
			{"s_image", "{}", tool.Result{Type: "image", Output: pngText, Metadata: event.Raw(`{"mime":"image/png"}`)}},
			{"s_mixed", "{}", tool.Result{
				Output:   "look:\n[image image/png, 70 bytes]\n[a](file:///a) the file\ninside\n[audio audio/wav, 2 bytes]",
				Metadata: event.Raw(`{"parts":[{"type":"image","mime":"image/png","data":"` + pngText + `"},{"type":"audio","mime":"audio/wav","data":"bGE="}],"structuredContent":{"n":1}}`),
			}},
			{"s_structured", "{}", tool.Result{Output: "[1,2]", Metadata: event.Raw(`{"structuredContent":[1,2]}`)}},
			{"s_refuse", "{}", tool.Result{Error: "MCP server s failed the call: it refused the call: not today"}},
			{"s_roots", "{}", tool.Result{Output: "file://" + b.opt.Workspace}},
		} {
			if diff := cmp.Diff(c.want, b.run(c.name, c.input)); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
	})
}

func TestHugeResult(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s Server) {
		dir := filepath.Join(t.TempDir(), "spill")
		b := connect(t, Options{Spill: dir}, s)
		r := b.run("s_huge", "{}")
		var meta struct{ Spill string }
		json.Unmarshal(r.Metadata, &meta)
		whole, err := os.ReadFile(meta.Spill)
		if err != nil || filepath.Dir(meta.Spill) != dir {
			t.Fatalf("%v; metadata %s", err, r.Metadata)
		}
		if want := "begin " + strings.Repeat("é line\n", 300_000) + "end"; string(whole) != want {
			t.Errorf("the file has %d bytes, not %d", len(whole), len(want))
		}
		if !r.Truncated || r.Error != "" || len(r.Output) > 50_000 || !strings.HasPrefix(r.Output, "begin é line") || !strings.HasSuffix(r.Output, "line\nend") {
			t.Errorf("%d bytes of output, truncated %v, %s", len(r.Output), r.Truncated, r.Error)
		}
		if short := tool.Cut(r.Output, 1000); !strings.Contains(short, "all of it is in "+meta.Spill) {
			t.Errorf("who sees less is not told where the rest is: %s", short)
		}
	})
}

func TestProgressIsLive(t *testing.T) {
	overBoth(t, func(t *testing.T, s Server) {
		b := connect(t, Options{}, s)
		file := filepath.Join(t.TempDir(), "go on")
		var live strings.Builder
		r := b.runIn(t.Context(), "s_progress", fmt.Sprintf(`{"file":%q}`, file), func(text string) {
			if live.WriteString(text); strings.Count(live.String(), "\n") == 3 {
				touch(file)
			}
		})
		if r.Output != "done" || live.String() != "1/3 step[31m\n2/3 step[31m\n3/3 step[31m\n" {
			t.Errorf("%+v, live %q", r, live.String())
		}
	})
}

func TestCallIsCancelled(t *testing.T) {
	overBoth(t, func(t *testing.T, s Server) {
		b := connect(t, Options{}, s)
		dir := t.TempDir()
		begun, cancelled := filepath.Join(dir, "begun"), filepath.Join(dir, "cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			await(ctx, begun)
			cancel(fmt.Errorf("stopped by SIGINT"))
		}()
		r := b.runIn(ctx, "s_slow", fmt.Sprintf(`{"begun":%q,"cancelled":%q}`, begun, cancelled), func(string) {})
		if r.Error != "MCP server s failed the call: stopped by SIGINT" {
			t.Errorf("%+v", r)
		}
		timed, done := context.WithTimeout(t.Context(), 60*time.Second)
		defer done()
		if await(timed, cancelled); timed.Err() != nil {
			t.Error("the server was not told")
		}
		if r := b.run("s_echo", "{}"); r.Error != "" {
			t.Errorf("the next call: %+v", r)
		}
	})
}

func TestCallTakesTooLong(t *testing.T) {
	overBoth(t, func(t *testing.T, s Server) {
		s.Timeout = 50 * time.Millisecond
		b := connect(t, Options{}, s)
		if r := b.run("s_slow", "{}"); r.Error != "MCP server s failed the call: no answer within 50ms" {
			t.Errorf("%+v", r)
		}
		if st := b.Status()[0]; st.State != Ready {
			t.Errorf("%+v", st)
		}
	})
}

func TestListChanges(t *testing.T) {
	overBoth(t, func(t *testing.T, s Server) {
		b := connect(t, Options{}, s)
		before := len(b.Tools())
		b.run("s_change", "{}")
		b.await("notice: MCP server s has other tools now")
		b.run("s_change", "{}")
		if len(b.Tools()) != before || len(b.told()) != 1 {
			t.Errorf("%d tools, %q", len(b.Tools()), b.told())
		}
	})
}

// A server that never answers is told of, in time, and the others are there.
func TestServersThatFail(t *testing.T) {
	t.Parallel()
	const limit = 4 * time.Second
	hangs, garbage, flood := ourselves("hangs", "hangs"), ourselves("garbage", "garbage"), ourselves("flood", "flood")
	hangs.StartTimeout, garbage.StartTimeout, flood.StartTimeout = limit, limit, time.Minute
	b := connect(t, Options{},
		ourselves("good", "good"), ourselves("exits", "exits"), hangs, garbage, flood,
		Server{Name: "missing", Command: []string{"no-such-program-anywhere"}},
		Server{Name: "empty"},
		Server{Name: "both", Command: []string{"x"}, URL: "http://x"},
		Server{Name: "scheme", URL: "ftp://x"},
		Server{Name: "refused", URL: "http://127.0.0.1:1/mcp"},
		ourselves("good", "good"),
	)
	want := map[string]string{
		"exits":   "it ended, exit status 7; the last that it wrote: no token: set TOKEN",
		"hangs":   "it did not answer within 4s",
		"garbage": "it did not answer within 4s; the last that it wrote: this is not what you want",
		"flood":   "it sent a message of more than 16 MB",
		"missing": `proc: exec: "no-such-program-anywhere": executable file not found in $PATH`,
		"empty":   "there is nothing to connect to: set command or url",
		"both":    "there are both a command and a url: keep one",
		"scheme":  `the url "ftp://x" is not http:// or https://`,
		"refused": "connection refused",
		"good":    `there is another server "good": give each a name of its own`,
	}
	told := b.told()
	for i, s := range b.Status() {
		if i == 0 {
			if s.State != Ready || len(b.Tools()) == 0 {
				t.Errorf("the good one: %+v", s)
			}
			continue
		}
		if s.State != Failed || s.Tools != 0 || !strings.Contains(s.Err, want[s.Name]) || s.Name != "flood" && s.Took > 10*limit {
			t.Errorf("%s: %+v, want %q", s.Name, s, want[s.Name])
		}
		if line := "error mcp " + s.Name + ": MCP server " + s.Name + " is not there: " + s.Err; !slices.Contains(told, line) {
			t.Errorf("nobody said %q", line)
		}
	}
	if !slices.Contains(told, "notice: MCP server garbage writes to stdout what is not MCP: this is not what you want") {
		t.Errorf("the garbage is not told: %q", told)
	}
}

func TestNoiseDoesNoHarm(t *testing.T) {
	b := connect(t, Options{}, ourselves("n", "noisy"))
	if r := b.run("n_echo", "{}"); r.Error != "" {
		t.Errorf("%+v", r)
	}
	b.await("diag n: a line for stderr")
	told := b.told()
	slices.Sort(told)
	want := []string{
		"diag n: Welcome to the [31mnoisy[0m server!", "diag n: a line for stderr", `diag n: {"level":"info","msg":"listening"}`,
		"notice: MCP server n writes to stdout what is not MCP: Welcome to the [31mnoisy[0m server!",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func TestServerDiesInACall(t *testing.T) {
	b := connect(t, Options{}, ourselves("s", "good"))
	const why = "it ended, exit status 3; the last that it wrote: out of luck"
	if r := b.run("s_die", "{}"); r.Error != "MCP server s failed the call: "+why {
		t.Errorf("%+v", r)
	}
	b.await("error mcp s: MCP server s is gone: " + why)
	if st := b.Status()[0]; st.State != Gone || st.Err != why {
		t.Errorf("%+v", st)
	}
	if r := b.run("s_echo", "{}"); r.Error != "" {
		t.Errorf("the next call: %+v", r)
	}
	b.await("notice: MCP server s is there again")
	if st := b.Status()[0]; st.State != Ready || st.Err != "" || st.Tools != len(b.Tools()) {
		t.Errorf("%+v", st)
	}
}

func TestServerDiesAndStaysDead(t *testing.T) {
	// A copy of the server that can be taken away.
	exe, _ := os.Executable()
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	b := connect(t, Options{}, Server{Name: "s", Command: []string{program, "serve", "once"}})
	if r := b.run("s_tool", "{}"); r.Error != "MCP server s failed the call: it ended, exit status 3" {
		t.Errorf("%+v", r)
	}
	os.Remove(program)
	b.await("error mcp s: MCP server s is gone")
	for range 2 {
		if r := b.run("s_tool", "{}"); !strings.HasPrefix(r.Error, "MCP server s failed the call: it is gone, and does not come back: proc: ") {
			t.Errorf("%+v", r)
		}
	}
}

func TestServerDiesBetweenCalls(t *testing.T) {
	b := connect(t, Options{}, ourselves("s", "good"))
	b.links[0].peer.carrier.(*child).process.Signal(os.Kill)
	b.await("error mcp s: MCP server s is gone: it ended, signal: killed")
	if r := b.run("s_echo", "{}"); r.Error != "" {
		t.Errorf("%+v", r)
	}
}

func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := ourselves("s", "deaf")
	s.Timeout = 100 * time.Millisecond
	b := connect(t, Options{}, s)
	b.links[0].tools = []*remote{{link: b.links[0], name: "x", spec: tool.Spec{Name: "s_x"}}}
	p := b.links[0].peer
	for !p.over() { // a call whose time is over before it is sent does not get stuck
		r := b.run("s_x", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<20)))
		if r.Error == "" {
			t.Fatalf("%+v", r)
		}
	}
	b.await("error mcp s: MCP server s is gone: it does not read what it is sent")
}

func TestWhatServersAskIsDeclined(t *testing.T) {
	b := connect(t, Options{}, ourselves("s", "asks"))
	r := b.run("s_ask", "{}")
	if want := `e={"action":"decline"} s={"code":-1,"message":"this client does not lend its model"}`; r.Output != want || r.Error != "" {
		t.Errorf("%+v", r)
	}
	b.await("notice: MCP server s asked for a person's answer")
	b.await("notice: MCP server s asked for a model's answer")
}

func TestNewestHandshake(t *testing.T) {
	b := connect(t, Options{}, ourselves("s", "modern"))
	if r := b.run("s_new", "{}"); r.Output != "called" || r.Error != "" {
		t.Errorf("%+v, %+v", r, b.Status())
	}
}

func TestEnvironmentOfAServer(t *testing.T) {
	t.Setenv("MY_API_KEY", "secret")
	t.Setenv("HARMLESS", "yes")
	s := ourselves("s", "good")
	s.Env = map[string]string{"OWN_TOKEN": "mine", "TERM": "own"}
	dir := t.TempDir()
	b := connect(t, Options{Workspace: dir}, s)
	lines := strings.Split(b.run("s_env", "{}").Output, "\n")
	for _, want := range []string{"DIR=" + dir, "HARMLESS=yes", "OWN_TOKEN=mine", "TERM=own", "NO_COLOR=1"} {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if slices.Contains(lines, "MY_API_KEY=secret") {
		t.Error("the server has our key")
	}
	s.Dir = t.TempDir()
	if lines := strings.Split(connect(t, Options{Workspace: dir}, s).run("s_env", "{}").Output, "\n"); lines[0] != "DIR="+s.Dir {
		t.Errorf("it is in %s", lines[0])
	}
}

// The gate judges what the server gets.
func TestPlan(t *testing.T) {
	b := connect(t, Options{}, ourselves("github", "raw", "create_issue"))
	issue := b.tool("github_create_issue")
	p, err := issue.Plan(event.Raw(` {"title":"a <b>", "repo" : "evil/x", "repo":"acme/site" } `))
	if err != nil {
		t.Fatal(err)
	}
	const target = `{"repo":"acme/site","title":"a <b>"}`
	if diff := cmp.Diff([]gate.Access{{Permission: "github_create_issue", Target: target, Class: event.ClassMCP}}, p.Access); diff != "" || p.Title != target {
		t.Error(p.Title, diff)
	}
	for rule, want := range map[string]string{
		"github_*":            gate.Allow,
		"github_create_issue": gate.Allow,
		`github_create_issue({"repo":"acme/site",*})`:  gate.Allow,
		`github_create_issue({"repo":"other/site",*})`: gate.Ask,
		"gitlab_*": gate.Ask,
	} {
		r, err := gate.ParseRule(gate.Allow, rule)
		if err != nil {
			t.Fatal(err)
		}
		if d := (gate.Policy{Rules: []event.Rule{r}}).Decide(p.Access); d.Action != want {
			t.Errorf("%s: %s", rule, d.Action)
		}
	}
	if d := (gate.Policy{}).Decide(p.Access); !slices.Equal(d.Hints, []string{"github_create_issue"}) {
		t.Errorf("to let it pass: %q", d.Hints)
	}
	for _, bad := range []string{"", "[]", `"x"`, "{} {}", "{}}", "{", "1"} {
		if _, err := issue.Plan(event.Raw(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if p, err := issue.Plan(event.Raw("null")); err != nil || p.Access[0].Target != "{}" || p.Title != "" {
		t.Errorf("%+v %v", p, err)
	}
}

func TestHostileLists(t *testing.T) {
	b := connect(t, Options{Reserved: []string{"Bash_Mine"}},
		ourselves("bash", "raw", "output", "mine", ""),
		ourselves("a", "raw", "b_c", "x.y", "x y", "x\ny", "\x1b[31m🙂", strings.Repeat("l", 200), "b_c"),
		ourselves("a_b", "raw", "c", `{"name":"bad","inputSchema":{"type":"object","properties":7}}`, `{"name":"dark","description":"see\u202e\u001b[2J this\u0000","inputSchema":{}}`),
	)
	var names []string
	for _, x := range b.Tools() {
		names = append(names, x.Spec().Name)
	}
	long := "a_" + strings.Repeat("l", 55) + "_735e48"
	want := []string{"bash_mine_2", "bash_output_2", "a___31m_", "a_b-c", "a_" + "", "a_x_y", "a_x_y_2", "a_x_y_3", "a_b_bad", "a_b_c", "a_b_dark"}
	want[4] = long
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	told := strings.Join(b.told(), "\n")
	for _, s := range []string{
		"notice: MCP server bash lists tools without a name or twice: 1 left out", "notice: MCP server a lists tools without a name or twice: 1 left out",
		`notice: MCP server a_b has a tool "bad" whose arguments cannot be told to a model (properties: it is not an object)`,
	} {
		if !strings.Contains(told, s) {
			t.Errorf("nobody said %q, only %s", s, told)
		}
	}
	if s := b.tool("a_b_bad").Spec(); string(s.Schema) != string(anything) || s.Description != "bad" {
		t.Errorf("%s %q", s.Schema, s.Description)
	}
	if s := b.tool("a_b_dark").Spec(); s.Description != "see[2J this" || string(s.Schema) != string(anything) {
		t.Errorf("%s %q", s.Schema, s.Description)
	}
	if r := b.run("a_b-c", "{}"); r.Output != "called" {
		t.Errorf("%+v", r)
	}
}

func TestTooManyTools(t *testing.T) {
	var names []string
	for i := range toolLimit + 1 {
		names = append(names, "t"+strconv.Itoa(i))
	}
	b := connect(t, Options{}, ourselves("s", "raw", names...))
	if len(b.Tools()) != toolLimit || !strings.HasPrefix(strings.Join(b.told(), ""), "notice: MCP server s has more than 512 tools") {
		t.Errorf("%d tools, %q", len(b.Tools()), b.told())
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	g := proc.Group{Grace: 50 * time.Millisecond}
	h := Connect(t.Context(), []Server{ourselves("s", "good"), ourselves("d", "double")}, Options{Group: &g})
	p, _ := h.Tools()[1].Plan(event.Raw("{}")) // d_child … s_child
	if r := p.Run(t.Context(), func(string) {}); !strings.HasSuffix(r.Output, "<nil>") {
		t.Fatalf("%+v", r)
	}
	begun := filepath.Join(t.TempDir(), "begun")
	slow, _ := h.Tools()[12].Plan(event.Raw(fmt.Sprintf(`{"begun":%q}`, begun)))
	failed := make(chan tool.Result)
	go func() { failed <- slow.Run(t.Context(), func(string) {}) }()
	await(t.Context(), begun)
	h.Close()
	if r := <-failed; r.Error != "MCP server s failed the call: the run is over" {
		t.Errorf("a call and the end of the hub: %+v", r)
	}
	if left := g.Close(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if r := p.Run(t.Context(), func(string) {}); r.Error != "MCP server s failed the call: the run is over" {
		t.Errorf("%+v", r)
	}
	h.Close()
}

func TestRunIsGivenUpWhileServersStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("stopped by SIGTERM"))
	var told []event.Body
	began := time.Now()
	h := Connect(ctx, []Server{ourselves("s", "hangs"), {Name: "h", URL: "http://127.0.0.1:1/"}}, Options{Emit: func(b event.Body) { told = append(told, b) }})
	h.Close()
	if took := time.Since(began); took > 20*time.Second || len(told) > 0 {
		t.Errorf("it took %s, and said %v", took, told)
	}
	for _, s := range h.Status() {
		if s.State != Failed || !strings.Contains(s.Err, "stopped by SIGTERM") {
			t.Errorf("%+v", s)
		}
	}
}
