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

// A tree is what a listing shows of a folder.
type tree struct {
	files  []string
	more   bool     // the listing is not all
	folder []string // at the top
	top    []string // files at the top
	readme string
}

// paths are the lines of a listing that are paths.
func (o outcome) paths() (list []string, more bool) {
	end, _ := event.AsToolEnd(o.end)
	for line := range strings.Lines(end.Output) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "./")
		if line == "" || strings.HasPrefix(line, "(") || strings.HasPrefix(line, "[") || strings.HasSuffix(line, ".") || strings.HasSuffix(line, ":") {
			continue // what the tool says about the listing
		}
		list = append(list, line)
	}
	return list, end.Truncated
}

// survey sorts what a listing shows. A listing of absolute paths is made relative to what they have in common.
func survey(o outcome) (t tree) {
	t.files, t.more = o.paths()
	if base := common(t.files); base != "" {
		for i, f := range t.files {
			t.files[i] = strings.TrimPrefix(f, base)
		}
	}
	folders := map[string]bool{}
	files := t.files[:0]
	for _, f := range t.files {
		if dir, _, ok := strings.Cut(f, "/"); ok {
			folders[dir] = true
		}
		if strings.HasSuffix(f, "/") {
			continue
		}
		files = append(files, f)
		if !strings.Contains(f, "/") {
			t.top = append(t.top, f)
			if name := strings.ToLower(f); t.readme == "" && (name == "readme" || strings.HasPrefix(name, "readme.")) {
				t.readme = f
			}
		}
	}
	t.files = files
	t.folder = slices.Sorted(maps.Keys(folders))
	slices.Sort(t.top)
	return t
}

// common is the folder that all absolute paths are in; empty if they are not absolute.
func common(files []string) string {
	base := ""
	for i, f := range files {
		if !strings.HasPrefix(f, "/") {
			return ""
		}
		if i == 0 {
			base = path.Dir(f) + "/"
		}
		for !strings.HasPrefix(f, base) {
			base = path.Dir(strings.TrimSuffix(base, "/"))
			if base != "/" {
				base += "/"
			}
		}
	}
	return base
}

func (t tree) String() string {
	if len(t.files) == 0 {
		return "This folder is empty, as far as I can see."
	}
	var b strings.Builder
	count := plural(len(t.files), "file", "files")
	if t.more {
		count = "more than " + count
	}
	fmt.Fprintf(&b, "This folder has %s: %s.", count, kinds(t.files))
	if len(t.folder) > 0 {
		fmt.Fprintf(&b, "\n\nFolders: %s.", some(t.folder, "/"))
	}
	if len(t.top) > 0 {
		fmt.Fprintf(&b, "\nFiles at the top: %s.", some(t.top, ""))
	}
	for _, f := range t.top {
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
	".go": "Go", ".md": "Markdown", ".py": "Python", ".js": "JavaScript", ".ts": "TypeScript", ".rs": "Rust", ".c": "C", ".h": "C headers",
	".java": "Java", ".rb": "Ruby", ".sh": "shell", ".json": "JSON", ".yaml": "YAML", ".yml": "YAML", ".toml": "TOML", ".txt": "text",
	".html": "HTML", ".css": "CSS", ".png": "PNG images", ".jpg": "JPEG images", ".svg": "SVG images",
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
	all, _ := o.paths()
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
	for line := range strings.Lines(end.Output) {
		if strings.Contains(strings.ToLower(line), strings.ToLower(what)) && !strings.HasPrefix(line, "(") {
			hits = append(hits, strings.TrimSpace(line))
		}
	}
	if len(hits) == 0 {
		return fmt.Sprintf("I found no `%s`.", what)
	}
	more := ""
	if end.Truncated {
		more = "more than "
	}
	return fmt.Sprintf("`%s` is in %s%s:\n\n```\n%s\n```", what, more, plural(len(hits), "line", "lines"), top(strings.Join(hits, "\n"), 20))
}

// portrait says what a file is.
func portrait(name, text string, cut bool) string {
	lines := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines++
	}
	if strings.TrimSpace(text) == "" {
		return fmt.Sprintf("%s is empty.", name)
	}
	count := plural(lines, "line", "lines")
	if cut {
		count = "more than " + count
	}
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

// unnumbered takes off the line numbers that many tools put before the lines of a file.
func unnumbered(text string) string {
	var b strings.Builder
	want := 0
	for line := range strings.Lines(text) {
		rest := strings.TrimLeft(line, " ")
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
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
		if err != nil || n != want || mark == "" {
			if b.Len() == 0 {
				return text // it has none
			}
			continue // what the tool says about the file
		}
		want++
		b.WriteString(rest[digits+len(mark):])
	}
	return b.String()
}

// top is the first lines of a text.
func top(text string, most int) string {
	lines := strings.Split(text, "\n")
	if len(lines) <= most {
		return text
	}
	return strings.Join(lines[:most], "\n") + fmt.Sprintf("\n… %d more lines", len(lines)-most)
}
