package tool

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Enter() // as Sluice's program does
	goleak.VerifyTestMain(m)
}

// A bench is a workspace with tools, for one test.
type bench struct {
	t    *testing.T
	dir  string
	set  *Set
	opts Options
}

func newBench(t *testing.T, files map[string]string) *bench {
	t.Helper()
	return benchWith(t, files, Options{})
}

func benchWith(t *testing.T, files map[string]string, o Options) *bench {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: filepath.Join(top, "work")}
	for name, text := range files {
		b.put(name, text)
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Workspace, o.Spill = b.dir, filepath.Join(top, "spill")
	if o.Group == nil {
		o.Group = &proc.Group{Grace: -1}
		t.Cleanup(func() { o.Group.Close() })
	}
	b.opts = o
	b.set = Builtin(o)
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) put(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b *bench) link(to, name string) {
	b.t.Helper()
	if err := os.Symlink(to, b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) plan(tool string, args any) (Plan, error) {
	b.t.Helper()
	t, ok := b.set.Find(tool)
	if !ok {
		b.t.Fatalf("no tool %s", tool)
	}
	input, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	return t.Plan(input)
}

func (b *bench) mustPlan(tool string, args any) Plan {
	b.t.Helper()
	p, err := b.plan(tool, args)
	if err != nil {
		b.t.Fatalf("%s: %v", tool, err)
	}
	return p
}

func (b *bench) run(tool string, args any) Result {
	b.t.Helper()
	return b.mustPlan(tool, args).Run(b.t.Context(), func(string) {})
}

// ok runs a call that must work.
func (b *bench) ok(tool string, args any) Result {
	b.t.Helper()
	r := b.run(tool, args)
	if r.Error != "" {
		b.t.Fatalf("%s: %s", tool, r.Error)
	}
	return r
}

// fails runs a call that must fail, in planning or in running, with these words.
func (b *bench) fails(tool string, args any, words ...string) {
	b.t.Helper()
	p, err := b.plan(tool, args)
	text := ""
	if err != nil {
		text = err.Error()
	} else {
		text = p.Run(b.t.Context(), func(string) {}).Error
	}
	if text == "" {
		b.t.Errorf("%s %v: no error, want %q", tool, args, words)
		return
	}
	if strings.Contains(text, "\n") {
		b.t.Errorf("%s %v: an error of several lines: %q", tool, args, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.t.Errorf("%s %v: %q does not say %q", tool, args, text, w)
		}
	}
}

type object = map[string]any

func TestSpecs(t *testing.T) {
	b := newBench(t, nil)
	var names []string
	for _, tool := range b.set.Tools() {
		s := tool.Spec()
		names = append(names, s.Name)
		if s.Description == "" || s.Class == "" {
			t.Errorf("%s: no description or class", s.Name)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(s.Schema)))
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("s.json", doc); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compile("s.json"); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if string(tool.Spec().Schema) != string(s.Schema) {
			t.Errorf("%s: the schema changes", s.Name)
		}
	}
	if want := []string{"read", "write", "edit", "bash", "bash_output", "glob", "grep", "todo"}; !cmp.Equal(names, want) {
		t.Errorf("tools: %q", names)
	}
}

func TestArguments(t *testing.T) {
	b := newBench(t, nil)
	read, _ := b.set.Find("read")
	for input, want := range map[string]string{
		`"{\"file_path\":"`:              "not a JSON object",
		`{"file_path":`:                  "not JSON",
		``:                               "not JSON",
		`[]`:                             "not a JSON object",
		`null`:                           "not a JSON object",
		`{}`:                             `"file_path" is missing: there are no arguments`,
		`{"path":"a"}`:                   `"file_path" is missing: there is only "path"`,
		`{"file_path":null}`:             `"file_path" is missing`,
		`{"file_path":7}`:                `"file_path" must be a string, not number`,
		`{"file_path":"a","offset":"3"}`: `"offset" must be a whole number, not string`,
		`{"file_path":"a","offset":1.5}`: `"offset" must be a whole number, not number 1.5`,
		`{"file_path":"a","offset":-1}`:  `count lines from 1`,
		`{"file_path":"a\u0000b"}`:       `NUL`,
		`{"file_path":""}`:               `the path is empty`,
	} {
		if _, err := read.Plan(event.Raw(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", input, err, want)
		}
	}
	edit, _ := b.set.Find("edit")
	if _, err := edit.Plan(event.Raw(`{"file_path":"a","old_string":"x","new_string":"y","replace_all":"yes"}`)); err == nil || !strings.Contains(err.Error(), `"replace_all" must be true or false`) {
		t.Errorf("%v", err)
	}
	// What nobody asked for is left alone.
	b.put("a", "x\n")
	p, err := read.Plan(event.Raw(`{"file_path":"a","offset":null,"why":"because","File_Path":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Run(t.Context(), nil); r.Output != "     1\tx\n" {
		t.Errorf("%+v", r)
	}
}

func TestSetRename(t *testing.T) {
	b := newBench(t, map[string]string{"a": "x\n"})
	b.set.Rename(map[string]string{"read": "Read", "todo": ""}, nil)
	if _, ok := b.set.Find("read"); ok {
		t.Error("the old name is still there")
	}
	if _, ok := b.set.Find("todo"); ok {
		t.Error("todo is still there")
	}
	if r := b.ok("Read", object{"file_path": "a"}); r.Output == "" {
		t.Error("nothing read")
	}
	if got := b.set.Tools()[0].Spec().Name; got != "Read" {
		t.Errorf("the order changed: %s", got)
	}
	b.set.Add(As(&todo{}, "Read", nil))
	if n := len(b.set.Tools()); n != 7 {
		t.Errorf("%d tools", n)
	}
}

// A face may have other names for arguments: the model is told those, and what it is told of its mistakes has them too.
func TestSetRenameArguments(t *testing.T) {
	b := newBench(t, map[string]string{"a": "x\n"})
	b.set.Rename(map[string]string{"bash": "shell"}, map[string]map[string]string{"read": {"file_path": "path"}, "bash": {"command": "cmd"}})
	read, _ := b.set.Find("read")
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(read.Spec().Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Properties) != 3 || schema.Properties["path"] == nil || len(schema.Required) != 1 || schema.Required[0] != "path" {
		t.Errorf("%s", read.Spec().Schema)
	}
	for _, args := range []object{{"path": "a"}, {"file_path": "a"}, {"path": "a", "file_path": "b", "limit": 5}} {
		if r := b.ok("read", args); r.Output != "     1\tx\n" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := b.ok("shell", object{"cmd": "echo '<&>'"}); r.Output != "<&>\n" {
		t.Errorf("%+v", r)
	}
	for input, want := range map[string]string{`{"paht":"a"}`: `"path" is missing: there is only "paht"`, `{"path":1}`: `"path" must be a string`, `[]`: "not a JSON object", `{`: "not JSON"} {
		if _, err := read.Plan(event.Raw(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// What a tool says of itself and of what went wrong has the names of its arguments as they are here; the name of a file stays.
func TestSetRenameWords(t *testing.T) {
	b := newBench(t, map[string]string{"old_string.txt": "x\nx\n"})
	b.set.Rename(nil, map[string]map[string]string{"edit": {"file_path": "filePath", "old_string": "oldString", "new_string": "newString", "replace_all": "replaceAll"}, "bash": {"command": "cmd"}})
	for _, name := range []string{"edit", "bash", "write"} {
		tool, _ := b.set.Find(name)
		for _, word := range []string{"old_string", "replace_all", "bash_output", "cmd"} {
			if strings.Contains(tool.Spec().Description, word) {
				t.Errorf("%s speaks of %s: %s", name, word, tool.Spec().Description)
			}
		}
	}
	edit := func(old, with string) object {
		return object{"filePath": "old_string.txt", "oldString": old, "newString": with}
	}
	b.fails("edit", edit("x", "y"), "old_string.txt: oldString is there 2 times", "or set replaceAll")
	b.fails("edit", edit("z", "y"), "old_string.txt: oldString is not in the file")
	b.fails("edit", edit("x", "x"), "oldString and newString are the same")
	b.fails("edit", edit("", "x"), "oldString is empty")
}

func TestTodo(t *testing.T) {
	b := newBench(t, nil)
	item := func(content, status string) object { return object{"content": content, "status": status} }
	r := b.ok("todo", object{"todos": []object{item("look", "completed"), item("think", "in_progress"), item("do", "pending"), item("rest", "cancelled")}})
	if want := "[x] look\n[>] think\n[ ] do\n[-] rest\n"; r.Output != want {
		t.Errorf("got %q", r.Output)
	}
	if want := `{"todos":[{"content":"look","status":"completed"},`; !strings.HasPrefix(string(r.Metadata), want) {
		t.Errorf("metadata %s", r.Metadata)
	}
	if r := b.ok("todo", object{"todos": []object{}}); r.Output != "(the list is empty)\n" {
		t.Errorf("got %q", r.Output)
	}
	b.fails("todo", object{"todos": []object{item("x", "done")}}, `todos[0].status is "done"`, "pending, in_progress, completed, cancelled")
	b.fails("todo", object{"todos": []object{item(" ", "pending")}}, "todos[0].content is empty")
	b.fails("todo", object{"todos": "x"}, `"todos" must be a list, not string`)
	p := b.mustPlan("todo", object{"todos": []object{item("a", "completed"), item("b", "pending")}})
	if p.Title != "1 of 2 done" || len(p.Access) != 1 || p.Access[0].Permission != "todo" {
		t.Errorf("%+v", p)
	}
}

func TestAccesses(t *testing.T) {
	b := newBench(t, map[string]string{"src/a.go": "x\n", ".git/hooks/.keep": ""})
	b.link(".git/hooks", "innocent")
	b.link("/etc", "out")
	outer := filepath.Dir(b.dir)
	info, edit := event.ClassInfo, event.ClassEdit
	for _, c := range []struct {
		tool string
		args object
		want []gate.Access
	}{
		{"read", object{"file_path": "src/a.go"}, []gate.Access{{Permission: "read", Target: "src/a.go", Class: info}}},
		{"read", object{"file_path": b.path("src/a.go")}, []gate.Access{{Permission: "read", Target: "src/a.go", Class: info}}},
		{"read", object{"file_path": "src/../src/./a.go"}, []gate.Access{{Permission: "read", Target: "src/a.go", Class: info}}},
		{"read", object{"file_path": "../x"}, []gate.Access{{Permission: "read", Target: outer + "/x", Class: info}, {Permission: "outside", Target: outer + "/x", Class: info}}},
		{"read", object{"file_path": "out/hostname"}, []gate.Access{{Permission: "read", Target: "/etc/hostname", Class: info}, {Permission: "outside", Target: "/etc/hostname", Class: info}}},
		{"read", object{"file_path": outer + "/spill/output-1.txt"}, []gate.Access{{Permission: "read", Target: outer + "/spill/output-1.txt", Class: info}}},
		{"write", object{"file_path": outer + "/spill/x", "content": ""}, []gate.Access{{Permission: "edit", Target: outer + "/spill/x", Class: edit}, {Permission: "outside", Target: outer + "/spill/x", Class: edit}}},
		{"write", object{"file_path": "innocent/pre-commit", "content": "x"}, []gate.Access{{Permission: "edit", Target: ".git/hooks/pre-commit", Class: edit}}},
		{"write", object{"file_path": "new/deep/file", "content": "x"}, []gate.Access{{Permission: "edit", Target: "new/deep/file", Class: edit}}},
		{"write", object{"file_path": "out/../sluice-x", "content": "x"}, []gate.Access{{Permission: "edit", Target: "/sluice-x", Class: edit}, {Permission: "outside", Target: "/sluice-x", Class: edit}}},
		{"edit", object{"file_path": "src/a.go", "old_string": "x", "new_string": "y"}, []gate.Access{{Permission: "edit", Target: "src/a.go", Class: edit}}},
		{"glob", object{"pattern": "src/*.go"}, []gate.Access{{Permission: "glob", Target: "src", Class: info}}},
		{"glob", object{"pattern": "/etc/*"}, []gate.Access{{Permission: "glob", Target: "/etc", Class: info}, {Permission: "outside", Target: "/etc", Class: info}}},
		{"glob", object{"pattern": "*", "path": "src/.."}, []gate.Access{{Permission: "glob", Target: ".", Class: info}}},
		{"grep", object{"pattern": "x", "path": "out"}, []gate.Access{{Permission: "grep", Target: "/etc", Class: info}, {Permission: "outside", Target: "/etc", Class: info}}},
		{"bash_output", object{"job": "job-1"}, nil},
	} {
		if got := b.mustPlan(c.tool, c.args).Access; !cmp.Equal(got, c.want) {
			t.Errorf("%s %v:\n%s", c.tool, c.args, cmp.Diff(c.want, got))
		}
	}
	for path, want := range map[string]string{"innocent/x": ".git/hooks/x", "out/passwd": "/etc/passwd", ".": ".", "src/../../y": outer + "/y"} {
		target, outside := openWorkspace(b.dir).Resolve(path)
		if target != want || outside != strings.HasPrefix(want, "/") {
			t.Errorf("%s: %s %v", path, target, outside)
		}
	}
}

func TestNoWorkspace(t *testing.T) {
	set := Builtin(Options{Workspace: filepath.Join(t.TempDir(), "none")})
	for name, args := range map[string]string{"read": `{"file_path":"a"}`, "bash": `{"command":"true"}`, "glob": `{"pattern":"*"}`} {
		tool, _ := set.Find(name)
		if _, err := tool.Plan(event.Raw(args)); err == nil || !strings.Contains(err.Error(), "workspace cannot be opened") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// over is a context that is over.
func over(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
