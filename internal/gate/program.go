package gate

import (
	"slices"
	"strings"
)

// This file knows programs: what they do with the words that they are given, and which of their options do more than a person
// has in mind who allows the program.

// A program says what becomes of a command's words.
type program struct {
	role    role   // of its operands
	first   role   // of the first one, if only plain options stand before it: a pattern, a mode; zero: as the others
	pattern bool   // the first operand is no path (first cannot say so)
	flags   string // the letters of plain options, which take no value
	last    role   // of the last one, if there are several; zero: as the others
	opaque  string // options that run something else
	edits   string // options whose value is a file that is written
	unnamed string // not empty: it writes files that it does not name
	loose   bool   // what it runs is anyway for others to say: words that nobody knows do no more harm
}

var (
	reader = program{role: roleRead}
	writer = program{role: roleEdit}
	grep   = program{role: roleRead, pattern: true, flags: "rRnilLwvcoqsEFPGHhxzaITUSN"}
	moded  = program{role: roleEdit, pattern: true, flags: "Rvcfh"}
	unpack = program{role: roleRead, unnamed: "it writes files that it does not name"}
	shrink = program{role: roleEdit}
)

var programs = map[string]program{
	"cat": reader, "tac": reader, "nl": reader, "head": reader, "tail": reader, "wc": reader, "stat": reader, "cmp": reader, "comm": reader,
	"cksum": reader, "md5sum": reader, "sha1sum": reader, "sha224sum": reader, "sha256sum": reader, "sha384sum": reader, "sha512sum": reader,
	"b2sum": reader, "md5": reader, "shasum": reader, "du": reader, "df": reader, "ls": reader, "dir": reader, "vdir": reader,
	"readlink": reader, "realpath": reader, "basename": {role: roleLook}, "dirname": {role: roleLook}, "od": reader, "hexdump": reader,
	"strings": reader, "file": {role: roleRead, opaque: "-C --compile"}, "diff": reader, "colordiff": reader, "cut": reader, "paste": reader, "join": reader, "column": reader,
	"fold": reader, "fmt": reader, "expand": reader, "unexpand": reader, "rev": reader, "tr": {role: roleNone}, "expr": {role: roleNone}, "seq": {role: roleNone},
	"which": {role: roleLook}, "date": {role: roleLook}, "zcat": reader, "xzcat": reader, "bzcat": reader, "zgrep": grep,
	"less": {role: roleRead, opaque: "+ -k --lesskey-file --lesskey-src", edits: "-o -O --log-file --LOG-FILE"}, "more": {role: roleRead, opaque: "+"},
	"man":  {role: roleLook, opaque: "-P --pager -H --html -C --config-file"},
	"tree": {role: roleRead, edits: "-o --output"},
	"sort": {role: roleRead, opaque: "--compress-program", edits: "-o --output"},
	"uniq": {role: roleRead, last: roleEdit}, "grep": grep, "egrep": grep, "fgrep": grep,
	"rg": {role: roleRead, pattern: true, flags: grep.flags + "uujp", opaque: "--pre --hostname-bin"},
	"ag": {role: roleRead, pattern: true, flags: grep.flags, opaque: "--pager"}, "ack": {role: roleRead, pattern: true, flags: grep.flags, opaque: "--pager --ackrc"},
	"fd": {role: roleRead, pattern: true, flags: "HIuisgaLpl", opaque: "-x -X --exec --exec-batch"},
	"jq": {role: roleRead, pattern: true, flags: "rcnSsjaMCe"},

	"tee": writer, "rm": writer, "rmdir": writer, "unlink": writer, "mkdir": writer, "touch": writer, "truncate": writer, "shred": writer,
	"mkfifo": writer, "mknod": writer, "ln": writer, "link": writer, "mv": writer, "install": writer, "sponge": writer, "ed": writer, "ex": writer,
	"chmod": moded, "chown": moded, "chgrp": moded, "cp": {role: roleRead, last: roleEdit, edits: "-t --target-directory"},
	"rsync": {role: roleRead, last: roleEdit, opaque: "-e --rsh --rsync-path"},
	"gzip":  shrink, "gunzip": shrink, "xz": shrink, "unxz": shrink, "bzip2": shrink, "bunzip2": shrink, "zstd": shrink,
	"unzip": unpack, "patch": unpack, "cpio": unpack, "7z": unpack, "ar": unpack, "unar": unpack, "pax": unpack,
	"zip":  {role: roleRead, first: roleEdit, flags: "rqj", opaque: "-T --test -TT --unzip-command"},
	"make": {role: roleAny, opaque: "--eval SHELL= .SHELLFLAGS= MAKEFLAGS=", loose: true}, "gmake": {role: roleAny, opaque: "--eval SHELL= .SHELLFLAGS= MAKEFLAGS=", loose: true},
	"wget": {role: roleAny, opaque: "--use-askpass -e --execute"},
}

// readsOnly says whether a command of that name can be let into a protected folder.
func readsOnly(name string) bool {
	p, ok := programs[name]
	return slices.Contains(quiet, name) || name == "find" || ok && (p.role == roleRead || p.role == roleNone || p.role == roleLook) && p.last == 0 && p.edits == "" && p.unnamed == ""
}

// ordinary judges a program by what is known of it.
func (j *judge) ordinary(p part, k program) flow {
	opaque, edits := strings.Fields(k.opaque), strings.Fields(k.edits)
	words := p.words[1:]
	operands, special := k.operands(words)
	if k.unnamed != "" {
		j.edits(p.at, k.unnamed)
	}
	exclude := false
	done := false
	for i, w := range words {
		if !done && p.why == "" {
			switch {
			case matchOption(w, opaque) >= 0:
				p.why = "its option " + clip(w.text) + " runs or changes something else"
			case w.hidden() && len(opaque)+len(edits) > 0 && !k.loose:
				p.why = hiddenWhy(w)
			}
		}
		r := k.role
		switch {
		case w.option() && !done:
			switch k.role {
			case roleRead:
				r = roleLook
			case roleEdit:
				r = roleAny
			}
			if at := matchOption(w, edits); at >= 0 {
				to := roleTo
				if k.last == roleEdit { // its operands are written too: it is what the command is for
					to = roleEdit
				}
				j.optionValue(words, i, at, to, p.at)
			}
		case special && i == operands[0] && k.pattern:
			r = roleNone
		case special && i == operands[0] && k.first != 0:
			r = k.first
		case k.last != 0 && len(operands) > 1 && i == operands[len(operands)-1]:
			r = k.last
		}
		if exclude && r == roleAny || r == roleAny && excludes(w) {
			r = roleLook
		}
		exclude = excludes(w)
		j.path(w, r, p.at)
		switch p.name() {
		case "mkdir":
			j.makes(w, p.at)
		case "rm", "mv", "shred", "rmdir":
			j.whole(p, w)
		}
		done = done || w.is("--")
	}
	j.run(p.words, false, p.why)
	return stay(p.at)
}

// hiddenWhy says why a command is opaque that has options which do more, and a word that may be one of them.
func hiddenWhy(w word) string {
	if w.glob == 1 {
		return "a file may be named like an option: write ./" + clip(w.text)
	}
	return "its options are known only when it runs"
}

// operands are the places of the words that are no options, and whether the first of them is what it should be: only plain
// options stand before it, none of which could have taken its place.
func (k program) operands(words []word) (at []int, special bool) {
	special = true
	done := false
	for i, w := range words {
		switch {
		case !done && w.is("--"):
			done = true
		case done || !w.option():
			at = append(at, i)
		case len(at) == 0 && !k.plainOption(w):
			special = false
		}
	}
	return at, special && len(at) > 0 && !words[at[0]].hidden()
}

// plainOption says whether an option surely takes no further word.
func (k program) plainOption(w word) bool {
	if !w.literal {
		return false
	}
	if long, ok := strings.CutPrefix(w.value, "--"); ok {
		name, _, has := strings.Cut(long, "=")
		return has && slices.Contains([]string{"include", "exclude", "exclude-dir", "color", "colour", "context", "max-count", "type", "glob"}, name) ||
			slices.Contains([]string{"recursive", "line-number", "ignore-case", "files-with-matches", "count", "word-regexp", "hidden", "fixed-strings", "only-matching", "invert-match", "no-heading", "extended-regexp", "raw-output", "compact-output"}, long)
	}
	s := strings.TrimLeft(w.value[1:], k.flags)
	return s == "" || k.pattern && strings.ContainsAny(s[:1], "ABCm") && digits(s[1:])
}

// excludes says whether a word is an option that names what to leave out.
func excludes(w word) bool {
	name, _, _ := strings.Cut(w.value, "=")
	return w.option() && (strings.Contains(name, "exclude") || strings.Contains(name, "ignore") || strings.Contains(name, "skip") || strings.Contains(name, "prune"))
}

// matchOption finds a word among options. A long one may be cut short, as most programs accept it; letters may stand together; a
// plus or an assignment is matched by its beginning. It returns where in the word the option's value begins, which is its end
// if that is the next word; or -1.
func matchOption(w word, list []string) int {
	name, _, has := strings.Cut(w.value, "=")
	for _, o := range list {
		switch {
		case strings.HasPrefix(o, "--"):
			if strings.HasPrefix(w.value, "--") && len(name) > 2 && strings.HasPrefix(o, name) {
				if has {
					return len(name) + 1
				}
				return len(w.value)
			}
		case strings.HasPrefix(o, "-"):
			if !w.option() || strings.HasPrefix(w.value, "--") {
				break
			}
			if i := strings.Index(w.value, o[1:]); i > 0 {
				return i + len(o) - 1
			}
		case strings.HasPrefix(w.value, o):
			return len(o)
		}
	}
	return -1
}

// optionValue judges the file that an option names, in its own word from at on or in the next.
func (j *judge) optionValue(words []word, i, at int, r role, where place) {
	w := words[i]
	switch {
	case at < len(w.value):
		w.value, w.tilde = w.value[at:], false
		w.text = show(w.value)
		w.glob = max(0, w.glob-at)
		j.path(w, r, where)
	case !w.literal:
		j.path(word{text: w.text}, r, where)
	case i+1 < len(words):
		j.path(words[i+1], r, where)
	}
}

// whole catches what takes away a protected place with the folder that it is in.
func (j *judge) whole(p part, w word) {
	if !w.literal {
		return
	}
	for _, dir := range p.at.dirs {
		if t, out := j.where(under(dir, w.value), w.tilde); t == "." && !out {
			j.touch(protectedNames[0], roleEdit, false)
		}
	}
}

// edits writes down that a command writes what it does not name, where it runs.
func (j *judge) edits(at place, why string) {
	for _, dir := range at.dirs {
		t, out := j.where(under(dir, "."), false)
		if out {
			j.touch(t, roleLook, false)
		}
		j.add(editUnnamed(t, why))
	}
}
