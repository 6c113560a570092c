package gate

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sluice-dev/sluice/event"
)

// Bounds of what is judged. What is beyond them is opaque.
const (
	maxCommand = 64 << 10 // bytes
	maxNesting = 200      // brackets that are open at once
	maxScripts = 6        // bash -c in bash -c
	maxParts   = 500      // accesses
	maxLooks   = 4000     // paths
	maxPlaces  = 8        // folders in which a command may run
	maxMoves   = 50       // cd after cd
	maxPieces  = 50       // of a word, each of which may be a path
)

// Command says what a shell command would do, part by part, with the grammar of bash: the command must be run by bash, as
// bash -c without its startup files. Every simple command, wherever it stands, is an access to bash whose target is its text
// with single spaces and without quotes; files that it reads and writes by redirection, and what it names outside the
// workspace or in a protected place, are accesses of their own. What cannot be known is opaque, and says why.
//
// resolve tells where a path leads once links are followed; a relative one starts where the command does, and .. goes up from
// where a link leads. What goes up from a folder that is not there should be outside, since a link may be put there first. The
// target is relative to the workspace (slashes), or absolute if it is outside. Nil: nobody follows links.
func Command(command string, resolve func(path string) (target string, outside bool)) []Access {
	return judged(command, dialect{}, resolve)
}

// ShCommand is [Command] for a command that is run by a shell which may not be bash. What sh and bash read differently is judged
// both ways, or is opaque.
func ShCommand(command string, resolve func(path string) (target string, outside bool)) []Access {
	return judged(command, dialect{posix: true}, resolve)
}

func judged(command string, d dialect, resolve func(path string) (target string, outside bool)) []Access {
	if resolve == nil {
		resolve = lexical
	}
	j := &judge{resolve: resolve, seen: map[Access]bool{}, looked: map[string]look{}, made: map[string]bool{}}
	j.script(command, d, place{dirs: []string{""}})
	return j.result(command)
}

// A judge goes through a command and writes down what it would do.
type judge struct {
	resolve func(string) (string, bool)
	out     []Access
	seen    map[Access]bool
	looked  map[string]look
	depth   int    // of scripts in scripts
	full    string // why the whole is opaque, whatever its parts are

	made  map[string]bool // folders that the command makes, so that they are no links
	links bool            // it may also make links: then nobody can be sure of that

	moves int // how often it changed its folder

	// Of the script that is being read:
	src    string
	vars   map[string][]string  // variables that hold only what it says
	moving map[syntax.Node]bool // see movers
}

// A dialect says how a script within the command is read.
type dialect struct {
	posix bool // by sh, which may be bash or another
	eval  bool // by the shell that is running
}

// result is the list, with at least one command in it that needs to be allowed.
func (j *judge) result(command string) []Access {
	if j.full != "" || len(j.out) == 0 {
		why := j.full
		if why == "" {
			why = "there is no command in it"
		}
		j.out = append([]Access{{Permission: "bash", Target: escape(strings.TrimSpace(command)), Class: event.ClassExec, Opaque: true, Why: why}}, j.out...)
		return j.out
	}
	isBash := func(a Access) bool { return a.Permission == "bash" }
	slices.SortStableFunc(j.out, func(a, b Access) int { // what runs comes before what it touches
		switch {
		case isBash(a) == isBash(b):
			return 0
		case isBash(a):
			return -1
		}
		return 1
	})
	if !slices.ContainsFunc(j.out, func(a Access) bool { return isBash(a) && !a.Implied }) {
		if i := slices.IndexFunc(j.out, isBash); i >= 0 {
			j.out[i].Implied = false
		} else {
			j.out = append(j.out, Access{Permission: "bash", Target: escape(strings.TrimSpace(command)), Class: event.ClassExec})
		}
	}
	return j.out
}

// add writes down an access.
func (j *judge) add(a Access) {
	if j.seen[a] {
		return
	}
	if len(j.out) >= maxParts {
		j.give("it has too many parts")
		return
	}
	j.seen[a] = true
	j.out = append(j.out, a)
}

// give gives up on the whole.
func (j *judge) give(why string) {
	if j.full == "" {
		j.full = why
	}
}

// run writes down a simple command.
func (j *judge) run(words []word, implied bool, why string) {
	j.add(Access{Permission: "bash", Target: join(words), Class: event.ClassExec, Implied: implied && why == "", Opaque: why != "", Why: why})
}

// script judges a text as a shell would run it, and returns where it leaves that shell.
func (j *judge) script(text string, d dialect, at place) place {
	if why := unfit(text); why != "" {
		j.give(why)
		return at
	}
	if j.depth >= maxScripts {
		j.give("scripts are nested too deep")
		return at
	}
	f, err := parse(text, syntax.LangBash)
	if err != nil {
		j.give("it is not a whole shell command: " + err.Error())
		return at
	}
	readings := []*syntax.File{f}
	if d.posix {
		f, err := parse(text, syntax.LangPOSIX)
		if err != nil || strings.Contains(text, "$'") || strings.Contains(text, `$"`) {
			j.give("sh may read it otherwise than bash")
			return at
		}
		readings = append(readings, f)
	}
	src, vars, moving := j.src, j.vars, j.moving
	j.depth++
	j.src, j.vars, j.moving = text, nil, movers(f)
	if !d.eval {
		j.vars = j.known(f)
	}
	j.links = j.links || j.linking(f)
	if j.moving[f] && has[*syntax.FuncDecl](f) {
		at = anywhere
	}
	end := place{lost: at.lost}
	for i, f := range readings {
		if i > 0 {
			j.moving = movers(f)
		}
		end = end.or(j.list(f.Stmts, at).any())
	}
	j.src, j.vars, j.moving = src, vars, moving
	j.depth--
	return end
}

// unfit says why a text should not even be parsed: it is too much, or programs do not agree on what its characters mean.
func unfit(text string) string {
	if len(text) > maxCommand {
		return "it is too long"
	}
	if !utf8.ValidString(text) {
		return "it is not valid UTF-8"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return "it has a control character"
	}
	for line := range strings.Lines(text) {
		// The parser goes on with the next line if a comment ends in a backslash, bash does not.
		if strings.Contains(line, "#") && strings.HasSuffix(line, "\\\n") {
			return "a line with a # in it ends in a backslash"
		}
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return "it is nested too deep"
		}
	}
	return ""
}

// parse reads a script. The parser is somebody else's and the text is hostile: a panic is an error.
func parse(text string, variant syntax.LangVariant) (f *syntax.File, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, syntax.ParseError{Text: "the parser gave up"}
		}
	}()
	return syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), "")
}

// has says whether there is a node of type T.
func has[T syntax.Node](root syntax.Node) bool {
	found := false
	syntax.Walk(root, func(n syntax.Node) bool {
		if _, ok := n.(T); ok {
			found = true
		}
		return !found
	})
	return found
}

// linking says whether a script may make a link by itself.
func (j *judge) linking(f *syntax.File) bool {
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok && path.Base(j.word(w).value) == "ln" {
			found = true
		}
		return !found
	})
	return found
}

// movers finds what in a script may change its working folder: those commands, and all that they are part of.
func movers(f *syntax.File) map[syntax.Node]bool {
	found := map[syntax.Node]bool{}
	var above []syntax.Node
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		above = append(above, n)
		moves := false
		switch n := n.(type) {
		case *syntax.Word:
			switch n.Lit() {
			case "cd", "pushd", "popd", "eval", "source", ".":
				moves = true
			}
		case *syntax.CallExpr:
			moves = len(n.Args) > 0 && n.Args[0].Lit() == "" // its name is quoted or not known
		}
		for i := len(above) - 1; moves && i >= 0 && !found[above[i]]; i-- {
			found[above[i]] = true
		}
		return true
	})
	return found
}
