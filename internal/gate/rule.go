package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-dev/sluice/event"
)

// elsewhere are names that other programs have for our permissions. A rule with one would never match: for a deny rule that
// is a hole, so it is an error.
var elsewhere = map[string]string{
	"write": "edit", "patch": "edit", "multiedit": "edit", "apply_patch": "edit", "notebookedit": "edit",
	"shell": "bash", "exec": "bash", "run": "bash", "command": "bash", "execute": "bash",
	"ls": "glob", "list": "glob", "search": "grep", "todowrite": "todo", "todoread": "todo",
	"external_directory": Outside, "external": Outside, "agent": "task", "spawn_agent": "task",
}

// ours are the permissions of our own tools.
var ours = []string{"read", "edit", "bash", "glob", "grep", "todo", "task", "skill", Outside}

// ParseRule reads a rule as people type it: read, bash(git *), edit(src/**), outside(/tmp/**), mcp_github_*, *.
func ParseRule(action, text string) (event.Rule, error) {
	if action != Allow && action != Ask && action != Deny {
		return event.Rule{}, fmt.Errorf("a rule's action is allow, ask or deny, not %q", action)
	}
	permission, pattern, err := splitRule(strings.TrimSpace(text))
	if err != nil {
		return event.Rule{}, err
	}
	lower := strings.ToLower(permission)
	if right, ok := elsewhere[lower]; ok {
		return event.Rule{}, fmt.Errorf("no permission is called %q: write %s", permission, ruleText(right, pattern))
	}
	if of, ok := strings.CutPrefix(lower, "mcp__"); ok { // other programs name the tools of servers so
		return event.Rule{}, fmt.Errorf("no permission is called %q: write %s", permission, ruleText(strings.Replace(of, "__", "_", 1), pattern))
	}
	if lower != permission && slices.Contains(ours, lower) {
		return event.Rule{}, fmt.Errorf("no permission is called %q: write %s", permission, ruleText(lower, pattern))
	}
	if prefix, ok := strings.CutSuffix(pattern, ":*"); ok && permission == "bash" {
		return event.Rule{}, fmt.Errorf("the pattern %q matches only commands with a colon: write %s", pattern, ruleText(permission, prefix+" *"))
	}
	if kindOf(permission) == pathTarget && !doublestar.ValidatePattern(pattern) {
		return event.Rule{}, fmt.Errorf("the pattern %q is not whole: close its [ or {, or put a \\ before it", pattern)
	}
	return event.Rule{Permission: permission, Pattern: pattern, Action: action}, nil
}

// splitRule takes permission(pattern) apart. Without a pattern it is for everything.
func splitRule(text string) (permission, pattern string, err error) {
	permission, rest, has := strings.Cut(text, "(")
	permission = strings.TrimSpace(permission)
	switch {
	case text == "":
		return "", "", errors.New("an empty rule: write a permission, as in read or bash(git *)")
	case permission == "":
		return "", "", fmt.Errorf("the rule %q has no permission: write bash%s", text, text)
	case strings.ContainsAny(permission, " \t\n)"):
		return "", "", fmt.Errorf("the rule %q is not a permission: write it as in bash(%s)", text, text)
	case !has:
		return permission, "*", nil
	case !strings.HasSuffix(rest, ")"):
		return "", "", fmt.Errorf("the rule %q has no closing parenthesis: write it as in bash(git *)", text)
	}
	pattern = strings.TrimSpace(strings.TrimSuffix(rest, ")"))
	if pattern == "" {
		return "", "", fmt.Errorf("the rule %q has an empty pattern: write %s for everything", text, permission)
	}
	return permission, pattern, nil
}

// RuleText returns a rule as people type it, without its action.
func RuleText(r event.Rule) string { return ruleText(r.Permission, r.Pattern) }

func ruleText(permission, pattern string) string {
	if forEverything(pattern) {
		return permission
	}
	return permission + "(" + pattern + ")"
}

// Protected are the rules that stand in every policy. They deny, so nothing overrules them: what git and Sluice run on their
// own account is not for a model to write.
func Protected() []event.Rule {
	return []event.Rule{
		{Permission: "edit", Pattern: ".git", Action: Deny},
		{Permission: "edit", Pattern: ".sluice", Action: Deny},
	}
}

// The faces whose rules Defaults knows.
const (
	FaceNative = "native"
	FaceAictrl = "aictrl"
	FaceGrok   = "grok"
	FaceAvenor = "avenor"
	FaceEnso   = "enso"
	FaceAionrs = "aionrs"
)

// Defaults are the rules that come with a face, to stand before those of the user. A face that it does not know allows
// nothing.
func Defaults(face string) []event.Rule {
	var allowed []string
	switch face {
	case FaceNative, FaceEnso:
		allowed = []string{"read", "glob", "grep", "skill", "todo"}
	case FaceAictrl, FaceGrok:
		allowed = []string{"*"}
	}
	var rules []event.Rule
	for _, p := range allowed {
		rules = append(rules, event.Rule{Permission: p, Pattern: "*", Action: Allow})
	}
	return rules
}
