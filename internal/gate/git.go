package gate

import (
	"slices"
	"strings"
)

// This file is about git. Who allows git * has its usual work in mind; git can also run any program that a setting, an option or
// an environment variable names. Those ways are opaque.

// A gitCommand says what is known of one of git's commands. Those that are not in the table may be aliases or run anything.
type gitCommand struct {
	reads  bool     // it changes nothing that a path names
	opaque string   // options that run something else
	edits  string   // options whose value is a file that is written
	free   bool     // it has no such options: words that nobody knows do no harm
	only   []string // if not nil: the words that may come first
}

var (
	gitDiff = gitCommand{reads: true, opaque: "--ext-diff --textconv", edits: "--output"}
	gitFree = gitCommand{free: true}
	gitLook = gitCommand{reads: true, free: true}
	gitGrep = program{pattern: true, flags: "nilLwvcohHEFGPaIrq"}
	gitWire = gitCommand{opaque: "--upload-pack --receive-pack --exec -u --config --template --separate-git-dir"}
)

var gitCommands = map[string]gitCommand{
	"log": gitDiff, "diff": gitDiff, "show": gitDiff, "whatchanged": gitDiff, "shortlog": gitDiff, "rev-list": gitDiff, "diff-tree": gitDiff,
	"diff-index": gitDiff, "diff-files": gitDiff, "range-diff": gitDiff, "blame": gitDiff, "annotate": gitDiff, "reflog": gitDiff,
	"stash": {opaque: "--ext-diff --textconv", edits: "--output"},

	"status": gitLook, "ls-files": gitLook, "ls-tree": gitLook, "rev-parse": gitLook, "describe": gitLook,
	"for-each-ref": gitLook, "show-ref": gitLook, "show-branch": gitLook, "merge-base": gitLook, "name-rev": gitLook, "cherry": gitLook,
	"count-objects": gitLook, "check-ignore": gitLook, "check-attr": gitLook, "check-ref-format": gitLook, "check-mailmap": gitLook,
	"version": gitLook, "verify-commit": gitLook, "verify-tag": gitLook, "merge-tree": gitLook, "fsck": gitLook, "column": gitLook,
	"cat-file": {reads: true, opaque: "--textconv --filters"},
	"grep":     {reads: true, opaque: "-O --open-files-in-pager --ext-grep --textconv"},

	"add": gitFree, "rm": gitFree, "mv": gitFree, "restore": gitFree, "reset": gitFree, "switch": gitFree, "checkout": gitFree, "branch": gitFree,
	"commit": gitFree, "merge": gitFree, "cherry-pick": gitFree, "revert": gitFree, "tag": gitFree, "clean": gitFree, "notes": gitFree,
	"worktree": gitFree, "gc": gitFree, "prune": gitFree, "pack-refs": gitFree, "update-ref": gitFree, "symbolic-ref": gitFree,
	"write-tree": gitFree, "commit-tree": gitFree, "read-tree": gitFree, "hash-object": {}, "update-index": gitFree, "sparse-checkout": gitFree,
	"stripspace": gitFree, "mktree": gitFree,
	"apply": {opaque: "--unsafe-paths"}, "am": gitFree,
	"rebase":       {opaque: "-x --exec"},
	"format-patch": {opaque: "--ext-diff --textconv", edits: "-o --output-directory --output"},
	"archive":      {opaque: "--exec --remote", edits: "-o --output"},
	"bisect":       {only: []string{"start", "good", "bad", "new", "old", "skip", "reset", "log", "terms"}},
	"submodule":    {only: []string{"status", "init", "deinit", "update", "add", "sync", "summary", "set-branch", "set-url", "absorbgitdirs"}, opaque: gitWire.opaque},
	"init":         {opaque: "--template --separate-git-dir"},
	"clone":        {opaque: gitWire.opaque + " -c"},
	"fetch":        {opaque: "--upload-pack --exec"}, "pull": {opaque: "--upload-pack --exec"}, "push": {opaque: "--receive-pack --exec"},
	"ls-remote": {opaque: "--upload-pack --exec"}, "remote": gitFree,
}

// gitSettings are settings that change how git looks, and not what it runs. One ending in a dot is a beginning.
var gitSettings = []string{
	"user.name", "user.email", "color.", "advice.", "core.quotepath", "core.autocrlf", "core.filemode", "init.defaultbranch", "pull.rebase", "pull.ff",
	"push.default", "push.autosetupremote", "commit.gpgsign", "tag.gpgsign", "merge.conflictstyle", "diff.renames", "diff.noprefix", "log.date",
	"fetch.prune", "rebase.autostash", "rebase.autosquash", "status.", "branch.sort", "safe.directory",
}

func dullSetting(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc(gitSettings, func(s string) bool { return s == key || strings.HasSuffix(s, ".") && strings.HasPrefix(key, s) })
}

// git judges git.
func (j *judge) git(p part) flow {
	sub, at, why := j.gitOptions(p)
	if why == "" {
		why = gitSub(sub)
	}
	if p.why == "" {
		p.why = why
	}
	var k gitCommand
	if len(sub) > 0 {
		k = gitCommands[sub[0].value]
	}
	r := roleAny
	if k.reads {
		r = roleLook
	}
	edits := strings.Fields(k.edits)
	needle := -1 // what git grep looks for
	if len(sub) > 1 && sub[0].is("grep") {
		if at, ok := gitGrep.operands(sub[1:]); ok {
			needle = at[0] + 1
		}
	}
	for i, w := range sub {
		if i == 0 {
			continue
		}
		message := sub[0].is("commit", "tag", "notes", "merge", "stash") && (sub[i-1].is("-m", "--message") || messageFlag(sub[i-1]) || strings.HasPrefix(w.value, "--message="))
		pattern := i == needle || sub[0].is("log", "diff", "show") && sub[i-1].is("-S", "-G", "--grep", "--author", "--format")
		if message || pattern && !w.option() {
			continue
		}
		if o := matchOption(w, edits); o >= 0 {
			j.optionValue(sub, i, o, roleTo, at)
		}
		j.path(w, r, at)
	}
	j.run(p.words, false, p.why)
	return stay(p.at)
}

// messageFlag says whether an option is like -am: what follows is a message.
func messageFlag(w word) bool {
	return w.literal && len(w.value) > 2 && w.value[0] == '-' && w.value[1] != '-' && strings.HasSuffix(w.value, "m") && strings.Trim(w.value, "-asvqnem") == ""
}

// gitOptions passes over the options before git's command. It returns the command with its words, and where it works.
func (j *judge) gitOptions(p part) (sub []word, at place, why string) {
	words, at := p.words[1:], p.at
	for len(words) > 0 {
		w := words[0]
		switch {
		case w.hidden():
			return nil, at, "git's command is known only when it runs"
		case !w.option():
			return words, at, ""
		case w.is("--no-pager", "-P", "-p", "--paginate", "--no-replace-objects", "--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs", "--no-advice"):
			words = words[1:]
		case w.is("--version", "-v", "--help", "-h", "--html-path", "--man-path", "--info-path", "--exec-path"):
			return words, at, ""
		case w.is("-C") && len(words) > 1 && words[1].literal && !words[1].tilde:
			j.path(words[1], roleAny, at)
			to := place{lost: at.lost}
			for _, dir := range at.dirs {
				to = to.or(place{dirs: []string{under(dir, words[1].value)}})
			}
			words, at = words[2:], to
		case w.is("-c") && len(words) > 1:
			key, _, _ := strings.Cut(words[1].value, "=")
			if !strings.Contains(words[1].value, "=") || !dullSetting(key) || words[1].split {
				return words[2:], at, "a setting of git may run a program: " + clip(words[1].text)
			}
			words = words[2:]
		default:
			return words[1:], at, "git's option " + clip(w.text) + " is not judged"
		}
	}
	return nil, at, ""
}

// gitSub says why one of git's commands is opaque, or nothing.
func gitSub(sub []word) string {
	if len(sub) == 0 || sub[0].option() {
		return ""
	}
	name := sub[0].value
	if !sub[0].literal {
		return "git's command is known only when it runs"
	}
	if name == "config" {
		return gitConfig(sub[1:])
	}
	k, ok := gitCommands[name]
	if !ok {
		return "git " + clip(name) + " may run anything"
	}
	if k.only != nil && len(sub) > 1 && !sub[1].is(k.only...) {
		return "git " + name + " " + clip(sub[1].text) + " is not judged"
	}
	opaque := strings.Fields(k.opaque)
	message, file := false, false
	for _, w := range sub[1:] {
		switch {
		case w.is("--"):
			return ""
		case strings.Contains(w.value, "::"):
			return "an address with :: names a program: " + clip(w.text)
		case matchOption(w, opaque) >= 0:
			return "git's option " + clip(w.text) + " may run a program"
		case w.hidden() && (!k.free && !message || file):
			return hiddenWhy(w)
		}
		file = w.is("-F", "--file", "-t", "--template")
		message = w.is("-m", "--message") || messageFlag(w)
	}
	return ""
}

// gitConfig says why git config is opaque: it writes a setting that may run a program.
func gitConfig(words []word) string {
	if len(words) > 0 && words[0].is("get", "list", "--get", "--list", "-l", "--get-all", "--get-regexp") {
		return ""
	}
	var operands []word
	for _, w := range words {
		switch {
		case w.hidden():
			return "the setting is known only when it runs"
		case w.is("--local", "--global", "--bool", "--int", "--unset", "set", "unset", "--show-origin", "--show-scope"):
		case w.option():
			return "git's option " + clip(w.text) + " is not judged"
		default:
			operands = append(operands, w)
		}
	}
	if len(operands) > 1 && !dullSetting(operands[0].value) {
		return "a setting of git may run a program: " + clip(operands[0].text)
	}
	return ""
}
