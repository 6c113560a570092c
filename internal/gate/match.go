package gate

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-dev/sluice/event"
)

// This file holds a rule against an access. The rules: a permission is a name or a glob; a pattern reads as its access's
// target does. Where an allow rule and a deny rule could be read more or less widely, the allow rule is read narrowly and the
// others widely: a deny or ask pattern for a folder holds for all that is in it, does not mind upper case, and knows
// /usr/bin/git as git.

// A targetKind says how patterns for a target are read.
type targetKind int

const (
	nameTarget    targetKind = iota // * is any text
	pathTarget                      // as in .gitignore
	commandTarget                   // * is any text, and a last " *" may be nothing
)

func kindOf(permission string) targetKind {
	switch permission {
	case "read", "edit", "glob", "grep", Outside:
		return pathTarget
	case "bash":
		return commandTarget
	}
	return nameTarget
}

// forEverything says whether a pattern excludes nothing.
func forEverything(pattern string) bool { return pattern == "" || pattern == "*" || pattern == "**" }

// matches says whether rule r speaks of access a. home is what ~ stands for; it may be empty.
func matches(r event.Rule, a Access, home string) bool {
	wide := r.Action != Allow
	if !text(r.Permission, a.Permission) && !(wide && text(strings.ToLower(r.Permission), strings.ToLower(a.Permission))) {
		return false
	}
	if forEverything(r.Pattern) {
		return true
	}
	if a.Opaque && !wide {
		return false
	}
	switch kindOf(a.Permission) {
	case pathTarget:
		return matchPath(atHome(r.Pattern, home), atHome(a.Target, home), wide)
	case commandTarget:
		return matchCommand(r.Pattern, a.Target, wide)
	}
	return text(r.Pattern, a.Target)
}

// atHome puts the home directory in the place of a leading ~.
func atHome(p, home string) string {
	if home == "" {
		return p
	}
	if p == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return strings.TrimSuffix(home, "/") + "/" + rest
	}
	return p
}

// matchPath reads a pattern as .gitignore does: without a slash it matches at any depth; one at the end means all that is in
// the folder. A wide match also holds for what is below a folder that matches.
func matchPath(pattern, target string, wide bool) bool {
	pattern = strings.TrimPrefix(pattern, "./")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
		if strings.HasPrefix(target, "/") {
			pattern = "/" + pattern
		}
	}
	if wide {
		pattern, target = strings.ToLower(pattern), strings.ToLower(target)
	}
	for {
		if ok, err := doublestar.Match(pattern, target); ok || err != nil {
			return ok || wide // a pattern that cannot be read denies: it came from somewhere that did not parse it
		}
		up := path.Dir(target)
		if !wide || up == target || up == "." {
			return false
		}
		target = up
	}
}

// matchCommand holds a pattern against one simple command.
func matchCommand(pattern, command string, wide bool) bool {
	if commandText(pattern, command) {
		return true
	}
	if !wide {
		return false
	}
	name, rest, _ := strings.Cut(command, " ")
	base := path.Base(name)
	return base != name && commandText(pattern, strings.TrimSuffix(base+" "+rest, " "))
}

func commandText(pattern, command string) bool {
	if bare, ok := strings.CutSuffix(pattern, " *"); ok && text(bare, command) {
		return true
	}
	return text(pattern, command)
}

// text matches with * for any text, also none; every other character is itself.
func text(pattern, s string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for {
		piece, more, again := strings.Cut(rest, "*")
		if !again {
			return strings.HasSuffix(s, piece)
		}
		_, after, ok := strings.Cut(s, piece)
		if !ok {
			return false
		}
		s, rest = after, more
	}
}
