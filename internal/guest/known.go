package guest

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/spell"
)

// A known is a guest that we know how to start.
type known struct {
	name    string
	backend string // its name where backends have one
	dialect string // of its lines
	command func(c Config, resume string) []string
	speak   func(s *Session, resume string) tongue
	leaves  bool // its exit code says something: it leaves on its own when its stdin ends
	unasked bool // it asks nobody before it acts

	linger   time.Duration // it writes down what it said a moment after it has said it
	terminal bool          // it is on a terminal
	channel  bool          // and has a channel
}

// guests are those that have a name. A backend of the name claude is the terminal, in the words of the specification.
var guests = []known{
	{name: "claude", backend: "claude-stream", dialect: "claude", command: claudeCommand, speak: newClaude, leaves: true},
	{name: "claude-tui", backend: "claude", dialect: "claude-transcript", command: tuiCommand, speak: newTUI, terminal: true},
	{name: "claude-channel", backend: "claude-channel", dialect: "claude-transcript", command: channelCommand, speak: newChannel, terminal: true, channel: true},
	{name: "codex", backend: "codex", dialect: "codex-app-server", command: codexCommand, speak: newCodex, leaves: true},
	acpGuest("claude-acp", "claude-agent-acp"),
	acpGuest("opencode", "opencode", "acp"),
	{name: "gemini", backend: "gemini", dialect: "acp", speak: newACP, command: func(c Config, _ string) []string {
		return flag([]string{"gemini", "--acp", "--approval-mode", "default"}, "-m", c.Model)
	}},
	{name: "qwen", backend: "qwen", dialect: "acp", speak: newACP, linger: time.Second, command: func(c Config, _ string) []string {
		return flag([]string{"qwen", "--acp", "--approval-mode", "default"}, "-m", c.Model)
	}},
	{name: "pi", backend: "pi", dialect: "pi", command: piCommand, speak: newPi, leaves: true, unasked: true},
}

func acpGuest(name string, command ...string) known {
	return known{name: name, backend: name, dialect: "acp", speak: newACP, command: func(Config, string) []string { return slices.Clone(command) }}
}

// flag adds a flag that has a value.
func flag(args []string, name, value string) []string {
	if value == "" {
		return args
	}
	return append(args, name, value)
}

func claudeCommand(c Config, resume string) []string {
	args := []string{
		"claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
		"--permission-prompt-tool", "stdio", "--permission-mode", "default", // in which it asks, whatever the user has set
	}
	args = flag(args, "--model", c.Model)
	args = flag(args, "--agent", c.Profile)
	return flag(args, "--resume", resume)
}

// Names are the guests that have one.
func Names() []string {
	var names []string
	for _, k := range guests {
		names = append(names, k.name)
	}
	return names
}

// parse reads the name of a guest, or acp: and a command.
func parse(spec string) (known, error) {
	if rest, ok := strings.CutPrefix(spec, "acp:"); ok {
		args, err := words(rest)
		switch {
		case err != nil:
			return known{}, err
		case len(args) == 0:
			return known{}, errors.New("acp: names no command: write it as in acp:opencode acp")
		}
		k := acpGuest(args[0], args...)
		k.backend = "acp"
		return k, find(args[0])
	}
	for _, k := range guests {
		if k.name == spec {
			return k, find(k.command(Config{}, "")[0])
		}
	}
	hint := "write acp: and a command, or one of " + strings.Join(Names(), ", ")
	if near := spell.Nearest(spec, Names()); near != "" {
		hint = "did you mean " + near + "?"
	}
	return known{}, fmt.Errorf("no agent is called %q: %s", spec, hint)
}

// find says whether a program is there.
func find(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s is not installed, or not in PATH", program)
	}
	return nil
}

// words splits a command line. Quotes hold words together; nothing in it is a variable, a pattern or anything else.
func words(line string) (list []string, err error) {
	var (
		word  strings.Builder
		open  bool // a word has begun
		quote rune
		slash bool
	)
	for _, r := range line {
		switch {
		case slash:
			word.WriteRune(r)
			slash = false
		case r == '\\' && quote != '\'':
			open, slash = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			open, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				list = append(list, word.String())
				word.Reset()
			}
			open = false
		default:
			open = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || slash {
		return nil, fmt.Errorf("the command %q is not whole: close its quote", line)
	}
	if open {
		list = append(list, word.String())
	}
	return list, nil
}

// markers are what agents leave in the environment of their children. An agent that finds them believes that it is in another.
var markers = []string{"CLAUDECODE", "GEMINI_CLI", "QWEN_CODE", "OPENCODE", "OPENCODE_CLIENT", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID"}

// settings are variables that begin like claude's markers and are the user's own.
var settings = []string{
	"CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_API_KEY", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_DISABLE_", "CLAUDE_CODE_ENABLE_",
	"CLAUDE_CODE_MAX_", "CLAUDE_CODE_CLIENT_", "CLAUDE_CODE_SHELL", "CLAUDE_CODE_SUBAGENT_MODEL", "CLAUDE_CODE_EFFORT",
}

// environment is ours without what would make a guest believe that it is not alone, and with what keeps it from waiting for a person.
func environment(ours []string) []string {
	var env []string
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		mark := slices.Contains(markers, name) || strings.HasPrefix(name, "CLAUDE_") && !slices.ContainsFunc(settings, func(p string) bool { return strings.HasPrefix(name, p) })
		if !mark && name != "NO_COLOR" && name != "TERM" {
			env = append(env, kv)
		}
	}
	return append(env, "NO_COLOR=1", "TERM=dumb")
}
