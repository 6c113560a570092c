package provider

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file is how the demo reads what tools print, and puts it into words.

// listing returns the paths of a listing, and how many there are with those that it does not show.
func (o outcome) listing() (paths []string, total int) {
	end, _ := event.AsToolEnd(o.end)
	for line := range strings.Lines(end.Output) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "./")
		switch first, _, _ := strings.Cut(strings.ToLower(line), " "); {
		case line == "" || first == "no" || strings.HasSuffix(line, ":"):
		case strings.HasPrefix(line, "(") || strings.HasPrefix(line, "["): // what the tool says about the listing
			total += number(line)
		default:
			paths = append(paths, line)
		}
	}
	if base := common(paths); base != "" {
		for i, p := range paths {
			paths[i] = strings.TrimPrefix(p, base)
		}
	}
	return paths, total + len(paths)
}

// number is the last number in a text; 0 if there is none.
func number(text string) int {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[len(fields)-1])
	return n
}

// common is the folder that all paths are in, if they are absolute.
func common(paths []string) string {
	base := ""
	for i, p := range paths {
		if !strings.HasPrefix(p, "/") {
			return ""
		}
		if i == 0 {
			base = path.Dir(p)
		}
		for !strings.HasPrefix(p, strings.TrimSuffix(base, "/")+"/") {
			base = path.Dir(base)
		}
	}
	if base == "" {
		return ""
	}
	return strings.TrimSuffix(base, "/") + "/"
}

// A scene is a folder as listings show it.
type scene struct {
	files   []string // those that were shown
	total   int      // of files
	folders []string // at the top
	top     []string // files at the top
	readme  string
}

// survey puts together what two listings show: of everything, and of the top.
func survey(all, surface outcome) (s scene) {
	folders, top := map[string]bool{}, map[string]bool{}
	paths, total := all.listing()
	over, _ := surface.listing()
	for _, p := range slices.Concat(paths, over) {
		if dir, _, below := strings.Cut(p, "/"); below {
			folders[dir] = true
		} else {
			top[p] = true
		}
	}
	for _, p := range paths {
		if strings.HasSuffix(p, "/") {
			total--
		} else {
			s.files = append(s.files, p)
		}
	}
	s.total = max(total, len(top))
	s.folders, s.top = slices.Sorted(maps.Keys(folders)), slices.Sorted(maps.Keys(top))
	for _, f := range s.top {
		if name := strings.ToLower(f); s.readme == "" && (name == "readme" || strings.HasPrefix(name, "readme.")) {
			s.readme = f
		}
	}
	return s
}

func (s scene) String() string {
	if s.total == 0 {
		return "This folder is empty, as far as I can see."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This folder has %s", plural(s.total, "file", "files"))
	if len(s.files) < s.total {
		fmt.Fprintf(&b, ". Of the %d that I was shown, there are", len(s.files))
	} else {
		b.WriteString(":")
	}
	fmt.Fprintf(&b, " %s.\n", kinds(s.files))
	if len(s.folders) > 0 {
		fmt.Fprintf(&b, "\nFolders: %s.", some(s.folders, "/"))
	}
	if len(s.top) > 0 {
		fmt.Fprintf(&b, "\nFiles at the top: %s.", some(s.top, ""))
	}
	for _, f := range s.top {
		if what := landmarks[f]; what != "" {
			fmt.Fprintf(&b, "\n%s says that this is %s.", f, what)
		}
	}
	return b.String()
}

// landmarks are files that say what a folder is.
var landmarks = map[string]string{
	"go.mod": "a Go module", "package.json": "a JavaScript package", "Cargo.toml": "a Rust crate", "pyproject.toml": "a Python project",
	"pom.xml": "a Java project", "Gemfile": "a Ruby project", "CMakeLists.txt": "a C or C++ project",
}

// kinds counts files by what they are: the most frequent first.
func kinds(files []string) string {
	count := map[string]int{}
	for _, f := range files {
		count[kindOf(f)]++
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var list []string
	others := 0
	for i, n := range names {
		if n == "other" || i >= 5 {
			others += count[n]
			continue
		}
		list = append(list, fmt.Sprintf("%d %s", count[n], n))
	}
	if others > 0 {
		list = append(list, fmt.Sprintf("%d of other kinds", others))
	}
	return and(list)
}

func kindOf(file string) string {
	ext := strings.ToLower(path.Ext(file))
	if name := extensions[ext]; name != "" {
		return name
	}
	if len(ext) < 2 || len(ext) > 8 {
		return "other"
	}
	return ext
}

var extensions = map[string]string{
	".go": "Go", ".md": "Markdown", ".py": "Python", ".js": "JavaScript", ".ts": "TypeScript", ".rs": "Rust", ".c": "C", ".h": "C header",
	".java": "Java", ".rb": "Ruby", ".sh": "shell", ".json": "JSON", ".yaml": "YAML", ".yml": "YAML", ".toml": "TOML", ".txt": "text",
	".html": "HTML", ".css": "CSS", ".png": "PNG", ".jpg": "JPEG", ".svg": "SVG",
}

// some names the first few.
func some(list []string, suffix string) string {
	const few = 12
	var s []string
	for _, name := range list[:min(len(list), few)] {
		s = append(s, name+suffix)
	}
	if more := len(list) - few; more > 0 {
		s = append(s, fmt.Sprintf("%d more", more))
	}
	return and(s)
}

func and(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}

// whereabouts says where files of a name are.
func whereabouts(name string, o outcome) string {
	all, _ := o.listing()
	found := slices.DeleteFunc(all, func(f string) bool { return !strings.HasSuffix("/"+f, "/"+strings.TrimPrefix(name, "/")) })
	if len(found) == 0 {
		return fmt.Sprintf("There is no %s here.", name)
	}
	return fmt.Sprintf("%s is here: %s.", name, some(found, ""))
}

// occurrences says where a text was found.
func occurrences(what string, o outcome) string {
	end, _ := event.AsToolEnd(o.end)
	var hits []string
	more := ""
	for line := range strings.Lines(end.Output) {
		if strings.HasPrefix(line, "(") {
			more = "more than "
		} else if strings.Contains(line, what) {
			hits = append(hits, strings.TrimSpace(line))
		}
	}
	if len(hits) == 0 {
		return fmt.Sprintf("I found no `%s`.", what)
	}
	return fmt.Sprintf("`%s` is in %s%s:\n\n```\n%s\n```", what, more, plural(len(hits), "line", "lines"), top(strings.Join(hits, "\n"), 20))
}

// portrait says what a file is.
func portrait(name string, f shown) string {
	text := f.text
	lines := max(strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1, f.lines)
	if strings.TrimSpace(text) == "" {
		return fmt.Sprintf("%s is empty.", name)
	}
	count := plural(lines, "line", "lines")
	s := fmt.Sprintf("%s has %s.", name, count)
	switch path.Ext(name) {
	case ".go":
		return s + goPortrait(text)
	case ".md":
		if heading := after(text, "# "); len(heading) > 0 {
			s += fmt.Sprintf(" Its heading is “%s”.", heading[0])
		}
		if sections := after(text, "## "); len(sections) > 0 {
			s += fmt.Sprintf(" Sections: %s.", some(sections, ""))
		}
		if o := opening(text); o != "" {
			s += fmt.Sprintf(" It begins: “%s”", o)
		}
		return s
	}
	return s + fmt.Sprintf(" It begins:\n\n```\n%s\n```", top(strings.TrimSpace(text), 10))
}

func goPortrait(text string) (s string) {
	word := func(line string) string {
		return line[:max(strings.IndexFunc(line+" ", func(r rune) bool { return strings.ContainsRune(" ([{;\t", r) }), 0)]
	}
	if p := after(text, "package "); len(p) > 0 {
		s += fmt.Sprintf(" It belongs to package %s.", word(p[0]))
	}
	var types, functions []string
	for _, t := range after(text, "type ") {
		types = append(types, word(t))
	}
	for _, f := range after(text, "func ") {
		if recv, rest, ok := strings.Cut(f, ") "); ok && strings.HasPrefix(recv, "(") {
			fields := strings.Fields(strings.Trim(recv, "("))
			f = fields[len(fields)-1] + "." + rest
		}
		functions = append(functions, word(f))
	}
	if len(types) > 0 {
		s += fmt.Sprintf(" Types: %s.", some(types, ""))
	}
	if len(functions) > 0 {
		s += fmt.Sprintf(" Functions: %s.", some(functions, ""))
	}
	return s
}

// after returns what follows a prefix on the lines that have it, outside of code fences.
func after(text, prefix string) (list []string) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok && !fenced {
			list = append(list, strings.TrimSpace(rest))
		}
	}
	return list
}

// opening is the first sentence of a document: of its first paragraph that is neither a heading nor decoration.
func opening(text string) string {
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n\n") {
		var lines []string
		for line := range strings.Lines(paragraph) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		s := strings.Join(lines, " ")
		if s == "" || strings.ContainsAny(s[:1], "<![|`=-*>") {
			continue
		}
		if i := strings.Index(s, ". "); i >= 0 {
			s = s[:i+1]
		}
		return oneLine(s, 300)
	}
	return ""
}

// shown is what a tool shows of a file.
type shown struct {
	text  string
	lines int // of the file, if the tool says it
}

// contents takes off what many tools add: the number of each line, and what they say about the file.
func contents(end event.ToolEnd) shown {
	var b strings.Builder
	s := shown{text: end.Output}
	want := 0
	for line := range strings.Lines(end.Output) {
		rest := strings.TrimLeft(line, " ")
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, _ := strconv.Atoi(rest[:digits])
		if want == 0 {
			want = n
		}
		mark := ""
		for _, m := range []string{"\t", "→", ": ", ":", "| ", "|"} {
			if strings.HasPrefix(rest[digits:], m) {
				mark = m
				break
			}
		}
		switch {
		case digits > 0 && n == want && mark != "":
			want++
			b.WriteString(rest[digits+len(mark):])
		case b.Len() > 0:
			if _, of, ok := strings.Cut(line, " of "); ok && strings.HasPrefix(line, "(") {
				of, _, _ = strings.Cut(of, ";")
				s.lines = number(of)
			}
		case strings.HasPrefix(line, "(") && strings.Contains(line, "empty"):
			return shown{}
		default:
			return s // its lines have no numbers
		}
	}
	s.text = b.String()
	return s
}

// top is the first lines of a text.
func top(text string, most int) string {
	lines := strings.Split(text, "\n")
	if len(lines) <= most {
		return text
	}
	return strings.Join(lines[:most], "\n") + fmt.Sprintf("\n… %d more lines", len(lines)-most)
}
