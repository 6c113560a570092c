package provider

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A stage is the demo with real tools in a real folder.
type stage struct {
	tools *tool.Set
	end   func(call event.ToolCalled) event.Body // instead of running it, unless nil
	tr    fold.Transcript
	calls []string // name and arguments
}

func newStage(t *testing.T, files map[string]string) *stage {
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return &stage{tools: tool.Builtin(tool.Options{Workspace: dir})}
}

// ask asks until there is an answer.
func (s *stage) ask(t *testing.T, prompt event.Prompt) string {
	t.Helper()
	var specs []Tool
	for _, x := range s.tools.Tools() {
		specs = append(specs, Tool{Name: x.Spec().Name, Description: x.Spec().Description, Schema: x.Spec().Schema})
	}
	s.tr.Apply(event.Event{Body: prompt}.Stamp())
	m := open(t, Options{Model: "demo/demo"})
	s.calls = nil
	for range 5 {
		s.tr.Apply(event.Event{Body: event.TurnStarted{}}.Stamp())
		var last event.TurnEnded
		var text string
		var calls []event.Event
		for e, err := range m.Answer(t.Context(), Request{History: s.tr.Events(), Tools: specs}) {
			if err != nil {
				t.Fatal(err)
			}
			s.tr.Apply(e.Stamp())
			switch b := e.Body.(type) {
			case event.Text:
				text += b.Text
			case event.ToolCalled:
				calls = append(calls, e)
			case event.TurnEnded:
				last = b
			}
		}
		if last.Provider != "demo" || last.Usage != (event.Usage{}) || (last.Finish == event.FinishToolCalls) != (len(calls) > 0) {
			t.Errorf("%+v after %d calls", last, len(calls))
		}
		if len(calls) == 0 {
			return text
		}
		for _, e := range calls {
			b := e.Body.(event.ToolCalled)
			s.calls = append(s.calls, b.Name+string(b.Input))
			s.tr.Apply(event.Event{Header: event.Header{Call: e.Call}, Body: s.run(t, b)}.Stamp())
		}
	}
	t.Fatalf("it does not end: %v", s.calls)
	return ""
}

func (s *stage) run(t *testing.T, b event.ToolCalled) event.Body {
	if s.end != nil {
		return s.end(b)
	}
	x, ok := s.tools.Find(b.Name)
	if !ok {
		t.Fatalf("there is no tool %s", b.Name)
	}
	p, err := x.Plan(b.Input)
	if err != nil {
		t.Fatalf("%s does not take %s: %v", b.Name, b.Input, err)
	}
	r := p.Run(t.Context(), func(string) {})
	end := event.ToolEnd{Name: b.Name, Output: r.Output, Error: r.Error, Exit: r.Exit, Type: r.Type, Metadata: r.Metadata, Truncated: r.Truncated}
	if r.Error != "" {
		return event.ToolFailed(end)
	}
	return event.ToolDone(end)
}

var project = map[string]string{
	"README.md":       "# Widgets\n\n[![build](x)](y)\n\nWidgets makes widgets. It is fast.\n\n## Use\n\nRun it.\n",
	"go.mod":          "module widgets\n",
	"main.go":         "package main\n\nimport \"fmt\"\n\ntype Widget struct{}\n\nfunc main() { fmt.Println(New()) }\n\nfunc New() Widget { return Widget{} }\n\nfunc (w *Widget) Turn(n int) {}\n",
	"lib/lib.go":      "package lib\n",
	"lib/lib_test.go": "package lib\n",
	"docs/a.md":       "hello\n",
	"empty.txt":       "",
	"logo.png":        "\x89PNG\r\n\x1a\n....",
}

func TestDemo(t *testing.T) {
	folder := []string{`glob{"pattern":"**/*"}`, `glob{"pattern":"*"}`, `read{"file_path":"README.md"}`}
	for prompt, tt := range map[string]struct {
		calls []string
		says  []string
	}{
		"What is in this folder?": {folder, []string{
			"This folder has 8 files: 3 Go, 2 Markdown, 1 .mod, 1 PNG and 1 text.", "Folders: docs/ and lib/.",
			"Files at the top: README.md, empty.txt, go.mod, logo.png and main.go.", "go.mod says that this is a Go module.",
			"README.md begins: “Widgets makes widgets.”",
		}},
		"what's in the current directory":          {folder, []string{"8 files"}},
		"Describe this repository, please.":        {folder, []string{"8 files"}},
		"Read main.go":                             {[]string{`read{"file_path":"main.go"}`}, []string{"main.go has 11 lines. It belongs to package main. Types: Widget. Functions: main, New and *Widget.Turn."}},
		"What does `README.md` say?":               {[]string{`read{"file_path":"README.md"}`}, []string{"README.md has 9 lines. Its heading is “Widgets”. Sections: Use. It begins: “Widgets makes widgets.”"}},
		"Summarise docs/a.md.":                     {[]string{`read{"file_path":"docs/a.md"}`}, []string{"docs/a.md has 1 line.", "“hello”"}},
		"look at go.mod":                           {[]string{`read{"file_path":"go.mod"}`}, []string{"It begins:\n\n```\nmodule widgets\n```"}},
		"read empty.txt":                           {[]string{`read{"file_path":"empty.txt"}`}, []string{"empty.txt is empty."}},
		"show me logo.png":                         {[]string{`read{"file_path":"logo.png"}`}, []string{"logo.png is an image", "cannot see"}},
		"read nowhere.txt":                         {[]string{`read{"file_path":"nowhere.txt"}`}, []string{"I could not read nowhere.txt: nowhere.txt: there is no such file"}},
		"Where is Widget used?":                    {[]string{`grep{"pattern":"Widget"}`}, []string{"`Widget` is in", "main.go:5:type Widget struct{}"}},
		"search for \"New() Widget {\" everywhere": {[]string{`grep{"pattern":"New\\(\\) Widget \\{"}`}, []string{"is in 1 line:", "main.go:9:"}},
		"find xyzzy":                               {[]string{`grep{"pattern":"xyzzy"}`}, []string{"I found no `xyzzy`."}},
		"Where is lib.go?":                         {[]string{`glob{"pattern":"**/lib.go"}`}, []string{"lib.go is here: lib/lib.go."}},
		"find nowhere.go":                          {[]string{`glob{"pattern":"**/nowhere.go"}`}, []string{"There is no nowhere.go here."}},
		"Run `echo hi; exit 3` please":             {[]string{`bash{"command":"echo hi; exit 3"}`}, []string{"`echo hi; exit 3` ended with exit code 3. It printed:\n\n```\nhi"}},
		"please run `true`":                        {[]string{`bash{"command":"true"}`}, []string{"`true` worked"}},
		"2+2":                                      {nil, []string{"2+2 = 4"}},
		"What is 3 * (4 - 1.5) / 2?":               {nil, []string{"3 * (4 - 1.5) / 2 = 3.75"}},
		"how much is 1/0":                          {nil, []string{"1/0 has no result."}},
		"Write me a poem":                          {folder, []string{"8 files", "I am only the demo model", "sluice run --model anthropic/"}},
		"":                                         {folder, []string{"I am only the demo model"}},
		"((((" + strings.Repeat("(", 1<<20) + "1+": {folder, []string{"I am only the demo model"}},
	} {
		name := prompt
		if len(name) > 40 {
			name = name[:40]
		}
		t.Run(name, func(t *testing.T) {
			s := newStage(t, project)
			got := s.ask(t, event.Prompt{Text: prompt})
			for _, want := range tt.says {
				if !strings.Contains(got, want) {
					t.Errorf("it says\n%s\nand not\n%s", got, want)
				}
			}
			if !slices.Equal(s.calls, tt.calls) {
				t.Errorf("it calls %v, want %v", s.calls, tt.calls)
			}
		})
	}
}

func TestDemoInAnEmptyFolder(t *testing.T) {
	s := newStage(t, nil)
	if got := s.ask(t, event.Prompt{Text: "What is in this folder?"}); got != "This folder is empty, as far as I can see." {
		t.Error(got)
	}
}

// A folder with more files than the tool shows still has its README read and its files counted.
func TestDemoInALargeFolder(t *testing.T) {
	files := map[string]string{"README": "Many files.\n"}
	for i := range 300 {
		files[filepath.Join("deep", string(rune('a'+i%26)), strings.Repeat("x", 1+i/26)+".go")] = ""
	}
	s := newStage(t, files)
	got := s.ask(t, event.Prompt{Text: "What is in this folder?"})
	for _, want := range []string{"This folder has 301 files. Of the 200 that I was shown", "Folders: deep/.", "Files at the top: README.", "README begins: “Many files.”"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says\n%s\nand not\n%s", got, want)
		}
	}
}

// Under other faces the tools have other names, and other arguments.
func TestDemoUnderOtherFaces(t *testing.T) {
	s := newStage(t, project)
	s.tools.Rename(map[string]string{"read": "Read", "glob": "Glob", "grep": "search_files", "bash": "ExecCommand"}, nil)
	for prompt, want := range map[string]string{
		"What is in this folder?": `Glob{"pattern":"**/*"}`, "Read main.go": `Read{"file_path":"main.go"}`, "find Widget": `search_files{"pattern":"Widget"}`, "run `true`": `ExecCommand{"command":"true"}`,
	} {
		s.ask(t, event.Prompt{Text: prompt})
		if s.calls[0] != want {
			t.Errorf("%s: %v, want %s", prompt, s.calls, want)
		}
	}
	schema := func(s string) event.Raw { return event.Raw(`{"type":"object",` + s + `}`) }
	tools := []Tool{
		{Name: "list_directory", Schema: schema(`"properties":{"path":{"type":"string"}},"required":["path"]`)},
		{Name: "shell", Schema: schema(`"properties":{"cmd":{"type":"string"},"description":{"type":"string"},"seconds":{"type":"number"}},"required":["cmd","description","seconds"]`)},
		{Name: "read_file", Schema: event.Raw(`{"type":`)},
	}
	for prompt, want := range map[string]string{
		"What is in this folder?": `list_directory({"path":"."})#call_?`,
		"run `true`":              `shell({"cmd":"true","description":"I was given a command to run."})#call_?`,
	} {
		got := blocks(t, demo{}, Request{Tools: tools, History: []event.Event{past(event.Prompt{Text: prompt})}})
		same(t, []any{got[0], want, got[2]}, got)
	}
	for prompt, want := range map[string]string{"Read main.go": "read a file", "find Widget": "search the files"} {
		got := blocks(t, demo{}, Request{Tools: tools, History: []event.Event{past(event.Prompt{Text: prompt})}})
		same(t, []any{event.Text{Text: "I would have to " + want + ", and I have no tool for that."}, got[1]}, got)
	}
	got := blocks(t, demo{}, Request{History: []event.Event{past(event.Prompt{Text: "What is in this folder?"})}})
	same(t, []any{event.Text{Text: "I would have to list files, and I have no tool for that."}, got[1]}, got)
}

// What was not done is not told as if it were.
func TestDemoIsHonest(t *testing.T) {
	for name, end := range map[string]event.Body{
		"I was not allowed to": event.ToolDenied{Error: "a rule says no."}, "I could not": event.ToolFailed{Error: "a rule says no"},
		"I was stopped when I wanted to": event.ToolCancelled{Output: "a rule\nsays no"},
	} {
		for prompt, what := range map[string]string{
			"run `true`": "run `true`", "read a.go": "read a.go", "find Widget": "search the files for `Widget`", "find a.go": "list the files", "What is in this folder?": "look at the folder",
		} {
			s := newStage(t, project)
			s.end = func(event.ToolCalled) event.Body { return end }
			if got, want := s.ask(t, event.Prompt{Text: prompt}), name+" "+what+": a rule says no."; got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		}
	}
	s := newStage(t, project)
	s.end = func(b event.ToolCalled) event.Body {
		if b.Name == "read" {
			return event.ToolDenied{Error: "secret"}
		}
		return event.ToolDone{Output: "README.md\n"}
	}
	if got := s.ask(t, event.Prompt{Text: "What is in this folder?"}); !strings.Contains(got, "has 1 file") || !strings.HasSuffix(got, "I was not allowed to read README.md: secret.") {
		t.Error(got)
	}
}

func TestDemoAnswersTheLastPrompt(t *testing.T) {
	s := newStage(t, project)
	for prompt, want := range map[string]string{"read go.mod": "module widgets", "2*3": "2*3 = 6", "Read main.go": "package main"} {
		for range 2 {
			if got := s.ask(t, event.Prompt{Text: prompt}); !strings.Contains(got, want) {
				t.Errorf("%s: %s", prompt, got)
			}
		}
	}
	got := s.ask(t, event.Prompt{Text: "What is this?", Attached: []event.Attachment{{Path: "x.md", Type: "text/markdown", Text: "# X\n\nAn X.\n"}, {Path: "y.png", Type: "image/png", Data: "AAAA"}}})
	if !strings.Contains(got, "x.md has 3 lines. Its heading is “X”.") || !strings.Contains(got, "y.png is attached (image/png)") || len(s.calls) > 0 {
		t.Errorf("%s %v", got, s.calls)
	}
}

// Listings and files come in many shapes.
func TestDemoReadsWhatToolsPrint(t *testing.T) {
	for output, want := range map[string]shown{
		"     1\ta\n     2\tb\n":                        {text: "a\nb\n"},
		"10→a\n11→\n12→c\n":                             {text: "a\n\nc\n"},
		"1: a\n2: b":                                    {text: "a\nb"},
		"     1\ta\n\n(lines 1 to 1 of 90; go on with)": {text: "a\n", lines: 90},
		"plain\n2: b\n":                                 {text: "plain\n2: b\n"},
		"(the file is empty)":                           {},
		"":                                              {},
	} {
		if got := contents(event.ToolEnd{Output: output}); got != want {
			t.Errorf("%q: %+v, want %+v", output, got, want)
		}
	}
	for output, want := range map[string]string{
		"/w/a/x.go\n/w/a/y/z.go\n": "x.go y/z.go", "/w/a.go\n": "a.go", "./a\nb/\n\n(and 5 more: narrow)\n": "a b/ +5", "no file matches\n": "", "/a\n/b\n": "a b", "/a\nb\n": "/a b",
		"No files found": "", "Found:\na b.txt\n": "a b.txt",
	} {
		paths, total := outcome{end: event.ToolDone{Output: output}}.listing()
		got := strings.Join(paths, " ")
		if total > len(paths) {
			got += " +5"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
