package cli

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/spell"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file has aictrl's rules. Its users expect another law than ours: rules stand in an order, and the last one that matches counts,
// also an allow after a deny. All of them together are one rule to our gate, so nothing that our own configuration denies passes.

// aictrlPermission is what aictrl calls a permission. A file that is written as a whole has one of its own in the document.
func aictrlPermission(tool, permission string) string {
	switch {
	case permission == gate.Outside:
		return "external_directory"
	case permission == "todo":
		return "todowrite"
	case permission == "edit" && tool == "write":
		return "write"
	}
	return permission
}

// aictrlKnown are the permissions that a rule may be for, besides those of MCP servers, which have an underline in their names.
// Some are of tools that we do not have: there a rule does no harm.
var aictrlKnown = []string{
	"*", "bash", "read", "edit", "write", "patch", "multiedit", "apply_patch", "glob", "grep", "list", "task", "skill", "todowrite", "todoread",
	"external_directory", "webfetch", "websearch", "codesearch", "lsp", "question", "plan_enter", "plan_exit", "doom_loop", "invalid",
}

// aictrlLaw reads AICTRL_PERMISSION. Before its rules stands the one that comes with the face.
func aictrlLaw(workspace, home string) ([]event.Rule, func(gate.Access) *event.Rule, error) {
	rules := gate.Defaults(gate.FaceAictrl)
	if text := os.Getenv("AICTRL_PERMISSION"); text != "" {
		more, err := aictrlRules(text)
		if err != nil {
			return rules, nil, fmt.Errorf("AICTRL_PERMISSION: %w", err)
		}
		rules = append(rules, more...)
	}
	return rules, func(a gate.Access) *event.Rule {
		for i, r := range slices.Backward(rules) {
			if aictrlSpeaks(r, a, workspace, home) {
				return &rules[i]
			}
		}
		return nil
	}, nil
}

// aictrlRules reads rules: one action for everything; actions, or patterns with actions, by permission; or a list as
// session_start has it. Their order is kept.
func aictrlRules(text string) (rules []event.Rule, err error) {
	var doc wire.Doc
	if doc.Parse([]byte(text)) != nil {
		return nil, errors.New(`it is not JSON: write it as in {"bash":{"*":"ask","git *":"allow"}}`)
	}
	add := func(permission, pattern string, action wire.Node) {
		err = either(err, aictrlCheck(permission, action))
		rules = append(rules, event.Rule{Permission: permission, Pattern: pattern, Action: action.Text()})
	}
	switch root := doc.Root(); root.Kind() {
	case wire.String:
		add("*", "*", root)
	case wire.Object:
		for permission, v := range root.All() {
			if v.Kind() != wire.Object {
				add(permission, "*", v)
				continue
			}
			for pattern, action := range v.All() {
				add(permission, pattern, action)
			}
		}
	case wire.Array:
		for _, v := range root.All() {
			add(v.Get("permission").Text(), first(v.Get("pattern").Text(), "*"), v.Get("action"))
		}
	default:
		return nil, errors.New(`it is neither an action nor an object: write it as in {"bash":"ask"}`)
	}
	return rules, err
}

// aictrlCheck says what is wrong with a rule. One for a permission that nobody asks for would never match: for a deny rule that
// is a hole.
func aictrlCheck(permission string, action wire.Node) error {
	if !slices.Contains([]string{gate.Allow, gate.Ask, gate.Deny}, action.Text()) {
		return fmt.Errorf("the action of %q is %s: it is one of \"allow\", \"ask\", \"deny\"", permission, first(clipped(string(action.Raw())), "missing"))
	}
	if !slices.Contains(aictrlKnown, permission) && !strings.ContainsAny(permission, "_*?") {
		hint := "there are " + strings.Join(aictrlKnown, ", ") + ", and those of MCP servers"
		if near := spell.Nearest(permission, aictrlKnown); near != "" {
			hint = "perhaps " + near
		}
		return fmt.Errorf("nobody asks for the permission %q: %s", permission, hint)
	}
	return nil
}

// aictrlSpeaks says whether a rule is about an access. Where a rule could be read more or less widely, one that allows is read
// narrowly and the others widely.
func aictrlSpeaks(r event.Rule, a gate.Access, workspace, home string) bool {
	wide := r.Action != gate.Allow
	if !slices.ContainsFunc(aictrlAsks(a, wide), func(name string) bool { return wildcard(r.Permission, name) }) {
		return false
	}
	if r.Pattern == "*" {
		return true
	}
	if a.Opaque && !wide { // nobody can say what it would do
		return false
	}
	pattern := r.Pattern
	for _, prefix := range []string{"~", "$HOME"} {
		if rest, ok := strings.CutPrefix(pattern, prefix); ok && home != "" && (rest == "" || rest[0] == '/') {
			pattern = home + rest
		}
	}
	targets := aictrlTargets(a, workspace, wide)
	if wide {
		pattern = strings.ToLower(pattern)
	}
	return slices.ContainsFunc(targets, func(t string) bool { return wildcard(pattern, t) })
}

// aictrlAsks are the permissions that an access may be meant by. In aictrl edit is for every change of a file. A write that is
// denied is one whichever tool would do it; one that is allowed is only that tool's.
func aictrlAsks(a gate.Access, wide bool) []string {
	switch a.Permission {
	case "edit":
		names := []string{"edit", "patch", "multiedit", "apply_patch"}
		if wide || a.Called == "write" {
			names = append(names, "write")
		}
		return names
	case "glob":
		return []string{"glob", "list"}
	case "todo":
		return []string{"todowrite", "todoread"}
	case gate.Outside:
		return []string{"external_directory"}
	}
	return []string{a.Permission}
}

// aictrlTargets are the ways in which a pattern may name what an access is about: a file from the workspace or from the root, a
// folder outside by what is in it, a program without its folder.
func aictrlTargets(a gate.Access, workspace string, wide bool) []string {
	list := []string{a.Target}
	switch a.Permission {
	case "read", "edit", "glob", "grep":
		if !filepath.IsAbs(a.Target) {
			list = append(list, filepath.ToSlash(filepath.Join(workspace, a.Target)))
		}
	case gate.Outside:
		list = append(list, strings.TrimSuffix(a.Target, "/")+"/*")
	case "bash":
		if name, rest, _ := strings.Cut(a.Target, " "); wide && path.Base(name) != name {
			list = append(list, strings.TrimSuffix(path.Base(name)+" "+rest, " "))
		}
	}
	for i := range list {
		if wide {
			list[i] = strings.ToLower(list[i])
		}
	}
	return list
}

// wildcard matches as aictrl does: * is any text, slashes too, ? is one character, and a last " *" may be nothing.
func wildcard(pattern, s string) bool {
	pattern, s = strings.ReplaceAll(pattern, `\`, "/"), strings.ReplaceAll(s, `\`, "/")
	if bare, ok := strings.CutSuffix(pattern, " *"); ok && glob([]rune(bare), []rune(s)) {
		return true
	}
	return glob([]rune(pattern), []rune(s))
}

// glob goes back to the last star when the rest does not fit: no pattern takes longer than its length times that of the text.
func glob(pattern, s []rune) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// aictrlNobody rejects what is asked, and says what would let it pass. Where none of aictrl's own rules asks, it is one of the
// configuration or of a profile, which they do not overrule.
var aictrlNobody = gate.AnswererFunc(func(q event.GateAsked, answer func(gate.Answer) error) {
	why := "nobody is there to allow it; to let it pass, "
	rules, _ := aictrlRules(os.Getenv("AICTRL_PERMISSION")) // which were read before
	if slices.ContainsFunc(rules, func(r event.Rule) bool { return r.Action == gate.Ask }) {
		why += "put this last in AICTRL_PERMISSION: " + aictrlAllow(q)
	} else {
		why += askedByConfig
	}
	_ = answer(gate.Answer{By: event.ByNobody, Reason: why}) // late: somebody was there after all
})

// aictrlAllow are the rules that would allow what is asked.
func aictrlAllow(q event.GateAsked) string {
	rule := wire.AppendString([]byte("{"), q.Permission)
	rule = append(rule, ":{"...)
	for i, p := range q.Patterns {
		if i > 0 {
			rule = append(rule, ',')
		}
		rule = append(wire.AppendString(rule, p), `:"allow"`...)
	}
	return string(append(rule, "}}"...))
}
