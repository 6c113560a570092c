package tool

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A find is something that a walk came by.
type find struct {
	dir   *os.Root // open until the visit is over
	name  string   // in dir
	rel   string   // from where the walk began, with slashes
	shown string   // as a model names it: from the workspace, or absolute
	entry fs.DirEntry
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

const deepest = 100 // folders in folders

// walk visits what is in a folder and below, by name, without what git ignores and without .git. It goes through no link, and
// not into a folder whose visit returns fs.SkipDir; of a file that says nothing.
func (w *Workspace) walk(ctx context.Context, p place, visit func(find) error) error {
	dir, err := w.dir(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = descend(ctx, dir, p, "", ignoresAbove(p.real), 0, visit)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// dir opens a folder.
func (w *Workspace) dir(p place) (*os.Root, error) {
	parent, name, err := w.folder(p, nil)
	if err != nil {
		return nil, err
	}
	if name == "." {
		return parent, nil
	}
	defer parent.Close()
	return step(parent, name, nil)
}

func descend(ctx context.Context, dir *os.Root, p place, rel string, rules ignores, depth int, visit func(find) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := strings.TrimSuffix(filepath.ToSlash(filepath.Join(p.real, rel)), "/")
	rules = rules.with(dir, at)
	entries, err := list(dir)
	if err != nil {
		return nil // a folder that cannot be read is passed by
	}
	for _, e := range entries {
		if e.Name() == ".git" || rules.match(at+"/"+e.Name(), e.IsDir()) {
			continue
		}
		f := find{dir: dir, name: e.Name(), rel: join(rel, e.Name()), entry: e}
		f.shown = join(strings.TrimSuffix(p.target, "/"), f.rel)
		switch {
		case p.target == ".":
			f.shown = f.rel
		case p.target == "/":
			f.shown = "/" + f.rel
		}
		err := visit(f)
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
		if !e.IsDir() || err != nil || depth == deepest {
			continue
		}
		next, err := step(dir, e.Name(), nil)
		if err != nil {
			continue
		}
		err = descend(ctx, next, p, f.rel, rules, depth+1, visit)
		next.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func list(dir *os.Root) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
