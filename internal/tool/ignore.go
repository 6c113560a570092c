package tool

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignores are the rules of .gitignore files, those of outer folders first. The last rule that matches decides.
type ignores []ignoreRule

type ignoreRule struct {
	dir     string // absolute, with slashes: where the file is
	pattern string // of doublestar, held against the path from dir
	folders bool   // only folders
	back    bool   // not ignored after all
}

// match says whether a path is ignored. It is absolute and has slashes.
func (l ignores) match(path string, folder bool) bool {
	for i := len(l) - 1; i >= 0; i-- {
		r := l[i]
		rel, below := strings.CutPrefix(path, r.dir)
		if !below || rel == "" || rel[0] != '/' || r.folders && !folder {
			continue
		}
		if doublestar.MatchUnvalidated(r.pattern, rel[1:]) {
			return !r.back
		}
	}
	return false
}

// parseIgnore reads the text of a .gitignore file.
func parseIgnore(dir, text string) (list ignores) {
	dir = strings.TrimSuffix(dir, "/")
	for line := range strings.Lines(text) {
		if r, ok := parseRule(strings.TrimRight(line, "\r\n")); ok {
			r.dir = dir
			list = append(list, r)
		}
	}
	return list
}

func parseRule(line string) (r ignoreRule, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.back = strings.CutPrefix(line, "!")
	line, r.folders = strings.CutSuffix(line, "/")
	if line == "" {
		return r, false
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if !anchored {
		line = "**/" + line
	}
	if inner, ok := strings.CutSuffix(line, "/**"); ok {
		line = inner + "/**/*" // what is in the folder, not the folder
	}
	r.pattern = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)
	return r, doublestar.ValidatePattern(r.pattern)
}

// with adds the rules of a folder, if it has any.
func (l ignores) with(dir *os.Root, at string) ignores {
	text := readSmall(dir, ".gitignore")
	if text == "" {
		return l
	}
	// A copy, since neighbours have the same beginning.
	return append(l[:len(l):len(l)], parseIgnore(at, text)...)
}

// readSmall reads a file of rules. One that is not there, or is no plain file, has none.
func readSmall(dir *os.Root, name string) string {
	f, _, err := openPlain(dir, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(data)
}

// ignoresAbove gathers the rules that hold in a folder, without its own: of the repository that it is in.
func ignoresAbove(folder string) (list ignores) {
	var chain []string
	for dir := folder; ; {
		if exists(filepath.Join(dir, ".git")) {
			if r, err := os.OpenRoot(dir); err == nil {
				list = parseIgnore(filepath.ToSlash(dir), readSmall(r, path.Join(".git", "info", "exclude")))
				r.Close()
			}
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil // no repository
		}
		dir = up
		chain = append(chain, dir)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if r, err := os.OpenRoot(chain[i]); err == nil {
			list = list.with(r, filepath.ToSlash(chain[i]))
			r.Close()
		}
	}
	return list
}
