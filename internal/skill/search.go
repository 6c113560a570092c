package skill

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/plain"
)

// A place is a folder of skills or profiles.
type place struct {
	root *os.Root // no link leads out of it
	sub  string   // the folder, from there
	ours bool     // it is the user's, not the repository's
	kin  []string // folders of the same kind that are the user's
}

func (p place) folder() string { return filepath.Join(p.root.Name(), p.sub) }

// A search goes through the places, the nearest first.
type search struct {
	options  Options
	problems []error
	looks    int             // that are left on this side: the repository's, or the user's
	found    int             // on this side
	seen     map[string]bool // folders, once links are followed: the same one by two names is one
}

func (s *search) problem(path string, err error) {
	s.problems = append(s.problems, fmt.Errorf("%s: %w", plain.Name(path), err))
}

// room says whether one more fits. The first that does not is a problem.
func (s *search) room(limit int, what, path string) bool {
	s.found++
	if s.found == limit+1 {
		s.problem(path, fmt.Errorf("there are more than %d %s: this one and those after it are left out", limit, what))
	}
	return s.found <= limit
}

// each calls visit for what is in the folders called kind: those in the given folders from the workspace up to the top, then
// the user's. Bounds are for each of the two, so that a repository cannot crowd out what is the user's own.
func (s *search) each(kind string, in []string, visit func(at place, e os.DirEntry)) {
	s.seen = map[string]bool{}
	s.inRepository(kind, in, visit)
	s.inHome(kind, in, visit)
}

func (s *search) inRepository(kind string, in []string, visit func(at place, e os.DirEntry)) {
	if s.options.Workspace == "" {
		return
	}
	s.looks, s.found = maxLooks, 0
	folders := plain.Upward(s.options.Workspace, s.options.Top)
	top := folders[len(folders)-1]
	root, err := os.OpenRoot(top)
	if err != nil {
		s.problem(top, err)
		return
	}
	defer root.Close()
	for _, folder := range folders {
		rel, err := filepath.Rel(top, folder)
		if err != nil {
			continue
		}
		for _, name := range in {
			s.visit(place{root: root, sub: filepath.Join(rel, name, kind)}, visit)
		}
	}
}

func (s *search) inHome(kind string, in []string, visit func(at place, e os.DirEntry)) {
	s.looks, s.found = maxLooks, 0
	homes := s.options.homes(kind, in)
	for _, folder := range homes {
		root, err := os.OpenRoot(folder) // the folder itself may be a link: the user made it
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			s.problem(folder, err)
			continue
		}
		s.visit(place{root: root, sub: ".", ours: true, kin: homes}, visit)
		root.Close()
	}
}

// homes are the user's own folders of a kind.
func (o Options) homes(kind string, in []string) (list []string) {
	if o.Config != "" {
		list = append(list, filepath.Join(o.Config, kind))
	}
	for _, name := range in {
		if name != ".sluice" && o.Home != "" {
			list = append(list, filepath.Join(o.Home, name, kind))
		}
	}
	return list
}

// visit calls f for what is in a place, by name. What is hidden is nobody's business.
func (s *search) visit(p place, f func(at place, e os.DirEntry)) {
	dir, info, err := plain.Open(p.root, p.sub)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		s.problem(p.folder(), err)
		return
	}
	defer dir.Close()
	if !info.IsDir() {
		s.problem(p.folder(), errors.New("it is not a folder"))
		return
	}
	if real, err := filepath.EvalSymlinks(p.folder()); err == nil {
		if s.seen[real] {
			return
		}
		s.seen[real] = true
	}
	entries, err := dir.ReadDir(s.looks + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		s.problem(p.folder(), err)
	}
	if len(entries) > s.looks {
		s.problem(p.folder(), fmt.Errorf("there is too much to look at: what comes after the first %d names is left out", maxLooks))
		entries = entries[:s.looks]
	}
	s.looks -= len(entries)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			f(p, e)
		}
	}
}

// linked says whether a name in one of the user's folders is a link into another one of them. It is found there by itself.
func (p place) linked(name string) bool {
	real, err := filepath.EvalSymlinks(filepath.Join(p.folder(), name))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.kin, func(folder string) bool {
		folder, err := filepath.EvalSymlinks(folder)
		return err == nil && below(folder, real) != ""
	})
}

// below is a path from a folder, if it is in there, and empty if it is not.
func below(folder, path string) string {
	rel, err := filepath.Rel(folder, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return ""
	}
	return rel
}
