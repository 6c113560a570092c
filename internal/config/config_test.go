package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`
model = "lab/qwen"
allow = ["bash(git *)"]
max_turns = 10
timeout = "1h30m"
network = true
limits = {max_cost = 2}

[endpoints.lab]
type = "openai"
base_url = "http://127.0.0.1:9/v1"
headers = {X-Team = "a"}

[prices."lab/qwen"]
input = 0.5

[hooks]
end = [
  ["notify", "--title", "done"], # one
  ["/usr/bin/true"],
]

[mcp.files]
command = ["npx"]
args = ["server-files", "."]
env = {TOKEN = "${FILES_TOKEN}"}
timeout = "30s"

[mcp.web]
url = "https://example.test/mcp"
headers.Authorization = "Bearer ${WEB}"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Model: "lab/qwen", Allow: []string{"bash(git *)"}, MaxTurns: 10, Timeout: Duration(90 * time.Minute), Network: true,
		Limits:    Limits{MaxCost: 2},
		Endpoints: map[string]Endpoint{"lab": {Type: "openai", BaseURL: "http://127.0.0.1:9/v1", Headers: map[string]string{"X-Team": "a"}}},
		Prices:    map[string]Price{"lab/qwen": {Input: 0.5}},
		Hooks:     Hooks{End: [][]string{{"notify", "--title", "done"}, {"/usr/bin/true"}}},
		MCP: map[string]MCP{
			"files": {Command: []string{"npx"}, Args: []string{"server-files", "."}, Env: map[string]string{"TOKEN": "${FILES_TOKEN}"}, Timeout: Duration(30 * time.Second)},
			"web":   {URL: "https://example.test/mcp", Headers: map[string]string{"Authorization": "Bearer ${WEB}"}},
		},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for in, want := range map[string]string{
		// Keys that nobody knows.
		"modell = \"x\"":                          `line 1: there is no key "modell"; is "model" meant?`,
		"\n[endpoints.a]\nbaseurl = \"x\"":        `line 3: there is no key "endpoints.a.baseurl"; is "base_url" meant?`,
		"colour = 1":                              `line 1: there is no key "colour"`,
		"[endpoints.a]\nkey = \"sk-very-secret\"": `line 2: there is no key "endpoints.a.key"`,
		"Deny = [\"bash\"]":                       `line 1: there is no key "Deny"; is "deny" meant?`,
		"max_cost = 1":                            `line 1: there is no key "max_cost"; is "limits.max_cost" meant?`,
		"\nbefore_tool = [[\"a\"]]":               `line 2: there is no key "before_tool"; is "hooks.before_tool" meant?`,
		"[hook]\nend = [[\"a\"]]":                 `line 1: there is no key "hook"; is "hooks" meant?`,
		"[limits]\nmax_costs = 1":                 `line 2: there is no key "limits.max_costs"; is "max_cost" meant?`,
		"limits = {\n\tmax_costs = 1}":            `line 2: there is no key "limits.max_costs"; is "max_cost" meant?`,
		"mcp.x = {comand = [\"a\"]}":              `line 1: there is no key "mcp.x.comand"; is "command" meant?`,
		"model.name = \"x\"":                      `line 1: there is no key "model.name"`,
		"[[mcp]]\nurl = \"x\"":                    `line 1: mcp is a table`,
		"\"\" = 1":                                `line 1: there is no key ""`,

		// Values of another kind.
		"model = 1":                                 `line 1: model is a text, in quotes`,
		"allow = \"bash\"":                          `line 1: allow is a list of texts, as in ["a", "b"]`,
		"allow = [\"bash\", 1]":                     `line 1: allow is a list of texts, as in ["a", "b"]`,
		"allow = [[\"bash\"]]":                      `line 1: allow is a list of texts, as in ["a", "b"]`,
		"[hooks]\nend = [\"a\", \"b\"]":             `line 2: hooks.end is a list of commands, each a list of texts, as in [["go", "vet"]]`,
		"[hooks]\nend = [[\"a\", 1]]":               `line 2: hooks.end is a list of commands, each a list of texts, as in [["go", "vet"]]`,
		"timeout = 30":                              `line 1: timeout is a duration, as in "90s"`,
		"timeout = \"30\"":                          `line 1, column 11: "30" is no duration: write one as in "90s" or "1h30m"`,
		"max_turns = 1.5":                           `line 1: max_turns is a whole number`,
		"max_turns = \"9\"":                         `line 1: max_turns is a whole number`,
		"network = \"yes\"":                         `line 1: network is true or false`,
		"[limits]\nmax_cost = \"1\"":                `line 2: limits.max_cost is a number`,
		"mcp = 1":                                   `line 1: mcp is a table`,
		"mcp.x = 1":                                 `line 1: mcp.x is a table`,
		"[mcp.x]\ncommand = \"npx\"":                `line 2: mcp.x.command is a list of texts, as in ["a", "b"]`,
		"[mcp.x]\ncommand = [\"a\"]\nenv = {A = 1}": `line 3: mcp.x.env.A is a text, in quotes`,
		"timeout = 1979-05-27":                      `line 1: timeout is a duration, as in "90s"`,

		// Values that cannot be.
		"\nmode = \"yoloo\"":                                `line 2: mode is "yoloo", and can be default, auto_edit, yolo; is "yolo" meant?`,
		"sandbox = \"none\"":                                `line 1: sandbox is "none", and can be off, auto, require`,
		"thinking = \"\"":                                   `line 1: thinking is "", and can be off, low, medium, high`,
		"max_turns = -1":                                    `line 1: max_turns cannot be negative or without end`,
		"stall = \"-1s\"":                                   `line 1: stall cannot be negative or without end`,
		"[limits]\nmax_cost = nan":                          `line 2: limits.max_cost cannot be negative or without end`,
		"limits.max_cost = inf":                             `line 1: limits.max_cost cannot be negative or without end`,
		"[prices.\"a/b\"]\ninput = -1":                      `line 1: prices.a/b cannot be negative or without end`,
		"[hooks]\nend = [[]]":                               `line 2: hooks.end has a command without a program`,
		"[hooks]\nend = [[\"\"]]":                           `line 2: hooks.end has a command without a program`,
		"[hooks]\nend = [[\"./notify\"]]":                   `line 2: hooks.end has the program "./notify": write its whole path, or a name that is found in PATH`,
		"\n[mcp.x]":                                         `line 2: mcp.x has no server: write command = ["program"] or url = "https://…"`,
		"[mcp.\"a b\"]\ncommand = [\"x\"]":                  `line 1: mcp.a b is not a name: letters, digits, dashes and underlines, 64 at most`,
		"[mcp.x]\ncommand = [\"x\"]\nurl = \"https://x.y\"": `line 1: mcp.x has both a command and a url: one of them`,
		"[mcp.x]\ncommand = [\"\"]":                         `line 1: mcp.x has a command without a program`,
		"[mcp.x]\nurl = \"file:///etc/passwd\"":             `line 1: mcp.x has a url that does not begin with http:// or https://`,
		"[mcp.x]\nurl = \"http://x\"\nargs = [\"a\"]":       `line 1: mcp.x has a url, and so no args and no env`,
		"[mcp.x]\ncommand = [\"x\"]\nheaders = {a = \"b\"}": `line 1: mcp.x has a command, and so no headers`,
		"[mcp.x]\ncommand = [\"x\"]\ntimeout = \"-1s\"":     `line 1: mcp.x has a negative timeout`,

		// Tables twice.
		"limits = {}\n[limits]\nx = 1":  `line 3: there is no key "limits.x"`,
		"limits = {}\nlimits.x = \"a\"": `line 2: there is no key "limits.x"`,
	} {
		if _, err := Parse([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v, want\n%s", in, err, want)
		}
	}
	for in, place := range map[string]string{ // no TOML at all: the words are the package's
		"model = ":                         "line 1, column 8: ",
		"model = sk-very-secret":           "line 1, column 9: ",
		"model = \"a\"\nmodel = \"b\"":     "line 2, column 1: ",
		"max_turns = 99999999999999999999": "line 1, column 13: ",
		"model = \"\xff\"":                 "line 1, column 10: ",
	} {
		if _, err := Parse([]byte(in)); err == nil || !strings.HasPrefix(err.Error(), place) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want it at %s", in, err, place)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("model = \"x\"\n[mcp.a]\ncommand = [\"b\"]")
	f.Add("hooks = {end = [[\"a\"]]}\n[[x]]\n'' = 1979-05-27T07:32:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parse([]byte(text))
		if err != nil && (l.set != nil || !cmp.Equal(l.Config, Config{})) {
			t.Errorf("%q: half of it is taken: %v", text, err)
		}
	})
}

func TestReadWithoutFile(t *testing.T) {
	if c, err := Read(filepath.Join(t.TempDir(), "none.toml")); err != nil || c.Model != "" {
		t.Error(c, err)
	}
}

func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		env           map[string]string
		config, state string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.config/sluice/config.toml", "/h/.local/state/sluice"},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/sluice/config.toml", "/s/sluice"},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.config/sluice/config.toml", "/h/.local/state/sluice"},
		{nil, "", ""},
	} {
		env := func(k string) string { return tt.env[k] }
		c, cerr := Path(env)
		s, serr := State(env)
		if c != tt.config || s != tt.state || (cerr == nil) != (c != "") || (serr == nil) != (s != "") {
			t.Errorf("%v: %q %v, %q %v", tt.env, c, cerr, s, serr)
		}
	}
}
