//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Whatever is wrong with what was typed, once the flags are read: the stream is whole, says what it is, and the exit code is not 0.
func TestAictrlStartFailures(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long/", 20_000) + "gone.txt"
	for name, c := range map[string]struct {
		args   []string
		env    string
		says   string
		reason string
		model  string
	}{
		"bad dir":            {args: []string{"--dir", "/nowhere/at/all", "x"}, says: "no such file"},
		"dir is a file":      {args: []string{"--dir", "a.txt", "x"}, says: "is not a folder"},
		"missing file":       {args: []string{"-f", "gone.txt", "x"}, says: "gone.txt: no such file"},
		"missing long file":  {args: []string{"-f", long, "x"}, says: "name too long"},
		"unknown session":    {args: []string{"-s", "ses_nobody", "x"}, says: `"ses_nobody"`},
		"strange session":    {args: []string{"-s", "../../x", "x"}, says: `"../../x"`},
		"empty input":        {says: "there is no prompt (aictrl run --help)"},
		"blank input":        {args: []string{"  "}, says: "there is no prompt"},
		"bad model":          {args: []string{"-m", "nonsense", "x"}, says: "nonsense", model: "nonsense"},
		"unknown provider":   {args: []string{"-m", "nobody/nothing", "x"}, says: "nobody", model: "nobody/nothing"},
		"no key":             {args: []string{"x"}, env: "ANTHROPIC_API_KEY=", says: "ANTHROPIC_API_KEY", reason: "auth"},
		"unknown agent":      {args: []string{"--agent", "reviewer", "x"}, says: `there is no agent "reviewer"`},
		"unknown command":    {args: []string{"--command", "deploy", "x"}, says: `there is no command "deploy"`},
		"rules, no JSON":     {args: []string{"x"}, env: "AICTRL_PERMISSION={bash", says: "AICTRL_PERMISSION: it is not JSON"},
		"rules, wrong word":  {args: []string{"x"}, env: `AICTRL_PERMISSION={"bash":"never"}`, says: `the action of "bash" is "never"`},
		"rules, nobody asks": {args: []string{"x"}, env: `AICTRL_PERMISSION={"bsah":"deny"}`, says: `nobody asks for the permission "bsah": perhaps bash`},
		"bad configuration":  {args: []string{"x"}, env: "SLUICE_RETRIES=many", says: "SLUICE_RETRIES"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, greets, c.args...)
			a.put("work/a.txt", "one\n")
			if variable, value, ok := strings.Cut(c.env, "="); ok {
				a.set(variable, value)
			}
			a.play(1)
			if c.model == "" {
				c.model = "anthropic/scripted"
			}
			if c.reason == "" {
				c.reason = "unknown"
			}
			if got := a.one("session_start")["model"]; got != c.model {
				t.Errorf("the model is %v, want %s", got, c.model)
			}
			e := a.one("session_error")
			if e["reason"] != c.reason {
				t.Errorf("the reason is %v, want %s", e["reason"], c.reason)
			}
			a.says(e["message"], c.says)
			a.says(a.one("session_complete")["error"], c.says)
			if len(a.asked()) != 0 {
				t.Error("the model was asked all the same")
			}
			if len(a.out) > 10_000 {
				t.Errorf("it takes %d bytes to say so", len(a.out))
			}
		})
	}
}

// The reason and the code of a run that something stopped.
func TestAictrlReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault, reason, code string
		exit                int
	}{
		"400":            {"{status: 400, message: bad}", "provider", "400", 3},
		"overflow":       {`{status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum"}`, "provider", "400", 3},
		"401":            {"{status: 401, message: who}", "auth", "401", 3},
		"403":            {"{status: 403, message: no}", "auth", "403", 3},
		"429":            {"{status: 429, message: slow}", "rate_limit", "429", 2},
		"500":            {"{status: 500, message: oops}", "provider", "500", 2},
		"529":            {"{status: 529, message: busy}", "provider", "529", 2},
		"cut":            {"{cut: text}", "provider", "", 2},
		"malformed":      {"{malformed: true}", "provider", "", 2},
		"error in there": {"{in_stream: overloaded_error}", "provider", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, "steps: [{text: Hello there., fault: "+c.fault+"}]", "go")
			a.set("SLUICE_RETRIES", "0")
			a.play(c.exit)
			e := a.one("session_error")
			if code, _ := e["code"].(string); e["reason"] != c.reason || c.code != "" && code != c.code {
				t.Errorf("it ends with %v", e)
			}
			if starts, ends := len(a.only("step_start")), len(a.only("step_finish")); starts != ends {
				t.Errorf("%d steps begin, %d end", starts, ends)
			}
		})
	}
}

// --continue goes on with the last session of the folder, --session with a named one; numbers go on, too.
func TestAictrlGoesOn(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `steps: [{text: One.}, {text: Two.}, {text: Three.}]`, "--title", "my run", "first")
	a.play(0)
	id := a.lines[0]["sessionID"].(string)
	if !strings.HasPrefix(id, "ses_") {
		t.Errorf("the session is called %s", id)
	}
	for i, args := range [][]string{{"--continue", "second"}, {"-s", id, "third"}} {
		b := a.again(args...)
		b.play(0)
		if got := b.lines[0]["sessionID"]; got != id {
			t.Errorf("%v goes on with %v, want %s", args, got, id)
		}
		text := b.one("text")
		if want := []string{"Two.", "Three."}[i]; at(text, "part", "text") != want || text["sequenceNum"] != float64(i+2) {
			t.Errorf("%v says %v, want %s", args, text, want)
		}
	}
	if requests := a.asked(); len(requests) != 3 || !strings.Contains(requests[2], "first") || !strings.Contains(requests[2], "third") {
		t.Errorf("the model was told %s", requests)
	}
	a.session = id
	if data, err := os.ReadFile(a.journal()); err != nil || !strings.Contains(string(data), `"label":"my run"`) {
		t.Errorf("the title is lost: %v", err)
	}
}

// No number of a session is used twice, also if only some of its runs show what the model thinks.
func TestAictrlNumbersGoOnWithoutThoughts(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `steps: [{thinking: Hm., text: One.}, {thinking: Hm., text: Two.}, {thinking: Hm., text: Three.}]`, "--thinking", "first")
	a.set("SLUICE_THINKING", "low")
	a.play(0)
	last := a.one("text")["sequenceNum"].(float64)
	if last != 2 {
		t.Errorf("the first text is number %v", last)
	}
	for _, args := range [][]string{{"-c", "second"}, {"-c", "--thinking", "third"}} {
		b := a.again(args...)
		b.play(0)
		for _, l := range b.lines {
			if n, ok := l["sequenceNum"].(float64); ok && n <= last {
				t.Errorf("%v: %v has number %v, and %v was told before", args, l["type"], n, last)
			} else if ok {
				last = n
			}
		}
	}
}

// A folder in which nothing ran yet has no session to go on with: a new one begins, and that is told.
func TestAictrlContinuesWithANewSession(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, greets, "-c", "hello").play(0)
	a.says(a.errs.String(), "a new one begins")
}

// What stands on stdin follows the message.
func TestAictrlStdin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, input, want string }{
		"behind a message": {"review this", "the diff\n", `review this\n\nthe diff`},
		"alone":            {"", "just this\n", `"just this"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, greets)
			cmd := exec.Command("aictrl", "run", "--format", "json", c.args)
			cmd.Env, cmd.Dir, cmd.Stdin = a.env, a.path("work"), strings.NewReader(c.input)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			a.lint(a.dialect, out)
			if requests := a.asked(); len(requests) != 1 || !strings.Contains(requests[0], c.want) {
				t.Errorf("the model was told %s", requests)
			}
		})
	}
}

// Files go with the message; with --dir they are looked for there, where the work is done.
func TestAictrlDirAndFiles(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `steps: [{call: {tool: bash, input: {command: pwd}}}, {text: Done.}]`, "--dir", "inner", "-f", "note.txt", "--file", "more.txt", "read them")
	a.put("work/inner/note.txt", "remember the milk")
	a.put("work/inner/more.txt", "and the bread")
	a.play(0)
	a.says(at(a.one("tool_use"), "part", "state", "metadata", "output"), "/work/inner\n")
	if requests := a.asked(); !strings.Contains(requests[0], "remember the milk") || !strings.Contains(requests[0], "and the bread") {
		t.Errorf("the model was told %s", requests[0])
	}
}

// --command applies a skill: its text is what the model is told, with the message as arguments.
func TestAictrlCommand(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, greets, "--command", "greet", "the", "world")
	a.put("home/.claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets\n---\nSay hello to $ARGUMENTS!\n")
	a.play(0)
	a.one("skill_loaded")
	if requests := a.asked(); !strings.Contains(requests[0], "Say hello to the world!") {
		t.Errorf("the model was told %s", requests[0])
	}
}

// A profile is named in the first line, with all its rules, and in every message; its rules hold, and so do its tools.
func TestAictrlAgent(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `steps: [{call: {tool: bash, input: {command: id}}}, {text: No.}]`, "--agent", "reviewer", "go")
	a.put("home/sluice/agents/reviewer.md", "---\ndescription: reviews\ndeny: [\"bash\"]\n---\nYou review.\n")
	a.set("AICTRL_PERMISSION", `{"bash":"allow"}`)
	a.play(5)
	start := fmt.Sprint(a.one("session_start"))
	if !strings.Contains(start, "agent:reviewer") || !strings.Contains(start, "map[action:deny pattern:* permission:bash]") {
		t.Errorf("it begins with %s", start)
	}
	for _, m := range a.only("message_complete") {
		if m["agent"] != "reviewer" {
			t.Errorf("a message is of %v", m["agent"])
		}
	}
	a.one("permission_rejected")
	if requests := a.asked(); !strings.Contains(requests[0], "You review.") {
		t.Error("the model was not told who it is")
	}
	for _, name := range []string{"default", "build"} {
		b := newAictrl(t, greets, "--agent", name, "go").play(0)
		if got := b.one("session_start")["agent"]; got != "default" {
			t.Errorf("--agent %s is %v", name, got)
		}
	}
}

// Without --format json it is text for a person, as through any other name.
func TestAictrlDefaultFormat(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"by its name": {"aictrl", "run", "hello"}, "as a word": {"sluice", "as", "aictrl", "run", "--format", "default", "hello"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, greets)
			a.program, a.args = args[0], args[1:]
			a.start(nil)
			a.wait()
			if a.exit != 0 || !strings.Contains(string(a.out), "Hello there.") || strings.Contains(string(a.out), "{") {
				t.Errorf("exit %d\n%s\n%s", a.exit, a.out, a.errs.Bytes())
			}
		})
	}
}

// "aictrl events" describes the stream; its version is that of the first line.
func TestAictrlEvents(t *testing.T) {
	t.Parallel()
	say := func(args ...string) string {
		out, err := exec.Command("aictrl", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if v := say("events", "--schema-version"); v != "1\n" {
		t.Errorf("the version is %q", v)
	}
	text := say("events")
	for typ, fields := range aictrlDocument {
		if !strings.Contains(text, "`"+typ+"`") {
			t.Errorf("nothing is said of %s", typ)
		}
		for field := range strings.FieldsSeq(fields) {
			if name := field[strings.LastIndexByte(field, '.')+1:]; !strings.Contains(text, name) {
				t.Errorf("nothing is said of %s in %s", name, typ)
			}
		}
	}
}

// A file of models that is none is told in one line, and changes nothing.
func TestAictrlBadModelsFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, says string }{
		"missing":  {"", "no such file or directory"},
		"not JSON": {"<html>", "it is not a JSON object"},
		"a list":   {"[]", "it is not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, greets, "hello")
			a.set("AICTRL_MODELS_PATH", a.path("home/models.json"))
			if c.text != "" {
				a.put("home/models.json", c.text)
			}
			a.play(0)
			if said := a.errs.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "AICTRL_MODELS_PATH is left alone") || !strings.Contains(said, c.says) {
				t.Errorf("stderr: %s", said)
			}
			if a.one("message_complete")["context"] != nil {
				t.Error("there is a context all the same")
			}
		})
	}
}

// A model that knows aictrl names the kind of every sub-agent: general is the one that has no profile, and no other name is.
func TestAictrlGeneralSubAgent(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `
steps:
- calls:
  - {id: one, tool: task, input: {description: look, prompt: Look around., subagent_type: general}}
  - {id: two, tool: task, input: {description: look, prompt: Look around., subagent_type: generous}}
- {text: Done.}
conversations: [{when: {prompt: Look around}, steps: [{text: I looked.}]}]`, "Do it.").play(0)
	for _, l := range a.only("tool_use") {
		want := map[any]string{"one": "completed", "two": "error"}[at(l, "part", "callID")]
		if at(l, "part", "state", "status") != want {
			t.Errorf("%v, want %s", l, want)
		}
	}
	if at(a.one("subagent_start"), "title") != "look" || len(a.only("tool_use")) != 2 {
		t.Errorf("the calls are %v", a.only("tool_use"))
	}
}
