package gate

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file is about variables: which ones may be set without changing what runs, and which ones hold what can be known.

// harmless variables change how a program looks or how much it says, and not what it runs. One ending in _ is a beginning.
var harmless = []string{
	"CI", "COLUMNS", "LINES", "TERM", "TZ", "LANG", "LANGUAGE", "LC_", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
	"DEBUG", "VERBOSE", "LOG_LEVEL", "NODE_ENV", "RAILS_ENV", "RUST_BACKTRACE", "RUST_LOG", "GOOS", "GOARCH", "GOARM", "GOAMD64",
	"CGO_ENABLED", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GOTRACEBACK", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
	"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "SOURCE_DATE_EPOCH", "DEBIAN_FRONTEND", "PORT",
}

// speaking are parts of names that speak of a place or a program: with those not even a number is harmless, since it may be
// the name of a folder.
var speaking = []string{
	"PATH", "HOME", "DIR", "ENV", "FILE", "ROOT", "LIB", "PRELOAD", "SHELL", "EDITOR", "PAGER", "COMMAND", "CMD", "OPT", "FLAG",
	"CONFIG", "RC", "STARTUP", "WRAPPER", "IFS", "GIT_", "LD_", "DYLD_", "BASH", "PS", "EXEC", "TOOL", "HOOK", "PWD", "USER", "HOST",
}

// changes says whether setting a variable for a command may change what runs.
func changes(name string, value word, exported bool) bool {
	if slices.ContainsFunc(harmless, func(h string) bool { return h == name || strings.HasSuffix(h, "_") && strings.HasPrefix(name, h) }) {
		return false
	}
	upper := strings.ToUpper(name)
	if slices.ContainsFunc(speaking, func(s string) bool { return strings.Contains(upper, s) }) && (exported || upper == name) {
		return true
	}
	if !exported && upper != name {
		return false // a variable of the script: programs do not see it
	}
	return !value.literal || !dull(value.value)
}

// dull values are numbers and words for yes and no.
func dull(s string) bool {
	switch strings.ToLower(s) {
	case "", "true", "false", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return strings.Trim(s, "0123456789.") == ""
}

// known finds the variables of a script that can only hold what the script itself says: set by plain assignments and for
// loops to tame words, by nothing else, and not named like what an environment may hold already.
func (j *judge) known(f *syntax.File) map[string][]string {
	vars, spoilt := map[string][]string{}, map[string]bool{}
	bind := func(name string, w word) {
		v := w.value
		if !(w.literal || w.glob > 0) || !tame(v) {
			spoilt[name] = true
		}
		vars[name] = append(vars[name], v)
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			for _, a := range n.Assigns {
				if a.Append || a.Index != nil || a.Array != nil || a.Value == nil {
					spoilt[a.Name.Value] = true
				} else {
					bind(a.Name.Value, j.word(a.Value))
				}
			}
			for i, w := range n.Args { // read, printf -v, getopts, mapfile …: whatever is called like a variable may set it
				lit := w.Lit()
				if name := j.word(w).value; name != "" {
					spoilt[name] = true
				}
				if i == 0 && slices.Contains([]string{"", "eval", "source", ".", "trap", "read", "mapfile", "readarray"}, lit) {
					spoilt[""] = true
				}
			}
		case *syntax.DeclClause:
			for _, a := range n.Args {
				if a.Name != nil {
					spoilt[a.Name.Value] = true
				}
			}
		case *syntax.ForClause:
			if it, ok := n.Loop.(*syntax.WordIter); ok {
				if it.Name == nil || n.Select || !it.InPos.IsValid() {
					spoilt[""] = true
					break
				}
				for _, w := range j.words(it.Items) {
					bind(it.Name.Value, w)
				}
			}
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				spoilt[n.Param.Value] = true
			}
		case *syntax.FuncDecl, *syntax.CoprocClause:
			spoilt[""] = true
		}
		return true
	})
	if spoilt[""] {
		return nil
	}
	for name, values := range vars {
		if spoilt[name] || len(values) > 32 || name == "" || name[0] < 'a' || name[0] > 'z' {
			delete(vars, name)
		}
	}
	return vars
}

// tame values are one word, whatever the shell does with them, and no option.
func tame(s string) bool {
	return s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./@%+:,=-*", r))
	}) < 0
}
