//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// fatal sees to it that the conversation never begins: one error that is about no message, and exit 1.
func (a *talk) fatal(words string) {
	a.Helper()
	l := a.spawn().expect("error")
	a.finish(1)
	if msg, there := l["msg_id"]; msg != nil || !there || len(a.told) != 1 {
		a.Errorf("%s: %v", a.types(), l)
	}
	a.wants(l, "error.code", "config_error")
	a.wants(l, "error.retryable", false)
	if fault, _ := l["error"].(line); !strings.Contains(fmt.Sprint(fault["message"]), words) {
		a.Errorf("it does not say %q: %v", words, l)
	}
}

func TestAionrsFatalStarts(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		words string
		with  func(*talk)
	}{
		"no key":             {nil, "ANTHROPIC_API_KEY", func(a *talk) { a.set("ANTHROPIC_API_KEY", "") }},
		"no such provider":   {[]string{"--provider", "anthropc"}, `there is no provider "anthropc"`, nil},
		"no model":           {[]string{"--model", ""}, "without --model", nil},
		"resume missing":     {[]string{"--resume", "no-such-conv"}, "no-such-conv", nil},
		"resume latest":      {[]string{"--resume", "latest"}, "no session", nil},
		"resume nothing":     {[]string{"--resume", ""}, "--resume needs the name", nil},
		"new without a name": {[]string{"--session-id", ""}, "--session-id needs the name", nil},
		"resume and new":     {[]string{"--resume", "a", "--session-id", "b"}, "--resume", nil},
		"bad session id":     {[]string{"--session-id", "../x"}, "cannot name a session", nil},
		"no such workspace":  {[]string{"--workspace", "nowhere"}, "nowhere", nil},
		"negative max-turns": {[]string{"--max-turns", "-1"}, "max-turns", nil},
		"bad address":        {[]string{"--provider", "openai", "--base-url", "nowhere"}, "nowhere", nil},
		"a rule that is none": {nil, "no closing parenthesis", func(a *talk) {
			a.configure("allow = [\"bash(\"]\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTalk(t, "", c.args...)
			if c.with != nil {
				c.with(a)
			}
			a.fatal(c.words)
		})
	}
}

// A session goes on where it was, under its name or as the latest; a name is taken once; one that cannot be resumed is free.
func TestAionrsSessions(t *testing.T) {
	t.Parallel()
	a := newTalk(t, `steps: [{text: One.}, {text: Two.}, {text: Three.}, {text: Four.}]`, "--session-id", "conv-1").open()
	a.reply("m1", "remember PLUM-42")
	a.term()
	a.again("--session-id", "conv-1").fatal("conv-1")
	for i, id := range []string{"conv-1", "latest"} {
		b := a.again("--resume", id)
		b.wants(b.spawn().expect("ready"), "session_id", "conv-1")
		b.reply("m1", "what was it?") // a client may count anew
		b.model("remember PLUM-42")
		if got := strings.Count(b.sent(), `"role":"assistant"`); got != i+1 {
			t.Errorf("the model is sent %d answers", got)
		}
		b.close(0)
	}
	a.again("--resume", "conv-2").fatal("conv-2")
	a.again("--session-id", "conv-2").open().close(0)
}

// The command lines of the document, as they stand there.
func TestAionrsCommandLines(t *testing.T) {
	t.Parallel()
	a := newTalk(t, `{chunk: 5, steps: [{text: One.}, {text: Two.}]}`)
	shell := func(of *talk, text string) *talk { of.shell, of.args = text, nil; return of }
	first := shell(a.again(), `aionrs --json-stream \
    --provider anthropic \
    --model claude-sonnet-4-20250514 \
    --max-tokens 8192 \
    --max-turns 30`).open()
	first.reply("m1", "Hello")
	first.model(`"model":"claude-sonnet-4-20250514"`)
	first.model(`"max_tokens":8192`)
	first.close(0)
	for i, text := range []string{
		"aionrs --json-stream --session-id my-conv-123 --provider openai --model gpt-4o",
		"aionrs --json-stream --resume my-conv-123 --provider openai --model gpt-4o",
	} {
		b := shell(a.again(), text)
		b.wants(b.spawn().expect("ready"), "session_id", "my-conv-123")
		b.reply(fmt.Sprint("m", i), "Hello")
		b.model(`"model":"gpt-4o"`)
		b.close(0)
	}
}

// All flags, at each of the providers that the document names.
func TestAionrsProviders(t *testing.T) {
	for name, with := range map[string]func(a *talk, url string){
		"anthropic": func(*talk, string) {},
		"openai":    func(*talk, string) {},
		"bedrock": func(a *talk, url string) {
			for k, v := range map[string]string{"ANTHROPIC_BEDROCK_BASE_URL": url, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET"} {
				a.set(k, v)
			}
		},
		"vertex": func(a *talk, url string) {
			for k, v := range map[string]string{"ANTHROPIC_VERTEX_BASE_URL": url, "VERTEX_PROJECT_ID": "p", "VERTEX_REGION": "r", "GOOGLE_APPLICATION_CREDENTIALS": account(a.T, url)} {
				a.set(k, v)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTalk(t, `steps: [{call: {tool: Bash, input: {command: pwd}}}, {text: Done.}]`)
			url := a.getenv("ANTHROPIC_BASE_URL")
			with(a, url)
			if err := os.Mkdir(a.path("other"), 0o700); err != nil {
				t.Fatal(err)
			}
			a.shell = `aionrs --json-stream \
  --provider ` + name + ` \
  --model m \
  --max-tokens 4096 \
  --max-turns 7 \
  --base-url ` + url + ` \
  --system-prompt "Speak of PLUM-42 only." \
  --auto-approve          \
  --workspace ` + a.path("other")
			a.args = nil
			a.open().message("m1", "where?")
			r := a.expect("stream_start", "tool_running", "tool_result")
			if out, _ := r["output"].(string); !strings.HasSuffix(strings.TrimSpace(out), "/other") {
				t.Errorf("%v", r)
			}
			a.until("stream_end")
			a.model("Speak of PLUM-42 only.")
			a.model("4096")
			a.close(0)
		})
	}
}

// What the real client asks before it starts a conversation; and what a person is told who starts none.
func TestAionrsAsides(t *testing.T) {
	t.Parallel()
	a := newTalk(t, "")
	call := func(args ...string) (string, error) {
		cmd := exec.Command("aionrs", args...)
		cmd.Env = a.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := call("--version"); err != nil || !strings.HasPrefix(out, "aionrs 0.1.0 (sluice ") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := call("--config-path"); err != nil || strings.TrimSpace(out) != a.path("home/sluice/config.toml") {
		t.Errorf("%q, %v", out, err)
	}
	for _, args := range [][]string{{}, {"hello"}, {"--json-stream", "hello"}, {"--no-such-flag"}} {
		out, err := call(args...)
		if err == nil || !strings.HasPrefix(out, "sluice: ") || !strings.Contains(out, "sluice: hint: aionrs") {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

func (r *run) getenv(name string) string {
	for _, kv := range r.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
