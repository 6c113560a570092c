//go:build interop && linux

package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// An agent is one of other people's: how it is set up for a scripted model, what its tools are called, and how it is run without us.
type agent struct {
	name  string // as sluice drive knows it
	set   string // of packages
	model string // for --model
	setup func(w *world)

	shell func(command string) call
	write func(file, text string) call
	read  func(file string) call

	direct func(prompt string, everything bool) []string // nil: it has no such way
	seeded bool                                          // it puts an answer into a new conversation that nobody gave
	rest   func()                                        // what it needs between two runs of one session
	flags  []string                                      // of sluice drive, whatever the situation is
	cannot map[string]string                             // situations that it cannot be in, and why
}

// A call is one of the scripted model's.
type call struct {
	tool  string
	input map[string]any
}

func (c call) String() string {
	in, _ := json.Marshal(c.input)
	return fmt.Sprintf("{tool: %s, input: %s}", c.tool, in)
}

// Agents of ours that share a claude share this.
func claudeSetup(w *world) {
	w.set("ANTHROPIC_BASE_URL="+w.base, "ANTHROPIC_API_KEY=sk-ant-dummy-0123456789012345678901234567890123456789", "ANTHROPIC_MODEL=claude-sonnet-4-5",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1", "IS_SANDBOX=1")
}

func claudeShell(command string) call {
	return call{"Bash", map[string]any{"command": command, "description": "a command"}}
}

func claudeWrite(file, text string) call {
	return call{"Write", map[string]any{"file_path": file, "content": text}}
}

func claudeRead(file string) call { return call{"Read", map[string]any{"file_path": file}} }

var claude = agent{
	name: "claude", set: "claude", model: "claude-sonnet-4-5", setup: claudeSetup, shell: claudeShell, write: claudeWrite, read: claudeRead,
	direct: func(prompt string, everything bool) []string {
		args := []string{"claude", "-p", prompt, "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"}
		if everything {
			args = append(args, "--dangerously-skip-permissions")
		}
		return args
	},
}

// On a terminal it wants to be greeted by a person, once, unless its settings say that this was done.
func terminalSetup(w *world) {
	claudeSetup(w)
	key := w.value("ANTHROPIC_API_KEY")
	write(w.t, filepath.Join(w.home, ".claude.json"),
		fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark","customApiKeyResponses":{"approved":[%q],"rejected":[]}}`, key[len(key)-20:]))
}

var claudeTUI = agent{
	name: "claude-tui", set: "claude", model: "claude-sonnet-4-5", setup: terminalSetup, shell: claudeShell, write: claudeWrite, read: claudeRead,
}

var claudeChannel = agent{
	name: "claude-channel", set: "claude", model: "claude-sonnet-4-5", setup: terminalSetup, shell: claudeShell, write: claudeWrite, read: claudeRead,
}

var claudeACP = agent{
	name: "claude-acp", set: "claude-acp", setup: claudeSetup, shell: claudeShell, write: claudeWrite, read: claudeRead,
}

func codexShell(command string) call {
	return call{"exec_command", map[string]any{"cmd": command}}
}

// It has no tool for files: it writes by a patch, which is given to its shell, and reads as a shell does.
var codex = agent{
	name: "codex", set: "codex",
	setup: func(w *world) {
		home := filepath.Join(w.home, ".codex") // not in the temporary folder, where it does not want to be
		w.set("CODEX_HOME="+home, "MOCK_KEY=dummy")
		write(w.t, filepath.Join(home, "config.toml"), strings.ReplaceAll(`model = "gpt-5-codex"
model_provider = "mock"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.mock]
name = "mock"
base_url = "BASE/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
`, "BASE", w.base))
	},
	shell: codexShell,
	write: func(file, text string) call {
		lines := strings.ReplaceAll("+"+strings.TrimSuffix(text, "\n"), "\n", "\n+")
		return codexShell("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: " + file + "\n" + lines + "\n*** End Patch\nEOF")
	},
	read: func(file string) call { return codexShell("cat " + file) },
	direct: func(prompt string, everything bool) []string {
		args := []string{"codex", "exec", "--json", "--skip-git-repo-check"}
		if everything {
			return append(args, "--dangerously-bypass-approvals-and-sandbox", prompt)
		}
		return append(args, "-s", "read-only", prompt) // else it may write in the project
	},
}

var opencode = agent{
	name: "opencode", set: "opencode",
	setup: func(w *world) {
		w.set("OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_SHARE=1")
		write(w.t, filepath.Join(w.project, "opencode.json"), strings.ReplaceAll(`{"$schema":"https://opencode.ai/config.json","autoupdate":false,"share":"disabled",
 "model":"mock/mock-model","small_model":"mock/mock-model","snapshot":false,"permission":{"edit":"ask","bash":"ask","webfetch":"ask"},
 "provider":{"mock":{"npm":"@ai-sdk/openai-compatible","name":"Mock","options":{"baseURL":"BASE/v1","apiKey":"dummy"},
  "models":{"mock-model":{"name":"Mock","limit":{"context":200000,"output":32000}}}}}}`, "BASE", w.base))
	},
	shell: func(command string) call {
		return call{"bash", map[string]any{"command": command, "description": "a command"}}
	},
	write: func(file, text string) call {
		return call{"write", map[string]any{"filePath": file, "content": text}}
	},
	read: func(file string) call { return call{"read", map[string]any{"filePath": file}} },
	direct: func(prompt string, everything bool) []string {
		args := []string{"opencode", "run", "--format", "json", "-m", "mock/mock-model", prompt}
		if everything { // what the configuration asks about is allowed for once
			args = append([]string{"env", `OPENCODE_PERMISSION={"edit":"allow","bash":"allow"}`}, args...)
		}
		return args
	},
}

// The children of one company have the same settings and tools.
func geminiLike(name string) agent {
	return agent{
		name: name, set: name,
		shell: func(command string) call {
			return call{"run_shell_command", map[string]any{"command": command, "description": "a command", "is_background": false}}
		},
		write: func(file, text string) call {
			return call{"write_file", map[string]any{"file_path": file, "content": text}}
		},
		read: func(file string) call {
			return call{"read_file", map[string]any{"file_path": file}}
		},
	}
}

var gemini = func() agent {
	a := geminiLike("gemini")
	a.model = "gemini-2.5-pro"
	a.setup = func(w *world) {
		w.set("GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL="+w.base, "GEMINI_CLI_TRUST_WORKSPACE=true")
		write(w.t, filepath.Join(w.home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},
 "general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"telemetry":{"enabled":false}}`)
	}
	// It opens an old session by beginning a new one under its name, in a file that is called after the minute: within the minute in
	// which the session began the old one is overwritten.
	a.rest = func() { time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second))) }
	a.direct = func(prompt string, everything bool) []string {
		args := []string{"gemini", "-p", prompt, "--output-format", "stream-json", "-m", "gemini-2.5-pro"}
		if everything {
			args = append(args, "--yolo")
		}
		return args
	}
	return a
}()

var qwen = func() agent {
	a := geminiLike("qwen")
	a.seeded = true
	a.setup = func(w *world) {
		w.set("OPENAI_API_KEY=dummy", "OPENAI_BASE_URL="+w.base+"/v1", "OPENAI_MODEL=mock-model",
			"HTTPS_PROXY=", "https_proxy=") // it would ask the proxy for what is here, too
		write(w.t, filepath.Join(w.home, ".qwen", "settings.json"), `{"security":{"auth":{"selectedType":"openai"}},"privacy":{"usageStatisticsEnabled":false},
 "general":{"disableAutoUpdate":true,"enableAutoUpdate":false,"disableUpdateNag":true},"telemetry":{"enabled":false}}`)
	}
	a.read = func(file string) call {
		return call{"read_file", map[string]any{"file_path": file, "absolute_path": file}}
	}
	a.direct = func(prompt string, everything bool) []string {
		args := []string{"qwen", "-p", prompt, "--output-format", "stream-json", "--auth-type", "openai"}
		if everything {
			args = append(args, "--yolo")
		}
		return args
	}
	return a
}()

// It asks nobody: it can only be driven if it may do everything, and what it is not asked about it cannot be denied.
var pi = agent{
	name: "pi", set: "pi", model: "mock/mock-model", flags: []string{"--mode", "yolo"},
	cannot: map[string]string{"permission allowed": "it asks nobody", "permission denied": "it asks nobody"},
	setup: func(w *world) {
		w.set("PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "PI_TELEMETRY=0")
		write(w.t, filepath.Join(w.home, ".pi", "agent", "models.json"), strings.ReplaceAll(`{"providers":{"mock":{"baseUrl":"BASE/v1","api":"openai-completions","apiKey":"dummy",
 "models":[{"id":"mock-model","name":"Mock","reasoning":false,"input":["text"],"contextWindow":200000,"maxTokens":32000,
  "cost":{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":1}}]}}}`, "BASE", w.base))
	},
	shell: func(command string) call { return call{"bash", map[string]any{"command": command}} },
	write: func(file, text string) call {
		return call{"write", map[string]any{"path": file, "content": text}}
	},
	read: func(file string) call { return call{"read", map[string]any{"path": file}} },
	direct: func(prompt string, _ bool) []string {
		return []string{"pi", "-p", "--mode", "json", "--model", "mock/mock-model", prompt}
	},
}
