//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the real program does wrong, and this one must not: a test each, named after what is right.

func TestGrokNoFailureExitsZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault string
		exit  int
		args  []string
	}{
		"400":             {fault: "{status: 400, message: bad thing}", exit: 3},
		"401":             {fault: "{status: 401, message: who are you}", exit: 3},
		"403":             {fault: "{status: 403, message: not you}", exit: 3},
		"429":             {fault: "{status: 429, message: slow down}", exit: 2},
		"500":             {fault: "{status: 500, message: oops}", exit: 2},
		"503":             {fault: "{status: 503, message: later}", exit: 2},
		"529":             {fault: "{status: 529, message: busy}", exit: 2},
		"refused":         {exit: 2},
		"reset":           {fault: "{cut: text}", exit: 2},
		"max rounds":      {exit: 3, args: []string{"--max-tool-rounds", "3"}},
		"unknown session": {exit: 1, args: []string{"--session", "nope"}},
		"empty prompt":    {exit: 1, args: []string{"--prompt", ""}},
		"no key":          {exit: 1},
		"no such folder":  {exit: 1, args: []string{"-d", "nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := `{call: {tool: bash, input: {command: stray one}}, repeat: 50}`
			if c.fault != "" {
				steps = `{text: Hello there., fault: ` + c.fault + `}`
			}
			g := newGrok(t, `steps: [`+steps+`]`, c.args...)
			g.set("SLUICE_RETRIES", "0")
			switch name {
			case "refused":
				g.set("GROK_BASE_URL", "http://"+g.closed())
			case "no key":
				g.set("GROK_API_KEY", "")
			}
			g.play(c.exit)
			if g.one("error")["message"] == "" {
				t.Error("the error says nothing")
			}
			if n := len(g.only("step_start")); name == "max rounds" && n != 3 {
				t.Errorf("%d steps, want 3", n)
			}
		})
	}
	once := newGrok(t, `steps: [{text: Hello there., fault: {status: 429, headers: {retry-after-ms: "10"}, times: 1}}]`).play(0)
	if once.one("text")["text"] != "Hello there." {
		t.Error("what is tried again is no failure")
	}
}

func TestGrokEveryCallHasOneToolUse(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `
steps:
- calls:
  - {tool: teleport, input: {to: Mars}}
  - {tool: bash, raw: '{"command":"stray never'}
  - {tool: bash, input: {command: [stray, never]}}
  - {tool: bash, input: {command: stray denied}}
  - {tool: bash, input: {command: echo fine}}
- {text: Done.}`)
	g.configure("deny = [\"bash(stray *)\"]\n")
	g.play(3)
	g.has("teleport false: there is no tool", "bash false: ", `bash false: "command" must be a string`, "bash false: denied by the rule", "bash true: fine")
	raw := g.only("tool_use")[1]["toolCall"].(map[string]any)["args"].(map[string]any)["_raw"]
	if raw != `{"command":"stray never` {
		t.Errorf("what is not JSON is told as %v", raw)
	}
}

func TestGrokEveryStepIsClosed(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{"error": "{status: 500}", "cut": "{cut: text}", "signal": "{hang: text}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrok(t, `{chunk: 2, steps: [{text: Hello there., fault: `+fault+`}]}`)
			g.set("SLUICE_RETRIES", "0")
			if name != "signal" {
				g.play(2)
			} else {
				seen := make(chan struct{})
				var once sync.Once
				g.args[1] = "raw" // so that we see when it speaks
				g.start(func(_ *run, in *os.File) (all []byte) {
					lines := bufio.NewReader(in)
					for {
						line, err := lines.ReadBytes('\n')
						all = append(all, line...)
						if err != nil || strings.Contains(string(line), "text_delta") {
							once.Do(func() { close(seen) })
						}
						if err != nil {
							return all
						}
					}
				})
				<-seen
				g.signal(syscall.SIGINT)
				g.wait()
				g.ended(130)
			}
			if g.one("step_finish")["finishReason"] != "error" && name != "signal" {
				t.Errorf("it finished by %v", g.one("step_finish")["finishReason"])
			}
			if name != "error" && !strings.HasPrefix("Hello there.", g.one("text")["text"].(string)) {
				t.Error("what was said is not told")
			}
		})
	}
}

func TestGrokOneTextBeforeItsCalls(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `steps: [{content: [{text: Before.}, {call: {tool: bash, input: {command: echo hi}}}, {text: After.}]}, {text: Done.}]`)
	g.set("SLUICE_MODEL", "anthropic/scripted") // whose answers have an order
	g.set("ANTHROPIC_API_KEY", key)
	g.set("ANTHROPIC_BASE_URL", strings.TrimSuffix(g.url, "/v1"))
	g.play(0)
	var order []string
	for _, l := range g.lines {
		order = append(order, l["type"].(string))
	}
	if got := strings.Join(order, " "); got != "step_start text tool_use step_finish step_start text step_finish" {
		t.Errorf("the order is %s", got)
	}
	if text := g.only("text")[0]["text"].(string); !strings.Contains(text, "Before.") || !strings.Contains(text, "After.") {
		t.Errorf("the text is %q", text)
	}
}

// A server that never answers has a step, which can be seen before anything comes.
func TestGrokStepStartComesFirst(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `steps: [{text: Hello there., fault: {hang: start}}]`)
	first := make(chan string, 1)
	g.start(func(_ *run, in *os.File) []byte {
		lines := bufio.NewReader(in)
		line, _ := lines.ReadString('\n')
		first <- line
		rest, _ := io.ReadAll(lines)
		return append([]byte(line), rest...)
	})
	if line := <-first; !strings.HasPrefix(line, `{"type":"step_start"`) {
		t.Errorf("the first line is %s", line)
	}
	g.signal(syscall.SIGTERM)
	g.wait()
	g.ended(143)
}

func TestGrokArgumentsComeInFragments(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `{chunk: 3, steps: [{call: {tool: bash, input: {command: echo in many little pieces}}}, {text: Done.}]}`).play(0)
	g.has("bash true: in many little pieces\n")
}

func TestGrokSIGTERMIsNoSuccess(t *testing.T) {
	t.Parallel()
	for s, exit := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			g := newGrok(t, `steps: [{call: {tool: bash, input: {command: "stray one; sleep 600"}}}, {text: Done.}]`)
			g.start(nil)
			g.awaitStray("one")
			g.signal(s)
			g.wait()
			g.ended(exit)
			g.has("bash false: stopped by ")
		})
	}
}

func TestGrokToolTimeoutKillsTheGroup(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `steps: [{call: {tool: bash, input: {command: "stray one; sleep 600", timeout: 300}}}, {text: Done.}]`).play(0)
	g.has("bash false: timed out after 300ms")
}

func TestGrokBackgroundDoesNotKeepItAlive(t *testing.T) {
	t.Parallel()
	newGrok(t, `
steps:
- {call: {tool: bash, input: {command: "stray one; sleep 600", background: true}}}
- {call: {tool: bash, input: {command: "until [ -e $STRAYS/one ]; do sleep 0.01; done"}}}
- {text: Done.}`).play(0)
}

func init() { programs["talking-server"] = talkingServer }

// talkingServer is an MCP server whose tools say something, well or badly.
func talkingServer() {
	s := sdk.NewServer(&sdk.Implementation{Name: "talking", Version: "1"}, nil)
	for name, bad := range map[string]bool{"say": false, "fail": true} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: bad, Content: []sdk.Content{&sdk.TextContent{Text: "this is " + name}}}, nil
		})
	}
	_ = s.Run(context.Background(), &sdk.StdioTransport{}) // it ends when nobody is there any more
}

func TestGrokMCPOutputIsText(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `steps: [{calls: [{tool: talk_say}, {tool: talk_fail}]}, {text: Done.}]`)
	g.configure("[mcp.talk]\ncommand = [\"talking-server\"]\n[mcp.gone]\ncommand = [\"no-such-server\"]\n")
	g.play(0)
	g.has("talk_say true: this is say", "talk_fail false: this is fail")
	if said := g.errs.String(); !strings.HasPrefix(said, "sluice: ") || !strings.Contains(said, "gone") {
		t.Errorf("of the server that is missing it says %q", said)
	}
}

func TestGrokHooks(t *testing.T) {
	t.Parallel()
	const steps = `
steps:
- calls: [{tool: write_file, input: {path: a.txt, content: hi}}, {tool: edit_file, input: {path: b.txt, old_string: b, new_string: c}}]
- {text: Done.}`
	g := newGrok(t, steps)
	g.write("work/b.txt", "b\n")
	g.configure("hooks.before_tool = [[\"false\"]]\n")
	g.play(3)
	g.has("write_file false: ", "edit_file false: ")
	if now, _ := os.ReadFile(g.path("work/b.txt")); string(now) != "b\n" || exists(g.path("work/a.txt")) {
		t.Error("what a hook blocked was done")
	}
	big := newGrok(t, strings.Replace(steps, "content: hi", `content: "`+strings.Repeat("much ", 50_000)+`"`, 1))
	big.write("work/b.txt", "b\n")
	big.configure("hooks.before_tool = [[\"true\"]]\n") // it reads nothing of what it is told
	big.play(0)
	big.has("write_file true: ", "edit_file true: ")
}

func TestGrokJSONOutputIsByteForByte(t *testing.T) {
	t.Parallel()
	text := `{"a" : [1,  2, 3], "long": "` + strings.Repeat("x", 2000) + `", "u": "\u00e9", "a": null}`
	g := newGrok(t, `steps: [{call: {tool: bash, input: {command: cat data.json}}}, {text: Done.}]`)
	g.write("work/data.json", text)
	g.play(0)
	if got := g.only("tool_use")[0]["toolResult"].(map[string]any)["output"]; got != text {
		t.Errorf("the output is %q", got)
	}
	told, _ := json.Marshal(text)
	if !strings.Contains(g.asked()[1], string(told)) {
		t.Error("the model was told something else")
	}
}

// Neither key nor model of a flag is written down, and a repository cannot send the key elsewhere.
func TestGrokNothingGivenByFlagIsKept(t *testing.T) {
	t.Parallel()
	const given = "sk-given-by-flag-0123456789"
	thief := newGrok(t, greets)
	g := newGrok(t, greets)
	g.set("GROK_API_KEY", "")
	g.set("GROK_BASE_URL", "")
	g.write("work/.env", "GROK_BASE_URL="+thief.url+"\nGROK_API_KEY=other\nGROK_MODEL=other\n")
	g.args = append(g.args, "-k", given, "-m", "grok-of-today", "-u", g.serveFor(given, `steps: [{call: {tool: bash, input: {command: "env; cat /proc/$PPID/cmdline | tr '\\0' ' '; set"}}}, {text: "The key is `+given+`."}]`))
	g.play(0)
	if len(thief.asked()) > 0 {
		t.Error("the repository's server was asked")
	}
	if strings.Contains(string(g.out)+g.errs.String(), given) {
		t.Error("the key is shown")
	}
	if text := g.only("text")[0]["text"].(string); !strings.HasPrefix(text, "The key is ") {
		t.Errorf("it said %q", text)
	}
	err := filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), given) {
			t.Errorf("the key is in %s", path)
		}
		if strings.Contains(string(data), "grok-of-today") && filepath.Base(path) != "journal.ndjson" {
			t.Errorf("the model is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	g.args = []string{"--format", "json", "--prompt", "go"}
	g.gone = make(chan struct{})
	g.play(1) // the next run knows nothing of it
}

func TestGrokClosedStdoutIsAQuietEnd(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `{chunk: 2, delay: 20ms, steps: [{text: "`+strings.Repeat("All work and no play. ", 200)+`"}]}`, "--format", "raw")
	g.start(func(_ *run, in *os.File) []byte {
		line, _ := bufio.NewReaderSize(in, 16).ReadBytes('\n')
		in.Close()
		return line
	})
	g.wait()
	if g.exit != 141 || g.errs.String() != "sluice: cancelled: the reader closed the pipe\n" {
		t.Errorf("exit %d, and it says %q", g.exit, g.errs.String())
	}
	if crash, _ := filepath.Glob(g.path("home/*")); len(crash) > 0 {
		t.Errorf("it left %q", crash)
	}
}

// Who adds up the steps has what sub-agents used, too, and what they cost; the parent waits for them.
func TestGrokSubAgentsAreCounted(t *testing.T) {
	t.Parallel()
	g := newGrok(t, `
usage: {input: 1000, output: 100}
conversations:
- {when: {prompt: ^Child}, steps: [{call: {tool: bash, input: {command: sleep 0.2; echo hi}}}, {text: The child is done.}]}
steps: [{call: {tool: task, input: {description: child, prompt: Child.}}}, {text: All done.}]`, "-m", "grok-4-fast").play(0)
	g.has("task true: The child is done.")
	var total, ticks float64
	for _, l := range g.only("step_finish") {
		u := l["usage"].(map[string]any)
		total += u["totalTokens"].(float64)
		ticks += u["costUsdTicks"].(float64)
	}
	if total != 4*1100 || ticks != 4*250 {
		t.Errorf("%v tokens, %v ticks", total, ticks)
	}
}

func TestGrokBadNumbersAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--max-tool-rounds", "abc"}, {"--max-tool-rounds", "0"}, {"--max-tool-rounds", "-5"}, {"--format", "xml"}, {"--nonsense"}, {"a prompt without its flag"},
		{"--sandbox", "--no-sandbox"},
	} {
		g := newGrok(t, greets, args...)
		g.start(nil)
		g.wait()
		if g.exit != 1 || len(g.out) > 0 || !strings.Contains(g.errs.String(), "sluice: hint: ") || len(g.asked()) > 0 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, g.exit, g.out, g.errs.String())
		}
	}
}
