//go:build interop

// Package interop holds our program against other people's. It needs the network, and node and npm: scripts/interop fetches the
// rest into the folder that $INTEROP names, or into one of the user's cache. $AGENT names the only one that is wanted.
package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/tool"
)

// program is a command of the packages that MCP is tested with.
func program(name string, args ...string) []string {
	return append([]string{filepath.Join(folder(), "mcp", "node_modules", ".bin", name)}, args...)
}

// background starts a server that listens at a port, and returns when it does.
func background(t *testing.T, path string, command func(port string) (args, env []string)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	args, env := command(port)
	var group proc.Group
	var said bytes.Buffer
	p, err := group.Start(proc.Cmd{Args: args, Env: append(os.Environ(), env...), Stdout: &said, Stderr: &said})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Close() })
	url = "http://127.0.0.1:" + port + path
	for range 300 {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return url
		}
		select {
		case <-p.Done():
			t.Fatalf("it ended, %v: %s", p.Wait(), said.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("it does not listen")
	return ""
}

// A bench is the tools of one server.
type bench struct {
	t   *testing.T
	hub *mcp.Hub

	mu     sync.Mutex
	events []event.Body
}

func connect(t *testing.T, workspace string, s mcp.Server) *bench {
	t.Helper()
	b := &bench{t: t}
	var group proc.Group
	s.StartTimeout = time.Minute // of a machine that has much to do
	b.hub = mcp.Connect(t.Context(), []mcp.Server{s}, mcp.Options{Group: &group, Workspace: workspace, Emit: func(e event.Body) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}})
	t.Cleanup(func() {
		b.hub.Close()
		if left := group.Close(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		for _, e := range b.events {
			if bad, ok := e.(event.Error); ok {
				t.Errorf("%+v", bad)
			}
		}
	})
	if st := b.hub.Status()[0]; st.State != mcp.Ready || st.Tools == 0 {
		t.Fatalf("%+v", st)
	}
	return b
}

func (b *bench) has(name string) bool {
	return slices.ContainsFunc(b.hub.Tools(), func(t tool.Tool) bool { return t.Spec().Name == name })
}

func (b *bench) call(name string, input any, out func(string)) tool.Result {
	b.t.Helper()
	for _, x := range b.hub.Tools() {
		if x.Spec().Name != name {
			continue
		}
		raw, _ := json.Marshal(input)
		p, err := x.Plan(raw)
		if err != nil {
			b.t.Fatal(err)
		}
		if out == nil {
			out = func(string) {}
		}
		return p.Run(b.t.Context(), out)
	}
	b.t.Fatalf("there is no %s", name)
	return tool.Result{}
}

type object map[string]any

func everything(t *testing.T, f func(t *testing.T, s mcp.Server)) {
	fetch(t, "mcp", "mcp")
	t.Run("stdio", func(t *testing.T) { f(t, mcp.Server{Name: "all", Command: program("mcp-server-everything", "stdio")}) })
	t.Run("http", func(t *testing.T) {
		url := background(t, "/mcp", func(port string) (args, env []string) {
			return program("mcp-server-everything", "streamableHttp"), []string{"PORT=" + port}
		})
		f(t, mcp.Server{Name: "all", URL: url})
	})
}

func TestEverything(t *testing.T) {
	everything(t, func(t *testing.T, s mcp.Server) {
		workspace := t.TempDir()
		b := connect(t, workspace, s)
		good := regexp.MustCompile(`^all_[a-zA-Z0-9_-]{1,60}$`)
		for _, x := range b.hub.Tools() {
			spec := x.Spec()
			if !good.MatchString(spec.Name) || spec.Description == "" || !json.Valid(spec.Schema) {
				t.Errorf("%+v", spec)
			}
		}
		for _, name := range []string{"all_trigger-sampling-request", "all_trigger-elicitation-request"} {
			if b.has(name) {
				t.Errorf("%s is offered, though nobody could answer", name)
			}
		}
		if r := b.call("all_echo", object{"message": "hello <there>"}, nil); r.Error != "" || r.Output != "Echo: hello <there>" {
			t.Errorf("%+v", r)
		}
		if r := b.call("all_get-sum", object{"a": 2, "b": 40}, nil); r.Error != "" || !strings.Contains(r.Output, "42") {
			t.Errorf("%+v", r)
		}
		if r := b.call("all_get-sum", object{"a": "two"}, nil); r.Error == "" {
			t.Errorf("wrong arguments: %+v", r)
		}
		r := b.call("all_get-tiny-image", object{}, nil)
		var meta struct {
			Parts []struct{ Type, Mime, Data string }
		}
		if json.Unmarshal(r.Metadata, &meta); r.Error != "" || len(meta.Parts) != 1 || meta.Parts[0].Mime != "image/png" || len(meta.Parts[0].Data) < 1000 || !strings.Contains(r.Output, "[image image/png, ") {
			t.Errorf("%s %s", r.Output, r.Error)
		}
		if r := b.call("all_get-structured-content", object{"location": "New York"}, nil); r.Error != "" || !strings.Contains(string(r.Metadata), `"structuredContent":{`) {
			t.Errorf("%+v %s", r, r.Metadata)
		}
		if r := b.call("all_get-resource-links", object{"count": 2}, nil); r.Error != "" || strings.Count(r.Output, "](") != 2 {
			t.Errorf("%+v", r)
		}
		var live strings.Builder
		if r := b.call("all_trigger-long-running-operation", object{"duration": 1, "steps": 4}, func(s string) { live.WriteString(s) }); r.Error != "" || !strings.HasPrefix(live.String(), "1/4\n2/4\n") {
			t.Errorf("%+v, live %q", r, live.String())
		}
		if r := b.call("all_get-roots-list", object{}, nil); r.Error != "" || !strings.Contains(r.Output, "file://"+workspace) {
			t.Errorf("%+v", r)
		}
	})
}

func TestFilesystem(t *testing.T) {
	fetch(t, "mcp", "mcp")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	test := func(t *testing.T, s mcp.Server) {
		b := connect(t, dir, s)
		file := filepath.Join(dir, t.Name()[len("TestFilesystem/"):]+".txt")
		if r := b.call("files_write_file", object{"path": file, "content": "one\ntwo\n"}, nil); r.Error != "" {
			t.Errorf("%+v", r)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "one\ntwo\n" {
			t.Errorf("%q %v", data, err)
		}
		if r := b.call("files_read_text_file", object{"path": file, "head": 1}, nil); r.Error != "" || strings.TrimSpace(r.Output) != "one" {
			t.Errorf("%+v", r)
		}
		if r := b.call("files_read_text_file", object{"path": "/etc/passwd"}, nil); !strings.Contains(r.Error, "denied") {
			t.Errorf("%+v", r)
		}
		image := filepath.Join(dir, "dot.png")
		data, err := os.ReadFile(filepath.Join("..", "cmd", "sluice", "testdata", "dot.png"))
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(image, data, 0o600)
		if r := b.call("files_read_media_file", object{"path": image}, nil); r.Error != "" || r.Type != "image" || !strings.Contains(string(r.Metadata), `"mime":"image/png"`) {
			t.Errorf("%+v %s", r, r.Metadata)
		}
	}
	t.Run("stdio", func(t *testing.T) {
		test(t, mcp.Server{Name: "files", Command: program("mcp-server-filesystem", dir)})
	})
	t.Run("http", func(t *testing.T) { // it has only stdio itself
		url := background(t, "/mcp", func(port string) (args, env []string) {
			return program("supergateway", "--stdio", strings.Join(program("mcp-server-filesystem", dir), " "), "--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none"), nil
		})
		test(t, mcp.Server{Name: "files", URL: url})
	})
}

// The program itself, as a user has it.
func TestRunWithEverything(t *testing.T) {
	everything(t, func(t *testing.T, s mcp.Server) {
		home := t.TempDir()
		config := fmt.Sprintf("[mcp.all]\ntimeout = \"1m\"\nurl = %q\n", s.URL)
		if s.URL == "" {
			config = fmt.Sprintf("[mcp.all]\ntimeout = \"1m\"\ncommand = [%q, %q]\n", s.Command[0], s.Command[1])
		}
		write(t, filepath.Join(home, ".config", "sluice", "config.toml"), config)
		script := filepath.Join(home, "script.yaml")
		write(t, script, "steps:\n  - call: {tool: all_echo, input: {message: from the model}}\n  - text: Done.\n")
		run := func(args ...string) string {
			t.Helper()
			c := exec.Command(sluice(t), args...)
			c.Dir = home
			c.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
			var said bytes.Buffer
			c.Stderr = &said
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %v: %s %s", args, err, out, said.String())
			}
			return string(out)
		}
		if out := run("mcp"); !regexp.MustCompile(`^all +\w+ +ready +\d+ tools `).MatchString(out) {
			t.Errorf("%s", out)
		}
		out := run("run", "--model", "script/"+script, "--require-mcp", "all", "--allow", "all_*", "--format", "native", "say it")
		for _, want := range []string{`"name":"all_echo","source":"mcp","server":"all"`, `"kind":"gate.allowed"`, `"output":"Echo: from the model"`, `"kind":"run.done"`} {
			if !strings.Contains(out, want) {
				t.Errorf("there is no %s in %s", want, out)
			}
		}
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
