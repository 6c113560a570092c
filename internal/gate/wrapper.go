package gate

import (
	"slices"
	"strings"
)

// This file is about commands that run other commands. What they run is judged as if it stood there by itself. The wrapper is
// judged too; where it adds nothing of its own, it needs no allowance.

// A wrapper says how to find the command in a wrapper's words. An option that is not named here makes it opaque.
type wrapper struct {
	flags    string // options alone, with a space between
	values   string // options with a value: the next word, or the same
	operands int    // words before the command
	assigns  bool   // assignments may stand before it
	power    bool   // it needs to be allowed itself
	shell    bool   // builtins may be meant
	joined   bool   // its words are joined and given to a shell
}

var wrappers = map[string]wrapper{
	"env":     {flags: "-i - --ignore-environment -0 --null -v --debug", values: "-u --unset", assigns: true},
	"command": {flags: "-p", shell: true},
	"builtin": {shell: true},
	"exec":    {flags: "-c -l", values: "-a", shell: true},
	"nohup":   {},
	"setsid":  {flags: "-w -f -c --wait --fork --ctty"},
	"nice":    {values: "-n --adjustment"},
	"ionice":  {flags: "-t --ignore", values: "-c -n --class --classdata"},
	"timeout": {flags: "--foreground --preserve-status -v --verbose -p -f", values: "-k -s --kill-after --signal", operands: 1},
	"stdbuf":  {values: "-i -o -e --input --output --error"},
	"time":    {flags: "-p -v"},
	"chronic": {},
	"sudo":    {flags: "-n -H -k -b --non-interactive", values: "-u -g --user --group", assigns: true, power: true},
	"doas":    {flags: "-n", values: "-u", power: true},
	"watch":   {flags: "-d -t -b -e -g -c -x --no-title --color", values: "-n --interval", power: true, joined: true},
}

// wrapper judges a wrapper and what it runs.
func (j *judge) wrapper(p part, w wrapper) flow {
	name := p.name()
	if (name == "command" || name == "type") && len(p.words) > 1 && p.words[1].is("-v", "-V") {
		j.run(p.words, p.words[0].value == name, p.why) // it only looks
		return stay(p.at)
	}
	rest, why := w.skip(p.words[1:])
	for w.assigns && len(rest) > 0 && why == "" {
		key, value, ok := strings.Cut(rest[0].value, "=")
		if !ok {
			break
		}
		if rest[0].split {
			why = "its command is known only when it runs"
		}
		if v := (word{value: value, literal: rest[0].literal}); changes(key, v, true) {
			why = "it sets " + key + ", which may change what runs"
		}
		j.path(rest[0], roleLook, p.at)
		rest = rest[1:]
	}
	for range w.operands {
		if len(rest) == 0 || !rest[0].literal {
			why = "its command is known only when it runs"
			break
		}
		rest = rest[1:]
	}
	if why != "" {
		if p.why == "" {
			p.why = why
		}
		return j.ordinary(p, program{role: roleAny})
	}
	bare := p.words[0].value == name && !w.power
	if len(rest) == 0 { // env prints, exec keeps redirections
		j.run(p.words, bare && name == "exec", p.why)
		return stay(p.at)
	}
	j.run(p.words, bare, p.why)
	if w.joined {
		return j.given(p, rest)
	}
	in := p.inner(rest)
	in.shell = w.shell && p.shell
	out := j.simple(in)
	if in.shell {
		return out
	}
	return stay(p.at)
}

// given judges words that are joined and given to sh.
func (j *judge) given(p part, words []word) flow {
	var texts []string
	for _, w := range words {
		if !w.literal {
			j.give("the text that a shell runs is known only then")
			return stay(p.at)
		}
		texts = append(texts, w.value)
	}
	j.script(strings.Join(texts, " "), dialect{posix: true}, p.at)
	return stay(p.at)
}

// skip passes over a wrapper's options. It says why if it cannot tell where they end.
func (w wrapper) skip(words []word) (rest []word, why string) {
	flags, values := strings.Fields(w.flags), strings.Fields(w.values)
	for len(words) > 0 {
		o := words[0]
		if o.is("--") {
			return words[1:], ""
		}
		if o.hidden() {
			return nil, "its command is known only when it runs"
		}
		if !o.option() && !o.is("-") {
			return words, ""
		}
		name, _, has := strings.Cut(o.value, "=")
		switch {
		case !o.literal:
			return nil, "its options are known only when it runs"
		case slices.Contains(flags, o.value):
			words = words[1:]
		case slices.Contains(values, o.value):
			if len(words) < 2 || !words[1].literal {
				return nil, "its options are known only when it runs"
			}
			words = words[2:]
		case has && strings.HasPrefix(name, "--") && slices.Contains(values, name):
			words = words[1:]
		case len(o.value) > 2 && o.value[1] != '-' && slices.Contains(values, o.value[:2]):
			words = words[1:]
		case w.values != "" && strings.Contains(w.values, "--adjustment") && digits(o.value[1:]): // nice -5
			words = words[1:]
		default:
			return nil, "its option " + o.text + " is not judged"
		}
	}
	return nil, ""
}

// xargsOptions are those of xargs; -I and its kin are looked at before.
var xargsOptions = wrapper{
	flags:  "-0 -r -t -x -o --null --no-run-if-empty --verbose --exit --open-tty",
	values: "-n -P -L -s -d -E --max-args --max-procs --max-lines --max-chars --delimiter --eof -I -J -R --replace",
}

// xargs judges what xargs runs: with words that nobody knows.
func (j *judge) xargs(p part) flow {
	rest, why := xargsOptions.skip(p.words[1:])
	if why != "" {
		p.why = why
		return j.ordinary(p, program{role: roleAny})
	}
	mark := ""
	for i, w := range p.words[:len(p.words)-len(rest)] {
		switch {
		case w.is("-I", "-J", "--replace") && i+1 < len(p.words):
			mark = p.words[i+1].value
		case strings.HasPrefix(w.value, "-I") || strings.HasPrefix(w.value, "-J"):
			mark = w.value[2:]
		case strings.HasPrefix(w.value, "--replace="):
			mark = strings.TrimPrefix(w.value, "--replace=")
		}
	}
	j.run(p.words, p.words[0].value == "xargs", p.why)
	if len(rest) == 0 {
		return stay(p.at)
	}
	inner := slices.Clone(rest)
	if mark == "" {
		inner = append(inner, word{text: "…", split: true})
	}
	for i, w := range inner {
		if mark != "" && strings.Contains(w.value, mark) {
			before, _, _ := strings.Cut(w.value, mark)
			inner[i] = word{text: w.text, value: before}
		}
	}
	j.simple(p.inner(inner))
	return stay(p.at)
}

// find judges find: where it starts, what it runs, what it writes.
func (j *judge) find(p part) flow {
	words := p.words[1:]
	starts := true
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.hidden() && p.why == "" {
			p.why = hiddenWhy(w)
		}
		if w.option() && !w.is("-L", "-H", "-P", "-O1", "-O2", "-O3") || w.is("(", "!") {
			starts = false
		}
		switch {
		case starts && !w.option():
			j.path(w, roleRead, p.at)
		case w.is("-exec", "-execdir", "-ok", "-okdir"):
			end := i + 1
			for end < len(words) && !words[end].is(";", "+") {
				end++
			}
			j.found(p, words[i+1:end], w)
			i = end
		case w.is("-delete"):
			j.edits(p.at, "it removes files that it does not name")
		case w.is("-fprint", "-fprint0", "-fls", "-fprintf") && i+1 < len(words):
			j.path(words[i+1], roleEdit, p.at)
			i++
		case w.is("-files0-from", "-newer", "-samefile") && i+1 < len(words):
			j.path(words[i+1], roleRead, p.at)
			i++
		}
	}
	j.run(p.words, false, p.why)
	return stay(p.at)
}

// found judges the command that find runs with the names it finds.
func (j *judge) found(p part, words []word, option word) {
	inner := slices.Clone(words)
	for i, w := range inner {
		switch {
		case w.is("{}"):
			inner[i] = word{text: "{}", value: "./*", glob: 3} // like a pattern: it names what is there
		case strings.Contains(w.value, "{}"):
			inner[i] = word{text: w.text, split: true}
		}
	}
	in := p.inner(inner)
	if option.is("-execdir", "-okdir") {
		in.at = anywhere
	}
	j.simple(in)
}
