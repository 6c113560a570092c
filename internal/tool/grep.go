package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-dev/sluice/event"
)

const (
	grepLines = 500     // lines of output
	grepBytes = 40_000  // of output
	grepLine  = 400     // bytes of a line that are shown
	grepRead  = 1 << 20 // bytes of a line that are looked at
)

// grep finds text in files.
type grep struct {
	w  *Workspace
	o  Options
	rg ripgrep
}

func (grep) Spec() Spec {
	return Spec{
		Name:  "grep",
		Class: event.ClassInfo,
		Description: fmt.Sprintf("Finds lines that match a regular expression (RE2 syntax) in files, and shows them as path:line:text. What git ignores and binary files are "+
			"left out. At most %d lines are shown.", grepLines),
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"pattern":{"type":"string","description":"The regular expression."},` +
			`"path":{"type":"string","description":"The file or folder to look in; the workspace if absent."},` +
			`"glob":{"type":"string","description":"Only files that match: *.go, src/**/*.{ts,tsx}"},` +
			`"output_mode":{"type":"string","enum":["content","files","count"],"description":"Lines (content, the default), only the names of files, or how many lines match in each."},` +
			`"context":{"type":"integer","minimum":0,"description":"Lines to show before and after each match."},` +
			`"ignore_case":{"type":"boolean","description":"Small and capital letters are the same."}},` +
			`"required":["pattern"]}`),
	}
}

func (t grep) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
		Glob    string `json:"glob"`
		Mode    string `json:"output_mode"`
		Context int    `json:"context"`
		Fold    bool   `json:"ignore_case"`
	}
	if err := decode(input, &a, "pattern"); err != nil {
		return Plan{}, err
	}
	s := search{context: min(max(a.Context, 0), 50), mode: a.Mode, glob: strings.TrimPrefix(a.Glob, "./")}
	switch {
	case a.Pattern == "":
		return Plan{}, errors.New("the pattern is empty")
	case s.mode == "":
		s.mode = "content"
	case s.mode != "content" && s.mode != "files" && s.mode != "count":
		return Plan{}, fmt.Errorf("output_mode is %q: use content, files or count", s.mode)
	}
	if s.glob != "" && !doublestar.ValidatePattern(s.glob) {
		return Plan{}, fmt.Errorf("glob %q is not a pattern: try *.go", s.glob)
	}
	find, err := newMatcher(a.Pattern, a.Fold)
	if err != nil {
		return Plan{}, fmt.Errorf("the pattern is not a regular expression of RE2: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if a.Path == "" {
		a.Path = "."
	}
	p, err := t.w.resolve(a.Path)
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		Title:  a.Pattern,
		Access: p.access("grep", event.ClassInfo),
		Run: func(ctx context.Context, _ func(string)) Result {
			s := s
			s.matcher = *find
			return t.run(ctx, p, &s)
		},
	}, nil
}

func (t grep) run(ctx context.Context, p place, s *search) Result {
	if t.o.Hidden(p.target) {
		return Result{Error: p.target + ": it may not be read"}
	}
	f, _, err := t.w.file(p)
	if err == nil {
		defer f.Close()
		s.shown = p.target
		err = s.file(ctx, f)
	} else if err = t.folder(ctx, p, s, err); errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such file or folder: look for it with glob")
	}
	switch {
	case errors.Is(err, errEnough):
		s.out.WriteString("(there are more: narrow the search with path, glob or pattern)\n")
	case err != nil:
		return Result{Error: fmt.Sprintf("%s: %v", p.target, err)}
	case s.out.Len() == 0:
		return Result{Output: "no matches\n"}
	}
	return Result{Output: s.out.String()}
}

// folder searches a folder, if that is why there was no file.
func (t grep) folder(ctx context.Context, p place, s *search, noFile error) error {
	dir, err := t.w.dir(p)
	if err != nil {
		return noFile
	}
	where := t.rg.hint(ctx, dir, p, s)
	dir.Close()
	enough := false
	err = t.w.walk(ctx, p, func(f find) error {
		if !where.has(f.rel) {
			return fs.SkipDir
		}
		if !f.entry.Type().IsRegular() || !s.wants(f) || t.o.Hidden(f.shown) {
			return nil
		}
		file, _, err := openPlain(f.dir, f.name)
		if err != nil {
			return nil // what cannot be read is passed by
		}
		defer file.Close()
		s.shown = f.shown
		err = s.file(ctx, file)
		enough = errors.Is(err, errEnough)
		if enough || ctx.Err() != nil {
			return err
		}
		return nil
	})
	if enough {
		return errEnough
	}
	return err
}

// A search is what is looked for, and what was found.
type search struct {
	matcher
	mode    string
	glob    string
	context int
	shown   string // name of the file
	out     strings.Builder
	lines   int
}

// wants says whether a file's name is one to look into. A glob without a slash is for names at any depth.
func (s *search) wants(f find) bool {
	switch {
	case s.glob == "":
		return true
	case !strings.Contains(s.glob, "/"):
		return doublestar.MatchUnvalidated(s.glob, path.Base(f.rel))
	}
	return doublestar.MatchUnvalidated(s.glob, f.rel)
}

// file searches a file. Memory grows with a line and its context, not with the file.
func (s *search) file(ctx context.Context, f *os.File) error {
	in := bufio.NewReaderSize(&patient{ctx, f}, 64<<10)
	if head, _ := in.Peek(sniffed); bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	var (
		before [][]byte // lines that may be the context of a match to come
		after  int      // lines that are still the context of the last match
		last   int      // line that was shown last
		count  int
		buf    []byte
	)
	for n := 1; ; n++ {
		if s.context > 0 {
			buf = nil // the line may be kept
		}
		line, err := searched(in, buf)
		buf = line
		if err != nil && err != io.EOF {
			return plain(err)
		}
		if line == nil || bytes.IndexByte(line, 0) >= 0 {
			break // what follows a NUL is no text
		}
		matched := s.match(line)
		switch {
		case matched && s.mode == "files":
			return s.put(s.shown)
		case matched:
			count++
		}
		if s.mode != "content" {
			continue
		}
		switch {
		case matched:
			first := n - len(before)
			if last > 0 && first > last+1 && s.context > 0 || last == 0 && s.context > 0 && s.lines > 0 {
				if err := s.put("--"); err != nil {
					return err
				}
			}
			for i, l := range before {
				if err := s.line(first+i, "-", l); err != nil {
					return err
				}
			}
			if err := s.line(n, ":", line); err != nil {
				return err
			}
			before, after, last = before[:0], s.context, n
		case after > 0:
			if err := s.line(n, "-", line); err != nil {
				return err
			}
			after--
			last = n
		case s.context > 0:
			if len(before) == s.context {
				before = before[1:]
			}
			before = append(before, line)
		}
	}
	if s.mode == "count" && count > 0 {
		return s.put(fmt.Sprintf("%s:%d", s.shown, count))
	}
	return nil
}

// searched reads a line without its end, into buf; nil when there is none. Of a very long one it is the beginning.
func searched(in *bufio.Reader, buf []byte) ([]byte, error) {
	line := buf[:0]
	size := 0
	for {
		piece, err := in.ReadSlice('\n')
		size += len(piece)
		line = append(line, piece[:min(len(piece), grepRead-len(line))]...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if size == 0 {
			return nil, err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		return line, err
	}
}

func (s *search) line(n int, sep string, text []byte) error {
	cut := ""
	if len(text) > grepLine {
		text = text[:grepLine]
		text, cut = text[:wholeRunes(text)], ellipsis
	}
	return s.put(fmt.Sprintf("%s%s%d%s%s%s", s.shown, sep, n, sep, text, cut))
}

// put shows a line, if there is room.
func (s *search) put(line string) error {
	if s.lines == grepLines || s.out.Len()+len(line) > grepBytes {
		return errEnough
	}
	s.lines++
	s.out.WriteString(strings.ToValidUTF8(line, "\uFFFD"))
	s.out.WriteByte('\n')
	return nil
}
