package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/secret"
)

// What docs/mcp.md shows can be typed, and does what it says.
func TestMCPDocument(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	_, file, _ := strings.Cut(doc, "```toml\n")
	file, _, _ = strings.Cut(file, "```")
	c, err := config.Parse([]byte(file))
	if err != nil || len(c.MCP) != 2 {
		t.Fatalf("%v %+v", err, c.MCP)
	}
	for name, m := range c.MCP {
		t.Setenv("GITHUB_TOKEN", "sekrit")
		if s, err := mcpServer(name, m); err != nil || s.Check() != nil {
			t.Errorf("%s: %v %v", name, err, s.Check())
		}
	}
	rules := map[string]event.Rule{}
	for _, m := range regexp.MustCompile(`--(allow|deny) '([^']+)'`).FindAllStringSubmatch(doc, -1) {
		rule, err := gate.ParseRule(m[1], m[2])
		if err != nil {
			t.Error(err)
		}
		rules[m[2]] = rule
	}
	for _, x := range []struct{ rule, permission, target, want string }{
		{"files_read_*", "files_read_file", `{"path":"x"}`, gate.Allow},
		{"files_read_*", "files_move_file", `{}`, gate.Ask},
		{"files_write_file", "files_write_file", `{"path":"x"}`, gate.Deny},
		{`github_list_issues({"owner":"acme","repo":"site"*})`, "github_list_issues", `{"owner":"acme","repo":"site","state":"open"}`, gate.Allow},
		{`github_list_issues({"owner":"acme","repo":"site"*})`, "github_list_issues", `{"owner":"acme","repo":"site"}`, gate.Allow},
		{`github_list_issues({"owner":"acme","repo":"site"*})`, "github_list_issues", `{"owner":"evil","repo":"site","x":{"owner":"acme","repo":"site"}}`, gate.Ask},
		{`github_*(*"acme/secret"*)`, "github_get_file", `{"a":{"repo":"acme/secret"}}`, gate.Deny},
	} {
		rule, ok := rules[x.rule]
		if !ok {
			t.Errorf("the document has no rule %s", x.rule)
			continue
		}
		policy := gate.Policy{Rules: []event.Rule{rule}}
		if d := policy.Decide([]gate.Access{{Permission: x.permission, Target: x.target, Class: event.ClassMCP}}); d.Action != x.want {
			t.Errorf("%s, %s %s: %s, want %s", x.rule, x.permission, x.target, d.Action, x.want)
		}
	}
}

func TestServerSecrets(t *testing.T) {
	got := serverSecrets([]mcp.Server{
		{Headers: map[string]string{"Authorization": "Bearer abc"}},
		{Env: map[string]string{"MY_TOKEN": "def", "COLOUR": "red"}},
	})
	want := []secret.Value{{Name: "Authorization", Text: "Bearer abc"}, {Name: "Authorization", Text: "abc"}, {Name: "MY_TOKEN", Text: "def"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
