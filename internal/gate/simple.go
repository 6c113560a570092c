package gate

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A part is a simple command with its surroundings.
type part struct {
	words []word
	at    place
	why   string // it is opaque whatever it is
	shell bool   // the shell itself runs it: builtins are builtins
}

// name is the command's name as its effects are known by: /bin/rm removes as rm does.
func (p part) name() string { return path.Base(p.words[0].value) }

// inner is the command that a wrapper runs.
func (p part) inner(words []word) part { return part{words: words, at: p.at, why: p.why} }

// quiet builtins do nothing that anybody need be asked about, as long as they come with something else.
var quiet = []string{
	":", "true", "false", "echo", "printf", "pwd", "test", "[", "exit", "return", "break", "continue", "shift", "wait", "type", "umask",
	"times", "read", "unset", "set", "cd", "pushd", "sleep", "hash",
}

// shady builtins change what later commands mean, or run text that is not on the page.
var shady = []string{
	"source", ".", "alias", "unalias", "enable", "bind", "complete", "compgen", "compopt", "fc", "history", "shopt", "trap", "mapfile",
	"readarray", "let", "caller", "coproc", "popd", "dirs", "suspend", "logout", "getopts",
}

// shadows says whether a function of that name would stand in for something that is known here.
func shadows(name string) bool {
	if slices.Contains(quiet, name) || slices.Contains(shady, name) || strings.Contains(name, "/") {
		return true
	}
	_, wraps := wrappers[name]
	_, known := programs[name]
	_, judged := special[name]
	return wraps || known || judged
}

// special are commands that are judged by a function of their own. It is filled in by init, since they call each other.
var special map[string]func(*judge, part) flow

func init() {
	special = map[string]func(*judge, part) flow{
		"cd": (*judge).chdir, "pushd": (*judge).chdir, "eval": (*judge).eval, "set": (*judge).set, "read": (*judge).naming,
		"unset": (*judge).naming, "printf": (*judge).naming, "test": (*judge).naming, "[": (*judge).naming, "hash": (*judge).hash,
		"bash": (*judge).shell, "sh": (*judge).shell, "dash": (*judge).shell, "ash": (*judge).shell, "rbash": (*judge).shell,
		"zsh": (*judge).strange, "ksh": (*judge).strange, "mksh": (*judge).strange, "fish": (*judge).strange, "csh": (*judge).strange,
		"tcsh": (*judge).strange, "pwsh": (*judge).strange, "busybox": (*judge).strange, "toybox": (*judge).strange,
		"ssh": (*judge).strange, "scp": (*judge).strange, "sftp": (*judge).strange, "parallel": (*judge).strange, "su": (*judge).strange,
		"find": (*judge).find, "xargs": (*judge).xargs, "git": (*judge).git, "sed": (*judge).sed, "gsed": (*judge).sed,
		"awk": (*judge).awk, "gawk": (*judge).awk, "mawk": (*judge).awk, "nawk": (*judge).awk,
		"tar": (*judge).tar, "bsdtar": (*judge).tar, "gtar": (*judge).tar, "dd": (*judge).dd,
	}
}

// simple judges a simple command, and says where it leaves the shell.
func (j *judge) simple(p part) flow {
	if p.at.lost && p.why == "" {
		p.why = "nobody knows in which folder it runs"
	}
	if len(p.words) == 0 {
		return stay(p.at)
	}
	name := p.words[0]
	if !name.literal || name.tilde || name.value == "" || strings.ContainsFunc(name.value, func(r rune) bool { return r == '\n' || r == '\t' }) {
		p.why = "the name of the command is known only when it runs"
		return j.ordinary(p, program{role: roleAny})
	}
	base := p.name()
	p.shell = p.shell && name.value == base // ./cd is a program
	if p.at.protected() && !readsOnly(base) {
		for _, dir := range p.at.dirs {
			j.touch(dir, roleAny, false)
		}
	}
	if slices.Contains(shady, base) {
		if p.why == "" {
			p.why = base + " changes what other commands mean, or runs what is not on the page"
		}
		j.ordinary(p, program{role: roleAny})
		if base == "popd" || base == "source" || base == "." {
			return flow{anywhere, p.at}
		}
		return stay(p.at)
	}
	if f, ok := special[base]; ok {
		return f(j, p)
	}
	if w, ok := wrappers[base]; ok {
		return j.wrapper(p, w)
	}
	if slices.Contains(quiet, base) || base == "cat" && len(p.words) == 1 { // cat alone passes on what it is given
		j.run(p.words, name.value == base, p.why)
		return stay(p.at)
	}
	known, ok := programs[base]
	if !ok {
		known = program{role: roleAny}
	}
	return j.ordinary(p, known)
}

// protected says whether a command may run in a protected folder.
func (p place) protected() bool { return slices.ContainsFunc(p.dirs, protected) }

// chdir follows cd and pushd.
func (j *judge) chdir(p part) flow {
	args := p.words[1:]
	for len(args) > 0 && args[0].is("-P", "-L", "-e", "-n", "--") {
		args = args[1:]
	}
	j.run(p.words, p.words[0].value == p.name(), p.why)
	if !p.shell {
		return stay(p.at)
	}
	if len(args) != 1 || !args[0].literal || args[0].option() || args[0].is("-", "") || strings.HasPrefix(args[0].value, "+") {
		if len(args) == 0 {
			j.touch("~", roleLook, true)
		}
		for _, w := range args {
			j.path(w, roleLook, p.at)
		}
		return flow{anywhere, p.at}
	}
	j.path(args[0], roleLook, p.at)
	if j.moves++; j.moves > maxMoves {
		return flow{anywhere, p.at}
	}
	to := place{lost: p.at.lost}
	for _, dir := range p.at.dirs {
		d := under(dir, args[0].value)
		if args[0].tilde {
			d = args[0].value
		}
		to = to.or(place{dirs: []string{d}})
		if strings.Contains(d, "..") { // cd goes up from where a link stands, other programs from where it leads
			t, _ := j.where(d, args[0].tilde)
			to = to.or(place{dirs: []string{path.Clean(d), t}})
		}
	}
	return flow{to, p.at}
}

// eval judges the text that eval runs.
func (j *judge) eval(p part) flow {
	var texts []string
	for _, w := range p.words[1:] {
		if !w.literal {
			p.why = "eval runs text that is known only then"
			j.ordinary(p, program{role: roleAny})
			return flow{anywhere, p.at}
		}
		texts = append(texts, w.value)
	}
	j.run(p.words, p.shell, p.why)
	return stay(j.script(strings.Join(texts, " "), dialect{eval: true}, p.at))
}

// set judges the options of the shell: those that stop at errors or show commands are harmless.
func (j *judge) set(p part) flow {
	for i := 1; i < len(p.words); i++ {
		w := p.words[i]
		switch {
		case w.is("--"):
			i = len(p.words)
		case w.is("pipefail", "errexit", "nounset", "xtrace", "noclobber"):
		case !w.literal || strings.Trim(w.value, "+-euxvfCo") != "" || !strings.ContainsAny(w.value[:1], "+-"):
			if p.why == "" {
				p.why = "it changes how the shell reads what follows"
			}
		}
	}
	j.run(p.words, true, p.why)
	return stay(p.at)
}

// naming judges builtins that take names of variables: a subscript in a name is evaluated.
func (j *judge) naming(p part) flow {
	base, args := p.name(), p.words[1:]
	for i, w := range args {
		isName := base == "read" || base == "unset" || i > 0 && args[i-1].is("-v")
		isTest := base == "test" || base == "["
		if isName && (!w.literal || strings.Contains(w.value, "[")) ||
			isTest && (w.split || w.hidden() && i > 0 && args[i-1].hidden()) ||
			base == "printf" && (w.hidden() && i == 0 || strings.HasPrefix(w.value, "-v") && w.value != "-v") {
			if p.why == "" {
				p.why = "it evaluates the name of a variable"
			}
		}
		if isName && w.literal && changes(w.value, unknown("", ""), false) && syntax.ValidName(w.value) && p.why == "" {
			p.why = "it sets " + w.value + ", which may change what runs"
		}
		if isTest {
			j.path(w, roleLook, p.at)
		}
	}
	j.run(p.words, p.words[0].value == base, p.why)
	return stay(p.at)
}

// hash judges hash, which can give a name another program.
func (j *judge) hash(p part) flow {
	if len(p.words) > 1 && !p.words[1].is("-r") && p.why == "" {
		p.why = "it can give a name another program"
	}
	j.run(p.words, true, p.why)
	return stay(p.at)
}

// strange judges programs that run text in a language or on a machine that is not judged here.
func (j *judge) strange(p part) flow {
	if p.why == "" && len(p.words) > 1 && !p.words[1].is("--version", "--help", "-V") {
		p.why = p.name() + " runs what is not judged here"
	}
	return j.ordinary(p, program{role: roleAny})
}

// shell judges bash and sh: the text of -c is judged as what it is.
func (j *judge) shell(p part) flow {
	rest := p.words[1:]
	command := false
	for len(rest) > 0 && (rest[0].option() || rest[0].hidden()) {
		w := rest[0]
		rest = rest[1:]
		switch {
		case w.is("--norc", "--noprofile", "--posix"):
		case w.is("--version", "--help"):
			return j.ordinary(p, program{role: roleAny})
		case w.is("-o", "+o") && len(rest) > 0 && rest[0].is("pipefail", "errexit", "nounset"):
			rest = rest[1:]
		case w.literal && strings.Trim(w.value, "-ceuxv") == "" && !strings.HasPrefix(w.value, "--"):
			command = command || strings.Contains(w.value, "c")
		case w.hidden():
			p.why = "the text that the shell runs is known only then"
			return j.ordinary(p, program{role: roleAny})
		default:
			p.why = "the shell is started in a way that is not judged"
			return j.ordinary(p, program{role: roleAny})
		}
	}
	switch {
	case len(rest) == 0 || rest[0].is("-"):
		p.why = "the shell runs what it reads"
	case command && rest[0].literal:
		j.run(p.words, p.words[0].value == p.name(), p.why)
		for _, w := range rest[1:] {
			j.path(w, roleAny, p.at)
		}
		j.script(rest[0].value, dialect{posix: p.name() != "bash"}, p.at)
		return stay(p.at)
	case command:
		p.why = "the text that the shell runs is known only then"
	case !rest[0].literal || strings.HasPrefix(rest[0].value, "/dev/") || strings.HasPrefix(rest[0].value, "/proc/"):
		p.why = "the file that the shell runs is known only then"
	}
	return j.ordinary(p, program{role: roleAny})
}
