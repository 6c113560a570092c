package loop

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
)

// unpack writes the files of an archive into a new folder.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The same loop in three formats.
const three = `
-- loop.yaml --
max_iterations: 5
pre:
  - name: plan
    prompt: |
      Plan it.
      Say what you plan.
loop:
  - name: code
    prompt_file: prompts/code.md
    backend: claude
    model: anthropic/claude-sonnet-5-5
    agent: coder
    resume_from_previous: true
    timeout: 10m
    retries: 2
    requires:
      files: [a.go]
      non_empty_files: [b.go, c/d.go]
    on_incomplete: {nudge: Write them., max_nudges: 3}
  - {name: review, prompt: "Round {{.Iteration}}.", template: true}
post:
  - name: tidy
    prompt: Tidy up {{braces}}.
    template: false
-- loop.json --
{
  "max_iterations": 5,
  "pre": [{"name": "plan", "prompt": "Plan it.\nSay what you plan.\n"}],
  "loop": [
	{
		"name": "code", "prompt_file": "prompts/code.md", "backend": "claude", "model": "anthropic/claude-sonnet-5-5",
		"agent": "coder", "resume_from_previous": true, "timeout": "10m", "max_retries": 2,
		"requires": {"files": ["a.go"], "non_empty_files": ["b.go", "c/d.go"]},
		"on_incomplete": {"nudge": "Write them.", "max_nudges": 3}
	},
	{"name": "review", "prompt": "Round {{.Iteration}}.", "template": true}
  ],
  "post": [{"name": "tidy", "prompt": "Tidy up {{braces}}.", "template": false}]
}
-- loop.toml --
max_iterations = 5

[[pre]]
name = "plan"
prompt = """
Plan it.
Say what you plan.
"""

[[loop]]
name = "code"
prompt_file = "prompts/code.md"
backend = "claude"
model = "anthropic/claude-sonnet-5-5"
agent = "coder"
resume_from_previous = true
timeout = "10m"
retries = 2
on_incomplete = {nudge = "Write them.", max_nudges = 3}
[loop.requires]
files = ["a.go"]
non_empty_files = ["b.go", "c/d.go"]

[[loop]]
name = "review"
prompt = "Round {{.Iteration}}."
template = true

[[post]]
name = "tidy"
prompt = "Tidy up {{braces}}."
template = false
-- prompts/code.md --
Code it in {{.WorkDir}}.
`

func TestLoad(t *testing.T) {
	dir := unpack(t, three)
	want := Config{
		MaxIterations: 5,
		Pre:           []Phase{{Name: "plan", Prompt: "Plan it.\nSay what you plan.\n"}},
		Loop: []Phase{
			{
				Name: "code", PromptFile: "prompts/code.md", Backend: "claude", Model: "anthropic/claude-sonnet-5-5", Agent: "coder",
				Resume: true, Timeout: 10 * time.Minute, Retries: new(2),
				Requires:     Requires{[]string{"a.go"}, []string{"b.go", "c/d.go"}},
				OnIncomplete: OnIncomplete{"Write them.", new(3)},
			},
			{Name: "review", Prompt: "Round {{.Iteration}}.", Template: new(true)},
		},
		Post: []Phase{{Name: "tidy", Prompt: "Tidy up {{braces}}.", Template: new(false)}},
	}
	for _, name := range []string{"loop.yaml", "loop.json", "loop.toml"} {
		c, err := Load(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{}, Phase{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		data := Data{WorkDir: "/w", Iteration: 3}
		for p, want := range map[*Phase]string{&c.Loop[0]: "Code it in /w.\n", &c.Loop[1]: "Round 3.", &c.Post[0]: "Tidy up {{braces}}."} {
			if got, err := p.prompt.with(data); got != want || err != nil {
				t.Errorf("%s: %s: %q %v", name, p.Name, got, err)
			}
		}
	}
}

func TestLoadDefaults(t *testing.T) {
	dir := unpack(t, "-- a.yml --\nloop: [{name: x, prompt: go}]\n")
	c, err := Load(filepath.Join(dir, "a.yml"))
	if err != nil || c.MaxIterations != 10 {
		t.Error(c.MaxIterations, err)
	}
}

// What is wrong is told with its line, all of it at once.
func TestLoadProblems(t *testing.T) {
	for name, tt := range map[string]struct {
		files string
		want  []string // of the file loop.*
	}{
		"unknown keys": {"-- loop.yaml --\nmax_iteration: 3\nloop:\n  - name: a\n    prompt: x\n    retires: 2\n    colour: red\n", []string{
			`1: there is no key "max_iteration" here: is max_iterations meant?`,
			`5: there is no key "retires" in loop[0]: is retries meant?`,
			`6: there is no key "colour" in loop[0]: the keys are name, prompt, prompt_file, template, backend, model, agent, resume_from_previous, timeout, retries, max_retries, requires, on_incomplete`,
		}},
		"unknown keys in JSON": {"-- loop.json --\n{\n \"loops\": [],\n \"pre\": [{\"name\": \"a\",\n\"prompt\": \"x\",\n\"model\": 5}]\n}", []string{
			`2: there is no key "loops" here: is loop meant?`, `5: pre[0].model is a text`,
		}},
		"unknown keys in TOML": {"-- loop.toml --\nmax_iterations = 2\n[[loop]]\nname = \"a\"\nprompt = \"x\"\n[loop.requires]\nfile = [\"x\"]\n[[loop]]\nname = \"a\"\nprompt = \"x\"\ntimeout = 5\n", []string{
			`6: there is no key "file" in loop[0].requires: is files meant?`,
			`8: there are two phases named "a"`,
			`10: loop[1].timeout is a duration, as in "10m" or "90s"`,
		}},
		"types": {"-- loop.yaml --\nmax_iterations: many\npre: no\nloop:\n  - name: [a]\n    prompt: x\n    resume_from_previous: 1\n    timeout: -3s\n    requires: {files: [1]}\n    retries: 1.5\n  - just text\n", []string{
			`1: max_iterations is a whole number`, `2: pre is a list of tables`, `4: loop[0].name is a text`, `4: loop[0] has no name`,
			`6: loop[0].resume_from_previous is true or false`, `7: loop[0].timeout is a duration, as in "10m" or "90s"`,
			`8: loop[0].requires.files is a list of texts`, `9: loop[0].retries is a whole number`,
			`10: loop[1] is a table of keys and values`, `10: loop[1] has no name`, `10: loop[1] has no prompt`,
		}},
		"nothing":          {"-- loop.yaml --\n", []string{`there is nothing to do: pre and loop have no phases`}},
		"only post":        {"-- loop.yaml --\npost: [{name: a, prompt: x}]\n", []string{`1: there is nothing to do: pre and loop have no phases`}},
		"negative":         {"-- loop.yaml --\nmax_iterations: -1\nloop: [{name: a, prompt: x, retries: -1, on_incomplete: {max_nudges: -2}}]\n", []string{`1: max_iterations is -1: it is at least 1`, `2: retries is -1: it is at least 0`, `2: max_nudges is -2: it is at least 0`}},
		"both prompts":     {"-- loop.yaml --\nloop:\n - name: a\n   prompt: x\n   prompt_file: y\n", []string{`2: loop[0] has a prompt and a prompt_file: say one of them`}},
		"both retries":     {"-- loop.yaml --\nloop:\n - name: a\n   prompt: x\n   retries: 1\n   max_retries: 2\n", []string{`5: retries and max_retries are the same: say one of them`}},
		"empty prompt":     {"-- loop.yaml --\nloop: [{name: a, prompt: ' '}]\n", []string{`1: the prompt of loop[0] is empty`}},
		"no such file":     {"-- loop.yaml --\nloop:\n  - name: a\n    prompt_file: gone.md\n", []string{`3: gone.md: there is no such file`}},
		"out of its place": {"-- loop.yaml --\nloop: [{name: a, prompt_file: ../x}, {name: b, prompt: x, requires: {files: [/etc/passwd, ../y]}}]\n", []string{`1: ../x: it is reached by a link that leads out of its place`, `1: /etc/passwd is not a file below the folder that is worked in`, `1: ../y is not a file below the folder that is worked in`}},
		"templates": {"-- loop.yaml --\npre:\n  - name: a\n    prompt: |\n      One\n      {{.Iterations}}\n  - {name: b, prompt: '{{.Iteration'}\n  - {name: c, prompt: '{{printf \"%d\" 5}}'}\n  - {name: d, prompt: '{{range 5}}x{{end}}'}\n  - {name: e, prompt: '${{ github.sha }}'}\n  - {name: f, prompt: '{{if gt .Iteration \"x\"}}y{{end}}'}\n  - {name: g, prompt: '{{define \"x\"}}{{end}}'}\n  - {name: h, prompt: '{{.Phase.Name}}'}\n", []string{
			`3: line 2 of the prompt: there is no .Iterations: is .Iteration meant?`,
			`6: the prompt: unclosed action ({{"{{"}} stands for two braces, and template: false leaves the whole prompt alone)`,
			`7: the prompt: there is no printf in a prompt: there are and, or, not, eq, ne, lt, le, gt, ge, len`,
			`8: the prompt: range goes through a list, such as .ChangedFiles`,
			`9: the prompt: function "github" not defined ({{"{{"}} stands for two braces, and template: false leaves the whole prompt alone)`,
			`10: the prompt: error calling gt: incompatible types for comparison: int and string ({{"{{"}} stands for two braces, and template: false leaves the whole prompt alone)`,
			`11: the prompt: a prompt defines no other templates`,
			`12: the prompt: .Phase has no parts`,
		}},
		"not YAML":      {"-- loop.yaml --\nloop:\n  - name: a\n   prompt: x\n", []string{`3: this is no YAML: `}},
		"alias":         {"-- loop.yaml --\npre: &a [{name: a, prompt: x}]\nloop: *a\n", []string{`1: this is too clever: aliases, merged keys and tags are not read`}},
		"twice":         {"-- loop.yaml --\nloop: [{name: a, prompt: x}]\nloop: []\n", []string{`2: this is no YAML: `}},
		"documents":     {"-- loop.yaml --\nloop: [{name: a, prompt: x}]\n---\nloop: []\n", []string{`there is more than one document in it`}},
		"not JSON":      {"-- loop.json --\n{\n\"loop\": [}\n", []string{`2: this is no JSON: invalid character '}' looking for beginning of value`}},
		"twice in JSON": {"-- loop.json --\n{\"loop\": [],\n\"loop\": []}", []string{`2: "loop" is there twice`}},
		"more JSON":     {"-- loop.json --\n{}\n{}", []string{`2: this is no JSON: something follows the first value`}},
		"not TOML":      {"-- loop.toml --\nloop = [\n", []string{`this is no TOML: `}},
		"a list":        {"-- loop.yaml --\n- a\n", []string{`1: the file is a table of keys and values`, `1: there is nothing to do: pre and loop have no phases`}},
		"other name":    {"-- loop.txt --\nx\n", []string{`its name must end in .yaml, .json or .toml`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, tt.files)
			files, _ := filepath.Glob(filepath.Join(dir, "loop.*"))
			_, err := Load(files[0])
			problems, ok := errors.AsType[Problems](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			var got []string
			for _, p := range problems {
				line := strings.TrimPrefix(strings.TrimPrefix(p.Error(), files[0]+":"), " ")
				got = append(got, line)
			}
			for i := range min(len(got), len(tt.want)) {
				if strings.HasSuffix(tt.want[i], ": ") && strings.Contains(got[i], tt.want[i]) {
					got[i] = tt.want[i] // the rest is the parser's own
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A template that is wrong in a prompt's own file is told with that file's line.
func TestLoadPromptFileProblem(t *testing.T) {
	dir := unpack(t, "-- loop.yaml --\nloop: [{name: a, prompt_file: p/a.md}]\n-- p/a.md --\nOne\nTwo {{.Diffstat}}\n")
	_, err := Load(filepath.Join(dir, "loop.yaml"))
	if want := filepath.Join(dir, "p", "a.md") + ":2: there is no .Diffstat: is .DiffStat meant?"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// In a repository a prompt may stand beside the configuration's folder, but not outside, and not behind a link.
func TestLoadPlaces(t *testing.T) {
	dir := unpack(t, "-- repo/.git/HEAD --\nx\n-- repo/conf/loop.yaml --\nloop: [{name: a, prompt_file: ../prompts/a.md}]\n-- repo/prompts/a.md --\nGo.\n"+
		"-- repo/conf/out.yaml --\nloop: [{name: a, prompt_file: ../../secret}]\n-- repo/conf/link.yaml --\nloop: [{name: a, prompt_file: link}]\n-- secret --\nhush\n")
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "repo", "conf", "link")); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(filepath.Join(dir, "repo", "conf", "loop.yaml")); err != nil || c.Loop[0].prompt.text != "Go.\n" {
		t.Error(err)
	}
	for _, name := range []string{"out.yaml", "link.yaml", "gone.yaml"} {
		if _, err := Load(filepath.Join(dir, "repo", "conf", name)); err == nil {
			t.Error(name, "was read")
		}
	}
}

// A mark that an editor put before the text is no part of it.
func TestLoadByteOrderMark(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "loop: [{name: x, prompt: go}]\n", "a.json": `{"loop":[{"name":"x","prompt":"go"}]}`, "a.toml": "[[loop]]\nname = \"x\"\nprompt = \"go\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("\ufeff"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(path); err != nil || len(c.Loop) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is wrong on one line is told in the same order each time.
func TestLoadProblemsHaveAnOrder(t *testing.T) {
	dir := unpack(t, "-- a.yaml --\nloop: [{name: x, prompt: go, e: 1, d: 1, c: 1, b: 1, a: 1}]\n")
	_, err := Load(filepath.Join(dir, "a.yaml"))
	list, _ := errors.AsType[Problems](err)
	if len(list) != 5 || !slices.IsSortedFunc(list, func(a, b Problem) int { return strings.Compare(a.Text, b.Text) }) {
		t.Errorf("%v", list)
	}
}

func TestPrompt(t *testing.T) {
	data := Data{
		RunID: "r1", Phase: "code", Iteration: 2, MaxIterations: 5, WorkDir: "/w", LastOutput: "{{.RunID}}", PrevPhaseCommit: "abc",
		DiffStat: "1 file", ChangedFiles: Lines{"a.go", "b.go"},
	}
	for text, want := range map[string]string{
		"plain": "plain",
		"{{.RunID}} {{.Phase}} {{.Iteration}}/{{.MaxIterations}} {{.WorkDir}}": "r1 code 2/5 /w",
		"{{.LastOutput}}":                                        "{{.RunID}}", // what a model said is no template
		"{{.PrevPhaseCommit}} {{.DiffStat}}":                     "abc 1 file",
		"{{.ChangedFiles}}":                                      "a.go\nb.go",
		"{{range .ChangedFiles}}- {{.}} of {{$.Phase}}\n{{end}}": "- a.go of code\n- b.go of code\n",
		"{{range $i, $f := .ChangedFiles}}{{$i}}{{$f}} {{end}}":  "0a.go 1b.go ",
		`{{if eq .Iteration 1}}first{{else if and (gt .Iteration 1) .DiffStat}}again{{end}}`: "again",
		`{{with .LastOutput}}said{{end}}{{len .ChangedFiles}}`:                               "said2",
		`${{"{{"}} x }}`:     "${{ x }}",
		"{{/* nothing */}}x": "x",
	} {
		p, err := parsePrompt(text, sample)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := p.with(data); got != want || err != nil {
			t.Errorf("%s: %q, want %q (%v)", text, got, want, err)
		}
	}
}
