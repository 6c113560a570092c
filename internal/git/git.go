// Package git says what a run changed in a work tree. It looks before the first change and again at the end:
//
//	Snapshot ──▶ State ──Changes──▶ files that are not what they were
//
// The repository is not trusted: what its configuration names as a filter, a monitor, a hook or a diff program must not run.
// So git is asked only for what it has on record (the index, the names of untracked files, old contents); whether a file is
// still what it was is found out here, by its dates and then by its content. Commits do not matter: a file that was committed
// as it was before has not changed, and one that was changed has, committed or not.
package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/event"
)

const (
	timeLimit = 5 * time.Second
	mostFiles = 500 // that are listed of each sort
)

// A State is a work tree as it was.
type State struct {
	top   string // folder of the work tree
	base  string // commit; empty before the first one
	files map[string]file
}

// Snapshot looks at the work tree that dir is in. It returns nil if there is none, or no git.
func Snapshot(ctx context.Context, dir string) (*State, error) {
	top := topOf(dir)
	if top == "" {
		return nil, nil
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	r, err := newReader(top)
	if err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	defer r.close()
	s := &State{top: top, base: r.head(ctx)}
	if s.files, err = r.files(ctx); err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	for path, f := range s.files {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("git: %w", ctx.Err())
		}
		s.files[path] = r.remember(path, f)
	}
	return s, nil
}

// topOf finds the folder of the work tree, by its .git.
func topOf(dir string) string {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for err == nil {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}

// Changes says what is different now. Paths are those of the work tree, with slashes. A nil State has none.
func (s *State) Changes(ctx context.Context) (*event.Changes, error) {
	if s == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	r, err := newReader(s.top)
	if err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	defer r.close()
	now, err := r.files(ctx)
	if err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	var changed []difference
	for path, before := range s.files {
		after, listed := now[path]
		if !listed {
			after = r.look(path, file{tracked: before.tracked}) // it is ignored by now, or gone
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("git: %w", ctx.Err())
		}
		if r.differ(path, before, after) {
			changed = append(changed, difference{path, before, after})
		}
	}
	for path, after := range now {
		if _, known := s.files[path]; !known && after.there {
			changed = append(changed, difference{path, file{}, after})
		}
	}
	return s.sum(ctx, r, changed), nil
}

// A difference is a file that is not what it was.
type difference struct {
	path          string
	before, after file
}

func (s *State) sum(ctx context.Context, r *reader, changed []difference) *event.Changes {
	slices.SortFunc(changed, func(a, b difference) int {
		if a.path < b.path {
			return -1
		}
		return 1
	})
	c := &event.Changes{Base: s.base}
	old := r.contents(ctx, changed)
	for _, d := range changed {
		if d.after.tracked || d.before.tracked || !d.after.there {
			c.Files = append(c.Files, d.path)
		} else {
			c.Untracked = append(c.Untracked, d.path)
		}
		if ctx.Err() == nil {
			added, removed := r.count(d, old)
			c.Added += added
			c.Removed += removed
		}
	}
	c.Files, c.Untracked = bound(c.Files), bound(c.Untracked)
	return c
}

// bound keeps a list short, and says so.
func bound(list []string) []string {
	if n := len(list) - mostFiles; n > 0 {
		return append(list[:mostFiles:mostFiles], fmt.Sprintf("… and %d more", n))
	}
	return list
}
