package gate

import (
	"path"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file says what the words of a command touch. The rules: a path that leads outside is an access to outside, whoever names
// it; one in a protected place is an edit, unless its command only reads; files that a known program reads or writes are
// implied reads and edits, so that a rule which denies them holds for commands too.

// A role says what a command does with a word.
type role int

const (
	roleNone role = iota // it is no path: a pattern, a message
	roleAny              // nobody knows
	roleLook             // it may be a path, and nothing is written to it
	roleRead             // a path that is read
	roleEdit             // a path that is written, made or removed
	roleFrom             // a file that is read by redirection
	roleTo               // a file that is written by redirection
)

// protectedNames are the folders of [Protected].
var protectedNames = []string{".git", ".sluice"}

// devices are files that hold nothing.
var devices = []string{"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/random", "/dev/urandom"}

// path judges a word that may name a file.
func (j *judge) path(w word, r role, at place) {
	switch {
	case r == roleNone:
	case w.values != nil:
		for _, v := range w.values {
			if star := strings.IndexByte(v, '*'); star >= 0 {
				j.pattern(word{text: v, value: v, glob: star + 1}, r, at)
			} else {
				j.name(plain(v), r, at)
			}
		}
	case w.literal:
		j.name(w, r, at)
	case w.glob > 0:
		j.pattern(w, r, at)
	default:
		j.begun(w, r, at)
	}
}

// name judges a literal word: all that in it may be a path.
func (j *judge) name(w word, r role, at place) {
	list := paths(w.value)
	if len(list) > maxPieces {
		j.give("it names too many paths")
		return
	}
	for _, p := range list {
		for _, dir := range at.dirs {
			full := under(dir, p)
			j.touch(full, r, w.tilde || full != p && strings.HasPrefix(full, "~"))
		}
	}
}

// begun judges a word of which only the beginning is known.
func (j *judge) begun(w word, r role, at place) {
	if w.value != "" && !strings.HasSuffix(w.value, "=") && !(w.option() && !strings.Contains(w.value, "/")) {
		j.name(word{value: w.value, literal: true, tilde: w.tilde}, min(r, roleLook), at)
	}
	if w.option() {
		return
	}
	const why = "the path is known only when it runs"
	switch r {
	case roleRead:
		j.add(Access{Permission: Outside, Target: w.text, Class: event.ClassExec, Opaque: true, Why: why})
	case roleFrom:
		j.add(Access{Permission: "read", Target: w.text, Class: event.ClassInfo, Opaque: true, Why: why})
		j.add(Access{Permission: Outside, Target: w.text, Class: event.ClassExec, Opaque: true, Why: why})
	case roleEdit, roleTo:
		j.add(Access{Permission: "edit", Target: w.text, Class: event.ClassEdit, Opaque: true, Why: why})
		j.add(Access{Permission: Outside, Target: w.text, Class: event.ClassExec, Opaque: true, Why: why})
	}
}

// pattern judges a word that the shell makes into names of files. What it finds is below its last folder without a special
// character, if no .. comes later; names with a dot in front are found only if the pattern says the dot.
func (j *judge) pattern(w word, r role, at place) {
	const why = "what a pattern finds is known only when it runs"
	fixed, rest := w.value[:w.glob-1], w.value[w.glob-1:]
	folder, begun := path.Split(fixed)
	segments := strings.Split(begun+rest, "/")
	for _, dir := range at.dirs {
		p := under(dir, folder)
		if p == "" {
			p = "."
		}
		t, out := j.where(p, w.tilde)
		if out {
			j.add(Access{Permission: Outside, Target: strings.TrimSuffix(t, "/") + "/" + begun + rest, Class: event.ClassExec})
		}
		if r != roleLook && r != roleRead && r != roleFrom && protected(t+"/"+folder) {
			j.add(Access{Permission: "edit", Target: path.Join(t, begun+rest), Class: event.ClassEdit, Implied: true})
		}
	}
	switch {
	case slices.Contains(segments, ".."):
		j.add(Access{Permission: Outside, Target: w.text, Class: event.ClassExec, Opaque: true, Why: why})
	case r == roleEdit || r == roleTo:
		j.add(Access{Permission: "edit", Target: w.text, Class: event.ClassEdit, Opaque: true, Why: why})
	case r == roleAny && slices.ContainsFunc(segments, func(s string) bool { return strings.HasPrefix(s, ".") && strings.ContainsAny(s, "*?[") }):
		j.add(Access{Permission: "edit", Target: w.text, Class: event.ClassEdit, Opaque: true, Why: why})
	case r == roleFrom:
		j.add(Access{Permission: "read", Target: w.text, Class: event.ClassInfo, Opaque: true, Why: why})
	}
}

// touch writes down what it means to name a path.
func (j *judge) touch(p string, r role, tilde bool) {
	if slices.Contains(devices, p) || strings.HasPrefix(p, "/dev/fd/") && digits(p[len("/dev/fd/"):]) {
		return
	}
	t, out := j.where(p, tilde)
	if out {
		a := Access{Permission: Outside, Target: t, Class: event.ClassExec}
		if !strings.HasPrefix(t, "/") && (!strings.HasPrefix(t, "~") || slices.Contains(strings.Split(t, "/"), "..")) {
			a.Opaque, a.Why = true, "nobody knows where it leads"
		}
		j.add(a)
	}
	edit := Access{Permission: "edit", Target: t, Class: event.ClassEdit, Implied: r != roleTo}
	switch r {
	case roleRead, roleFrom:
		j.add(Access{Permission: "read", Target: t, Class: event.ClassInfo, Implied: r == roleRead})
	case roleEdit, roleTo:
		j.add(edit)
	case roleAny:
		if protected(t) {
			j.add(edit)
		}
	}
	// A link may lead out of a protected place; what lies there is protected all the same.
	if said := path.Clean(p); (r == roleAny || r == roleEdit || r == roleTo) && said != t && protected(said) {
		edit.Target = said
		j.add(edit)
	}
}

// protected says whether a path is in a protected place, whatever the case of its letters.
func protected(p string) bool {
	for s := range strings.SplitSeq(strings.ToLower(p), "/") {
		if slices.Contains(protectedNames, s) {
			return true
		}
	}
	return false
}

// under is a path as it stands in a folder.
func under(dir, p string) string {
	if dir == "" || strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") {
		return p
	}
	return dir + "/" + p
}

// paths are the pieces of a word that a program may take for a path: the word, what follows = or : or @, what follows the
// letters of an option.
func paths(s string) []string {
	var out []string
	add := func(p string) {
		if p == "" || len(p) > 4096 || len(out) > maxPieces || slices.Contains(out, p) {
			return
		}
		// What is too long for a name of a file is none: code, or a message.
		if !slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return len(s) > 255 }) {
			out = append(out, p)
		}
	}
	switch {
	case strings.HasPrefix(s, "--"):
		_, s, _ = strings.Cut(s, "=")
		if s == "" {
			return nil
		}
		add(s)
	case strings.HasPrefix(s, "-") && len(s) > 2:
		if i := strings.IndexAny(s, "/~"); i > 0 {
			add(s[i:])
		}
		if i := strings.Index(s, "../"); i > 0 {
			add(s[i:])
		}
		add(s[2:])
	case strings.HasPrefix(s, "-"):
		return nil
	case strings.HasPrefix(s, "file://"):
		add(strings.TrimPrefix(s, "file://"))
		return out
	case strings.Contains(s, "://"):
		return nil
	default:
		if before, _, ok := strings.Cut(s, ":/"); !ok || !strings.HasPrefix(before, "/") { // else it is a list of paths
			add(s)
		}
	}
	for i := range len(s) {
		if strings.IndexByte("=:@,", s[i]) >= 0 && i+1 < len(s) {
			if rest := s[i+1:]; s[i] == '=' || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "../") || rest == ".." || strings.HasPrefix(rest, "~") {
				add(rest)
				if before, _, ok := strings.Cut(rest, ":"); ok {
					add(before)
				}
			}
			if before := s[:i]; strings.HasPrefix(before, "/") || strings.HasPrefix(before, "..") {
				add(before)
			}
		}
	}
	return out
}

// A look is where a path leads.
type look struct {
	target  string
	outside bool
}

// where says where a path leads.
func (j *judge) where(p string, tilde bool) (target string, outside bool) {
	if tilde || strings.HasPrefix(p, "~/") || p == "~" {
		if slices.Contains(strings.Split(p, "/"), "..") {
			return p, true
		}
		home, rest, _ := strings.Cut(p, "/")
		return strings.TrimSuffix(home+path.Clean("/"+rest), "/"), true
	}
	return j.leads(j.collapse(p))
}

// collapse goes up from folders that the command itself makes: they are not there yet.
func (j *judge) collapse(p string) string {
	if len(j.made) == 0 || j.links || !strings.Contains(p, "..") {
		return p
	}
	var out []string
	for s := range strings.SplitSeq(p, "/") {
		if s == ".." && j.made[strings.Join(out, "/")] {
			out = out[:len(out)-1]
		} else if s != "." && (s != "" || len(out) == 0) {
			out = append(out, s)
		}
	}
	return strings.Join(out, "/")
}

// makes writes down that a folder will be there.
func (j *judge) makes(w word, at place) {
	if !w.literal || w.tilde || w.option() || strings.Contains(w.value, "..") {
		return
	}
	for _, dir := range at.dirs {
		for d := path.Clean(under(dir, w.value)); d != "." && d != "/" && !strings.Contains(d, ".."); d = path.Dir(d) {
			if !j.made[d] {
				j.made[d] = true
			}
		}
	}
}

// leads asks once for each path.
func (j *judge) leads(p string) (string, bool) {
	if p == "" {
		p = "."
	}
	if l, ok := j.looked[p]; ok {
		return l.target, l.outside
	}
	if len(j.looked) >= maxLooks {
		j.give("it names too many paths")
		return p, true
	}
	t, out := j.resolve(p)
	if clean := path.Clean(t); !out || strings.HasPrefix(clean, "/") {
		t = clean
	}
	if !out && (t == ".." || strings.HasPrefix(t, "../") || strings.HasPrefix(t, "/")) {
		out = true // whoever resolves should have said so
	}
	j.looked[p] = look{t, out}
	return t, out
}

// lexical resolves a path by its text alone.
func lexical(p string) (string, bool) {
	p = path.Clean(p)
	return p, strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../")
}

// editUnnamed is an edit of files in a folder that nobody can name.
func editUnnamed(folder, why string) Access {
	return Access{Permission: "edit", Target: folder, Class: event.ClassEdit, Opaque: true, Why: why}
}
