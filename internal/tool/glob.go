package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-dev/sluice/event"
)

const (
	globShown = 200     // paths
	globMost  = 100_000 // paths that are looked at
)

// glob finds files by their names.
type glob struct {
	w *Workspace
	o Options
}

func (glob) Spec() Spec {
	return Spec{
		Name:  "glob",
		Class: event.ClassInfo,
		Description: fmt.Sprintf("Finds files by a pattern: * is any text in a name, ** any folders, {a,b} one of several. **/*.go finds at any depth, *.go only "+
			"in the folder itself. A pattern without ** also shows folders, with a slash at the end. What git ignores is left out. The newest come first, at most %d.", globShown),
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"pattern":{"type":"string","description":"The pattern: **/*.go"},` +
			`"path":{"type":"string","description":"The folder to look in; the workspace if absent."}},` +
			`"required":["pattern"]}`),
	}
}

func (t glob) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	if err := decode(input, &a, "pattern"); err != nil {
		return Plan{}, err
	}
	a.Pattern = strings.TrimPrefix(a.Pattern, "./")
	if a.Pattern == "" || !doublestar.ValidatePattern(a.Pattern) {
		return Plan{}, fmt.Errorf("%q is not a pattern: try **/*.go", a.Pattern)
	}
	// What stands before the first * is a folder like any other, and judged like one.
	base, pattern := doublestar.SplitPattern(a.Pattern)
	from := base
	if !filepath.IsAbs(base) && !strings.HasPrefix(base, "~/") && a.Path != "" {
		from = a.Path + "/" + base
	}
	p, err := t.w.resolve(from)
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		Title:  a.Pattern,
		Access: p.access("glob", event.ClassInfo),
		Run:    func(ctx context.Context, _ func(string)) Result { return t.run(ctx, p, pattern) },
	}, nil
}

func (t glob) run(ctx context.Context, p place, pattern string) Result {
	type found struct {
		path string
		at   time.Time
	}
	var list []found
	folders := !strings.Contains(pattern, "**")
	depth := strings.Count(pattern, "/")
	err := t.w.walk(ctx, p, func(f find) (deeper error) {
		if f.entry.IsDir() && folders && strings.Count(f.rel, "/") >= depth {
			deeper = fs.SkipDir // the pattern has no more names
		}
		if f.entry.IsDir() && !folders || !doublestar.MatchUnvalidated(pattern, f.rel) || t.o.Hidden(f.shown) {
			return deeper
		}
		info, err := f.entry.Info()
		if err != nil {
			return deeper
		}
		if f.entry.IsDir() {
			f.shown += "/"
		}
		if list = append(list, found{f.shown, info.ModTime()}); len(list) == globMost {
			return errEnough
		}
		return deeper
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Result{Output: "no file matches: there is no folder " + p.target + "\n"}
	case err != nil:
		return Result{Error: fmt.Sprintf("%s: %v", p.target, err)}
	case len(list) == 0:
		return Result{Output: "no file matches\n"}
	}
	slices.SortStableFunc(list, func(a, b found) int { return b.at.Compare(a.at) })
	var out strings.Builder
	for _, f := range list[:min(len(list), globShown)] {
		out.WriteString(f.path + "\n")
	}
	if n := len(list) - globShown; n > 0 {
		fmt.Fprintf(&out, "(and %d more: narrow the pattern)\n", n)
	}
	return Result{Output: strings.ToValidUTF8(out.String(), "\uFFFD")}
}
