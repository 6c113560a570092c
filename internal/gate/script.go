package gate

import (
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
)

// This file reads the small languages of sed, awk and tar's options far enough to see whether a program only does text.

// sed judges sed: scripts that run or write are opaque, and with -i its files are written.
func (j *judge) sed(p part) flow {
	words := p.words[1:]
	files := roleRead
	none := map[int]bool{} // words that are no files
	scripts := 0
	judge := func(w word) {
		scripts++
		if p.why == "" && (!w.literal && w.glob == 0 || !onlyText(w.value)) {
			p.why = "its script may run programs or write files"
		}
	}
	for i, w := range words {
		short := w.option() && !strings.HasPrefix(w.value, "--")
		before, text, isScript := strings.Cut(strings.TrimPrefix(w.value, "-"), "e")
		flags, _, inPlace := strings.Cut(before, "i") // what follows i is the ending of a copy
		if w.hidden() && p.why == "" {
			p.why = hiddenWhy(w)
		}
		switch {
		case none[i]:
		case w.is("") || !w.option() && scripts == 0: // an empty word may be the value of -i, and then the next is the script
			if none[i] = true; !w.is("") {
				judge(w)
			}
		case !w.option() || w.is("--", "--quiet", "--silent", "--regexp-extended", "--null-data", "--separate", "--unbuffered", "--posix", "--sandbox"):
		case strings.HasPrefix(w.value, "--in-place"):
			files = roleEdit
		case strings.HasPrefix(w.value, "--expression="):
			judge(word{value: strings.TrimPrefix(w.value, "--expression="), literal: w.literal})
		case !short || !w.literal || strings.Trim(flags, "nErsuz") != "":
			p.why = "its option " + clip(w.text) + " is not judged"
		case inPlace:
			files = roleEdit
		case isScript && text != "":
			judge(word{value: text, literal: true})
		case isScript && i+1 < len(words):
			none[i+1] = true
			judge(words[i+1])
		}
	}
	for i, w := range words {
		if !none[i] && !w.option() {
			j.path(w, files, p.at)
		}
	}
	j.run(p.words, false, p.why)
	return stay(p.at)
}

// sedClass is a bracket expression that every sed reads alike.
const sedClass = `\[\^?(?:\[:\w+:\]|[^\[\]^/\n\\])(?:\[:\w+:\]|[^\[\]/\n\\])*\]`

const sedPattern = `/(?:[^/\\\n\[]|\\.|` + sedClass + `)*/I?`

// sedAddress is what may stand before a command.
var sedAddress = pattern.Lazy(`^\s*(?:(?:\d+(?:~\d+)?|\$|` + sedPattern + `)(?:\s*,\s*(?:[+~]?\d+|\$|` + sedPattern + `))?)?\s*!?\s*`)

var sedBrackets = pattern.Lazy(`^` + sedClass)

// onlyText says whether an sed script neither runs nor reads nor writes anything but its text.
func onlyText(s string) bool {
	for {
		s = strings.TrimLeft(s, " \t\n;{}")
		if s == "" {
			return true
		}
		s = s[len(sedAddress().FindString(s)):]
		if s == "" {
			return false
		}
		c := s[0]
		s = s[1:]
		switch c {
		case 's', 'y':
			rest, ok := substitution(s)
			if !ok {
				return false
			}
			flags := strings.TrimLeft(rest, "gpiIm0123456789")
			if flags != "" && !strings.ContainsAny(flags[:1], "; \t\n}") {
				return false // e runs it, w writes it
			}
			s = flags
		case 'a', 'i', 'c':
			line, rest, _ := strings.Cut(s, "\n")
			for strings.HasSuffix(line, `\`) && rest != "" {
				line, rest, _ = strings.Cut(rest, "\n")
			}
			s = rest
		case 'p', 'd', 'D', 'P', 'n', 'N', 'g', 'G', 'h', 'H', 'x', '=', 'q', 'Q', 'l', '{', '#':
			if c == '#' {
				_, s, _ = strings.Cut(s, "\n")
			}
			if c == 'q' || c == 'Q' || c == 'l' {
				s = strings.TrimLeft(s, " 0123456789")
			}
			if c != '{' && c != '#' && s != "" && !strings.ContainsAny(s[:1], "; \t\n}") {
				return false
			}
		default:
			return false
		}
	}
}

// substitution passes over the two texts of s or y, and returns what follows.
func substitution(s string) (rest string, ok bool) {
	if s == "" || s[0] == '\\' || s[0] == '\n' || s[0] >= 0x80 {
		return "", false
	}
	delimiter, seen := s[0], 0
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == delimiter:
			if seen++; seen == 2 {
				return s[i+1:], true
			}
		case s[i] == '[' && seen == 0:
			class := sedBrackets().FindString(s[i:])
			if class == "" || strings.IndexByte(class, delimiter) >= 0 {
				return "", false // programs do not agree where it ends
			}
			i += len(class) - 1
		}
	}
	return "", false
}

// awkActs are the ways in which an awk program does more than text.
var awkActs = pattern.Lazy(`system|getline|@|ARG|print[^;}\n]*>|close\s*\(|fflush`)

// awk judges awk.
func (j *judge) awk(p part) flow {
	words := p.words[1:]
	text := -1
	for i := 0; i < len(words) && text < 0; i++ {
		w := words[i]
		switch {
		case w.is("-F", "-v"):
			i++
			if i < len(words) && words[i].hidden() {
				p.why = hiddenWhy(words[i])
			}
		case strings.HasPrefix(w.value, "-F") || strings.HasPrefix(w.value, "-v"):
		case w.is("--"):
		case w.option() || w.hidden():
			p.why = "its program is not judged"
			return j.ordinary(p, program{role: roleAny})
		default:
			text = i
			if said := strings.ReplaceAll(w.value, "||", ""); !w.literal && w.glob == 0 || strings.Contains(said, "|") || awkActs().MatchString(said) {
				p.why = "its program may run programs or write files"
			}
		}
	}
	for i, w := range words {
		if i > text {
			j.path(w, roleRead, p.at)
		}
	}
	j.run(p.words, false, p.why)
	return stay(p.at)
}

// tar judges tar: what it unpacks has names that nobody sees here.
func (j *judge) tar(p part) flow {
	words := p.words[1:]
	opaque := strings.Fields("--checkpoint-action --to-command --use-compress-program --rsh-command --info-script --new-volume-script --rmt-command -I -F")
	letters := ""
	for i, w := range words {
		switch {
		case w.hidden() && p.why == "":
			p.why = hiddenWhy(w)
		case matchOption(w, opaque) >= 0 || i == 0 && !w.option() && strings.ContainsAny(w.value, "IF"):
			if p.why == "" {
				p.why = "its option " + clip(w.text) + " runs or changes something else"
			}
		case strings.HasPrefix(w.value, "--"):
			if name, _, _ := strings.Cut(w.value, "="); strings.HasPrefix("--extract", name) || strings.HasPrefix("--get", name) {
				letters += "x"
			}
		case i == 0 || w.option():
			letters += w.value
		}
	}
	if strings.Contains(letters, "x") {
		j.edits(p.at, "it writes files that it does not name")
	}
	return j.ordinary(p, program{role: roleAny})
}

// dd judges dd, which writes where of= says.
func (j *judge) dd(p part) flow {
	for _, w := range p.words[1:] {
		if w.hidden() && p.why == "" {
			p.why = hiddenWhy(w)
		}
		r := roleLook
		if strings.HasPrefix(w.value, "of=") {
			r = roleEdit
		}
		if name, value, ok := strings.Cut(w.value, "="); ok && (name == "if" || name == "of") {
			v := w
			v.value, v.text = value, show(value)
			j.path(v, r, p.at)
		}
	}
	j.run(p.words, false, p.why)
	return stay(p.at)
}
