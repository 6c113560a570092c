package gate

import (
	"testing"

	"github.com/sluice-dev/sluice/event"
)

func TestParseRule(t *testing.T) {
	for _, c := range []struct {
		text, permission, pattern, err string
	}{
		{text: "read", permission: "read", pattern: "*"},
		{text: "*", permission: "*", pattern: "*"},
		{text: "bash(git *)", permission: "bash", pattern: "git *"},
		{text: " bash( git * ) ", permission: "bash", pattern: "git *"},
		{text: "bash(echo (x))", permission: "bash", pattern: "echo (x)"},
		{text: "edit(src/**)", permission: "edit", pattern: "src/**"},
		{text: "outside(/tmp/**)", permission: "outside", pattern: "/tmp/**"},
		{text: "mcp_github_*", permission: "mcp_github_*", pattern: "*"},
		{text: "mcp_Jira_getIssue", permission: "mcp_Jira_getIssue", pattern: "*"},
		{text: "*(x)", permission: "*", pattern: "x"},
		{text: "", err: "an empty rule: write a permission, as in read or bash(git *)"},
		{text: "(git *)", err: `the rule "(git *)" has no permission: write bash(git *)`},
		{text: "git *", err: `the rule "git *" is not a permission: write it as in bash(git *)`},
		{text: "bash(git *", err: `the rule "bash(git *" has no closing parenthesis: write it as in bash(git *)`},
		{text: "bash(git) x", err: `the rule "bash(git) x" has no closing parenthesis: write it as in bash(git *)`},
		{text: "bash()", err: `the rule "bash()" has an empty pattern: write bash for everything`},
		{text: "Bash(git *)", err: `no permission is called "Bash": write bash(git *)`},
		{text: "write(src/**)", err: `no permission is called "write": write edit(src/**)`},
		{text: "Write", err: `no permission is called "Write": write edit`},
		{text: "shell", err: `no permission is called "shell": write bash`},
		{text: "external_directory", err: `no permission is called "external_directory": write outside`},
		{text: "spawn_agent", err: `no permission is called "spawn_agent": write task`},
		{text: "mcp__github__list", err: `no permission is called "mcp__github__list": write github_list`},
		{text: "mcp__github__*", err: `no permission is called "mcp__github__*": write github_*`},
		{text: "bash(git:*)", err: `the pattern "git:*" matches only commands with a colon: write bash(git *)`},
		{text: "edit(src/[a)", err: `the pattern "src/[a" is not whole: close its [ or {, or put a \ before it`},
	} {
		r, err := ParseRule(Deny, c.text)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%q: %v, not %s", c.text, err, c.err)
			}
			continue
		}
		if want := (event.Rule{Permission: c.permission, Pattern: c.pattern, Action: Deny}); r != want || err != nil {
			t.Errorf("%q: %+v, %v", c.text, r, err)
		}
		if again, err := ParseRule(Deny, RuleText(r)); again != r || err != nil {
			t.Errorf("%q is written %q and read as %+v, %v", c.text, RuleText(r), again, err)
		}
	}
	if _, err := ParseRule("maybe", "read"); err == nil || err.Error() != `a rule's action is allow, ask or deny, not "maybe"` {
		t.Error(err)
	}
}

func TestMatch(t *testing.T) {
	const allow, deny, both, neither = 1, 2, 3, 0
	for _, c := range []struct {
		rule, permission, target string
		want                     int
	}{
		// commands
		{"bash(git *)", "bash", "git status", both},
		{"bash(git *)", "bash", "git", both},
		{"bash(git *)", "bash", "gitk", neither},
		{"bash(git *)", "bash", "git log a/b c", both},
		{"bash(git*)", "bash", "gitk", both},
		{"bash(git status)", "bash", "git status", both},
		{"bash(git status)", "bash", "git status -s", neither},
		{"bash(git * main)", "bash", "git push origin main", both},
		{"bash(git * main)", "bash", "git main", neither},
		{"bash(* --force)", "bash", "git push --force", both},
		{"bash(git ? x)", "bash", "git a x", neither},
		{"bash(git [a])", "bash", "git [a]", both},
		{"bash(git *)", "bash", "/usr/bin/git status", deny},
		{"bash(git *)", "bash", "./git", deny},
		{"bash(/usr/bin/git *)", "bash", "/usr/bin/git x", both},
		{"bash(a*a)", "bash", "a", neither},
		{"bash(a*b*c)", "bash", "a x b y c", both},
		{"bash", "bash", "anything", both},
		// paths
		{"edit(src/**)", "edit", "src/a/b.go", both},
		{"edit(src/**)", "edit", "lib/src/a.go", neither},
		{"edit(src/)", "edit", "src/a/b.go", both},
		{"edit(./src/**)", "edit", "src/a.go", both},
		{"edit(src)", "edit", "src/a.go", deny},
		{"edit(src/*)", "edit", "src/a.go", both},
		{"edit(src/*)", "edit", "src/a/b.go", deny},
		{"edit(*.md)", "edit", "README.md", both},
		{"edit(*.md)", "edit", "docs/a/b.md", both},
		{"edit(docs/*.md)", "edit", "docs/a.md", both},
		{"edit(docs/*.md)", "edit", "docs/a/b.md", neither},
		{"edit(*.MD)", "edit", "readme.md", deny},
		{"edit(.env)", "edit", "a/.env", both},
		{"read(secrets)", "read", "a/secrets/key", deny},
		{"read(*.pem)", "read", "/etc/ssl/a.pem", both},
		{"outside(/tmp/**)", "outside", "/tmp/a/b", both},
		{"outside(/tmp/**)", "outside", "/tmpx", neither},
		{"outside(/tmp/**)", "outside", "/tmp", both},
		{"outside(~/x/**)", "outside", "/home/me/x/y", both},
		{"outside(/home/me/x/**)", "outside", "~/x/y", both},
		{"outside(~/x/**)", "outside", "~/y", neither},
		{"outside", "outside", "/etc/passwd", both},
		// names
		{"mcp_github_*", "mcp_github_list", "x", both},
		{"mcp_github_*", "mcp_gitlab_list", "x", neither},
		{"*", "mcp_github_list", "x", both},
		{"*(x)", "task", "x", both},
		{"*(x)", "task", "y", neither},
		{"skill(go-*)", "skill", "go-test", both},
		{"mcp_x", "MCP_X", "x", deny},
	} {
		for action, bit := range map[string]int{Allow: allow, Deny: deny} {
			r, err := ParseRule(action, c.rule)
			if err != nil {
				t.Fatal(err)
			}
			if got := matches(r, Access{Permission: c.permission, Target: c.target}, "/home/me"); got != (c.want&bit != 0) {
				t.Errorf("%s %s, %s %s: %v", action, c.rule, c.permission, c.target, got)
			}
		}
	}
}

// A rule that was not parsed here and cannot be read denies, and never allows.
func TestBrokenPattern(t *testing.T) {
	a := Access{Permission: "edit", Target: "a"}
	if matches(event.Rule{Permission: "edit", Pattern: "[a", Action: Allow}, a, "") {
		t.Error("a broken pattern allows")
	}
	if !matches(event.Rule{Permission: "edit", Pattern: "[a", Action: Deny}, a, "") {
		t.Error("a broken pattern does not deny")
	}
}
