package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/provider"
)

func TestAictrlWildcard(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b\nc", true}, {"", "", true}, {"", "a", false},
		{"ls *", "ls", true}, {"ls *", "ls -la", true}, {"ls *", "lsof", false}, {"ls*", "lsof", true},
		{"*.env", ".env", true}, {"*.env", "a/b/.env", true}, {"*.env", "a.env.example", false}, {"*.env.*", "a.env.example", true},
		{"src/*", "src/a/b.go", true}, {"src/*", "src", false}, {"src/?.go", "src/a.go", true}, {"src/?.go", "src/ab.go", false},
		{`src\*`, "src/a", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false}, {"**", "x", true}, {"[a]", "a", false}, {"[a]", "[a]", true},
		{"a.c", "abc", false}, {"?", "é", true}, {"git push *", "git push", true}, {"git push *", "git pusher", false},
	} {
		if got := wildcard(c.pattern, c.text); got != c.want {
			t.Errorf("%q against %q: %v", c.pattern, c.text, got)
		}
	}
	if wildcard(strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 20_000)) { // and it comes back
		t.Error("it matches")
	}
}

// The last rule that matches counts, whatever stands before it; what no rule of the user is about is allowed.
func TestAictrlLaw(t *testing.T) {
	bash := func(command string) gate.Access {
		return gate.Access{Permission: "bash", Target: command, Class: event.ClassExec, Called: "bash"}
	}
	file := func(tool, permission, target string) gate.Access {
		return gate.Access{Permission: permission, Target: target, Class: event.ClassEdit, Called: aictrlPermission(tool, permission)}
	}
	opaque := bash("$(cat x)")
	opaque.Opaque = true
	for name, c := range map[string]struct {
		rules  string
		access gate.Access
		want   string
	}{
		"no rules":                    {"", bash("ls"), "allow"},
		"one word for all":            {`"ask"`, bash("ls"), "ask"},
		"allow after deny":            {`{"bash":{"*":"deny","git *":"allow"}}`, bash("git status"), "allow"},
		"deny after allow":            {`{"bash":{"git *":"allow","*":"deny"}}`, bash("git status"), "deny"},
		"ask after deny":              {`{"bash":"deny","*":"ask"}`, bash("ls"), "ask"},
		"same key again":              {`{"bash":"deny","read":"ask","bash":"allow"}`, bash("ls"), "allow"},
		"a list, as it is told":       {`[{"permission":"bash","pattern":"rm *","action":"deny"}]`, bash("rm -r x"), "deny"},
		"a list without pattern":      {`[{"permission":"bash","action":"ask"}]`, bash("rm -r x"), "ask"},
		"another program":             {`{"bash":{"rm *":"deny"}}`, bash("rmdir x"), "allow"},
		"a program with its folder":   {`{"bash":{"rm *":"deny"}}`, bash("/usr/bin/rm -r x"), "deny"},
		"and not when allowed":        {`{"bash":{"*":"ask","rm *":"allow"}}`, bash("./rm -r x"), "ask"},
		"nobody knows what":           {`{"bash":{"*":"ask","$*":"allow"}}`, opaque, "ask"},
		"nobody knows what, all":      {`{"bash":"allow"}`, opaque, "allow"},
		"write, the tool":             {`{"write":"deny"}`, file("write", "edit", "a"), "deny"},
		"write, an edit":              {`{"write":"deny"}`, file("edit", "edit", "a"), "deny"},
		"write allowed is no edit":    {`{"edit":"ask","write":"allow"}`, file("edit", "edit", "a"), "ask"},
		"write allowed":               {`{"edit":"ask","write":"allow"}`, file("write", "edit", "a"), "allow"},
		"edit is write":               {`{"edit":"deny"}`, file("write", "edit", "a"), "deny"},
		"patch is edit":               {`{"patch":"deny"}`, file("edit", "edit", "a"), "deny"},
		"from the root":               {`{"read":{"/w/secret/*":"deny"}}`, file("read", "read", "secret/a"), "deny"},
		"from the workspace":          {`{"read":{"secret/*":"deny"}}`, file("read", "read", "secret/a/b"), "deny"},
		"at any depth":                {`{"read":{"*.env":"ask","*.env.example":"allow"}}`, file("read", "read", "a/b/.env"), "ask"},
		"in capitals":                 {`{"read":{"*.env":"ask"}}`, file("read", "read", "a/B.ENV"), "ask"},
		"but for this one":            {`{"read":{"*.env*":"ask","*.env.example":"allow"}}`, file("read", "read", "a/.env.example"), "allow"},
		"outside":                     {`{"external_directory":"ask"}`, file("read", "outside", "/etc/passwd"), "ask"},
		"outside, a folder":           {`{"external_directory":{"*":"ask","/tmp/*":"allow"}}`, file("bash", "outside", "/tmp"), "allow"},
		"home":                        {`{"external_directory":{"*":"ask","~/x/*":"allow"}}`, file("read", "outside", "/home/me/x/y"), "allow"},
		"home, the other way":         {`{"external_directory":{"*":"ask","$HOME/x/*":"allow"}}`, file("read", "outside", "/home/me/x/y"), "allow"},
		"todo":                        {`{"todowrite":"deny"}`, file("todowrite", "todo", "*"), "deny"},
		"a server's tool":             {`{"github_*":"deny"}`, gate.Access{Permission: "github_push", Target: "{}", Class: event.ClassMCP}, "deny"},
		"another server's":            {`{"github_*":"deny"}`, gate.Access{Permission: "gitlab_push", Target: "{}", Class: event.ClassMCP}, "allow"},
		"a skill":                     {`{"skill":{"deploy":"deny"}}`, gate.Access{Permission: "skill", Target: "deploy"}, "deny"},
		"a kind of agent":             {`{"task":{"*":"deny","explore":"allow"}}`, gate.Access{Permission: "task", Target: "explore"}, "allow"},
		"everything but one category": {`{"*":"deny","read":"allow"}`, file("read", "read", "a"), "allow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AICTRL_PERMISSION", c.rules)
			told, own, err := aictrlLaw("/w", "/home/me")
			if err != nil {
				t.Fatal(err)
			}
			d := gate.Policy{Own: own}.Decide([]gate.Access{c.access})
			if d.Action != c.want {
				t.Errorf("%s, want %s by %v", d.Action, c.want, told)
			}
		})
	}
}

func TestAictrlRulesThatAreNone(t *testing.T) {
	for text, says := range map[string]string{
		`{`: "not JSON", `7`: "neither an action nor an object", `null`: "neither", `"yes"`: `the action of "*" is "yes"`,
		`{"bash":7}`: `the action of "bash" is 7`, `{"bash":{"ls":null}}`: "is null", `[{"permission":"bash"}]`: "is missing",
		`{"bsah":"deny"}`: "perhaps bash", `{"frobnicate":"deny"}`: "there are *, bash", `[7]`: "is missing",
	} {
		if _, err := aictrlRules(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want something with %q", text, err, says)
		}
	}
}

// A file of models gives five rates and the window, and only what it really says.
func TestAictrlPrices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.json")
	const models = `{
		"acme": {"models": {
			"full": {"cost": {"input": 3, "output": 15, "reasoning": 30, "cache_read": 0.3, "cache_write": 3.75,
				"context_over_200k": {"input": 6, "output": 22.5, "cache_read": 0.6, "cache_write": 7.5}}, "limit": {"context": 1000000}},
			"plain": {"cost": {"input": 2, "output": 4}, "limit": {"context": 8000}},
			"odd": {"cost": {"input": -1, "output": "4"}, "limit": {"context": 0}},
			"huge": {"cost": {"input": 1e999, "output": 4}, "limit": {"context": 1.5}},
			"null": null}},
		"amazon-bedrock": {"models": {"m": {"cost": {"input": 1, "output": 2}, "limit": {"context": 7}}}}}`
	if err := os.WriteFile(path, []byte(models), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	look := aictrlPrices(&said, path)
	usage := func(in, out, think, read, write int64) event.Usage {
		return event.Usage{Input: &in, Output: &out, Reasoning: &think, CacheRead: &read, CacheWrite: &write}
	}
	for _, c := range []struct {
		prov, model string
		known       bool
		window      int64
		usage       event.Usage
		want        [4]float64 // input, output, cache read, cache write; in dollars for a million
	}{
		{"acme", "full", true, 1_000_000, usage(1000, 100, 10, 2000, 500), [4]float64{3000, 1500 + 300, 600, 1875}},
		{"acme", "full", true, 1_000_000, usage(200_001, 100, 0, 0, 0), [4]float64{1_200_006, 2250, 0, 0}},
		{"acme", "plain", true, 8000, usage(1000, 100, 10, 1000, 1000), [4]float64{2000, 440, 2000, 2000}},
		{"bedrock", "m", true, 7, usage(1, 1, 0, 0, 0), [4]float64{1, 2, 0, 0}},
		{"acme", "odd", true, 0, usage(1, 1, 1, 1, 1), [4]float64{}},
		{"acme", "huge", true, 0, usage(1, 1, 1, 1, 1), [4]float64{}},
		{"acme", "null", false, 0, event.Usage{}, [4]float64{}},
		{"acme", "gone", false, 0, event.Usage{}, [4]float64{}},
		{"nobody", "full", false, 0, event.Usage{}, [4]float64{}},
	} {
		p, ok := look(c.prov, c.model)
		if ok != c.known || p.Window != c.window {
			t.Errorf("%s/%s: known %v, window %d", c.prov, c.model, ok, p.Window)
		}
		cost := p.Cost(c.usage)
		for i, got := range []*float64{cost.Input, cost.Output, cost.CacheRead, cost.CacheWrite} {
			var v float64
			if got != nil {
				v = *got * 1e6
			}
			if diff := v - c.want[i]; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("%s/%s: rate %d gives %v, want %v", c.prov, c.model, i, v, c.want[i])
			}
		}
	}
	if said.Len() > 0 {
		t.Errorf("it complains: %s", said.String())
	}
	if p, ok := aictrlPrices(&said, path+".gone")("acme", "full"); ok || p != (provider.Price{}) {
		t.Error("a file that is not there knows something")
	}
	if aictrlPrices(&said, "") != nil {
		t.Error("no file knows something")
	}
}

// What "aictrl events" describes is what the dialect has: every type of line, and every field of its shape.
func TestAictrlEventsDescribeTheDialect(t *testing.T) {
	d, err := dialect.Lookup("aictrl")
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(d.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				for name, p := range properties {
					names[name] = true
					if c, ok := p.(map[string]any)["const"].(string); ok {
						names[c] = true
					}
				}
			}
			for _, in := range v {
				walk(in)
			}
		case []any:
			for _, in := range v {
				walk(in)
			}
		}
	}
	walk(schema)
	if len(names) < 60 {
		t.Fatalf("the schema has only %d names", len(names))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !strings.Contains(aictrlEvents, name) {
			t.Errorf("nothing is said of %s", name)
		}
	}
}
