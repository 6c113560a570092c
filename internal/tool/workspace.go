package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// A Workspace is the folder that the agent works in. A path is judged where it leads once all links are followed, and opened
// exactly there: if a link was put into its way in between, it is not opened at all.
type Workspace struct {
	base string   // absolute, without links
	root *os.Root // so that it stays what it was, whatever is renamed
	also []string // folders outside that may be read all the same
	err  error    // why there is none

	editing sync.Mutex // a file is read, changed and written by one at a time
}

// openWorkspace opens a folder. If that fails, every use of the workspace says why.
func openWorkspace(dir string, also ...string) *Workspace {
	w := &Workspace{}
	if w.base, w.err = filepath.Abs(dir); w.err == nil {
		if w.base, w.err = filepath.EvalSymlinks(w.base); w.err == nil {
			w.root, w.err = os.OpenRoot(w.base)
		}
	}
	for _, dir := range also {
		if dir == "" {
			continue
		}
		if p, err := follow(dir); err == nil {
			w.also = append(w.also, p)
		}
	}
	return w
}

// A place is where a path leads.
type place struct {
	real   string // absolute, without links
	rel    string // the same from the workspace, "." for itself; empty if it is outside
	target string // for rules: rel with slashes, or real
	open   bool   // outside, but in a folder that may be read
}

func (p place) inside() bool { return p.rel != "" }

// resolve says where a path leads. Nothing need be there: what exists of it is followed, the rest is taken as it stands.
func (w *Workspace) resolve(path string) (place, error) {
	if w.err != nil {
		return place{}, fmt.Errorf("the workspace cannot be opened: %w", w.err)
	}
	if path == "" {
		return place{}, errors.New("the path is empty")
	}
	if strings.ContainsRune(path, 0) {
		return place{}, errors.New("the path has a NUL in it")
	}
	if home, err := os.UserHomeDir(); err == nil && (path == "~" || strings.HasPrefix(path, "~/")) {
		path = home + path[1:]
	}
	if !filepath.IsAbs(path) {
		// Not Join, which would take "link/.." for nothing: ".." is where the link leads.
		path = w.base + string(filepath.Separator) + path
	}
	real, err := follow(path)
	if err != nil {
		return place{}, err
	}
	p := place{real: real, target: filepath.ToSlash(real)}
	if rel, ok := below(w.base, real); ok {
		p.rel, p.target = rel, filepath.ToSlash(rel)
		return p, nil
	}
	for _, dir := range w.also {
		if _, ok := below(dir, real); ok {
			p.open = true
		}
	}
	return p, nil
}

// Resolve is for a gate that reads commands: where a path leads, and whether that is outside.
func (w *Workspace) Resolve(path string) (target string, outside bool) {
	p, err := w.resolve(path)
	if err != nil {
		return path, true
	}
	return p.target, !p.inside()
}

func below(dir, path string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

const maxLinks = 40

// follow follows all links of an absolute path. From the first name that does not exist on, there is nothing to follow.
func follow(path string) (string, error) {
	sep := string(filepath.Separator)
	volume := filepath.VolumeName(path)
	done := volume + sep
	rest := strings.Split(path[len(volume):], sep)
	links, missing := 0, false
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && missing:
			return "", fmt.Errorf("%s: there is no such folder to go up from", path)
		case name == "..":
			done = filepath.Dir(done)
			continue
		case missing:
			done = filepath.Join(done, name)
			continue
		}
		next := filepath.Join(done, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done, missing = next, true
			continue
		case err != nil:
			return "", plain(err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many links", path)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", plain(err)
		}
		if filepath.IsAbs(to) {
			volume = filepath.VolumeName(to)
			done = volume + sep
			to = to[len(volume):]
		}
		rest = append(strings.Split(to, sep), rest...)
	}
	return done, nil
}

// access is what a tool that touches p asks the gate for.
func (p place) access(permission string, class event.Class) []gate.Access {
	list := []gate.Access{{Permission: permission, Target: p.target, Class: class}}
	if !p.inside() && !(p.open && class == event.ClassInfo) {
		list = append(list, gate.Access{Permission: gate.Outside, Target: p.target, Class: class})
	}
	return list
}

// errMoved says that a path leads elsewhere than when it was judged.
var errMoved = errors.New("the path changed while it was used: a link or another folder stands in it now")

// folder opens the folder of a place, by every name of it that was judged. The names that are missing are made, if there is
// anything to make them with.
func (w *Workspace) folder(p place, mkdir func(r *os.Root, name string) error) (dir *os.Root, name string, err error) {
	path := p.rel
	if p.inside() {
		dir, err = w.root.OpenRoot(".")
	} else {
		// Folders that may be passed but not listed are common on the way to a place outside: begin as deep as possible.
		start := filepath.Dir(p.real)
		for mkdir != nil && !exists(start) {
			start = filepath.Dir(start)
		}
		if now, err := follow(start); err != nil || now != start {
			return nil, "", errMoved
		}
		path, _ = filepath.Rel(start, p.real)
		dir, err = os.OpenRoot(start)
	}
	if err != nil {
		return nil, "", plain(err)
	}
	names := strings.Split(path, string(filepath.Separator))
	for _, name := range names[:len(names)-1] {
		next, err := step(dir, name, mkdir)
		dir.Close()
		if err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, names[len(names)-1], nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// step goes into a folder, and not through a link.
func step(dir *os.Root, name string, mkdir func(r *os.Root, name string) error) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && mkdir != nil {
		if err := mkdir(dir, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, plain(err)
		}
		info, err = dir.Lstat(name)
	}
	switch {
	case err != nil:
		return nil, plain(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errMoved
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder", name)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, plain(err)
	}
	if now, err := next.Lstat("."); err != nil || !os.SameFile(now, info) {
		next.Close()
		return nil, errMoved
	}
	return next, nil
}

// file opens what is at a place for reading, if it is a plain file.
func (w *Workspace) file(p place) (*os.File, fs.FileInfo, error) {
	dir, name, err := w.folder(p, nil)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	return openPlain(dir, name)
}

// openPlain opens a plain file. Anything else might block, or never end.
func openPlain(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, plain(err)
	}
	if err := onlyPlain(info, name); err != nil {
		return nil, nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|noBlock, 0)
	if err != nil {
		return nil, nil, plain(err)
	}
	now, err := f.Stat()
	if err != nil || !os.SameFile(now, info) {
		f.Close()
		return nil, nil, errMoved
	}
	return f, now, nil
}

// onlyPlain says why a tool does not open something.
func onlyPlain(info fs.FileInfo, name string) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s is a folder: list it with glob, or name a file in it", name)
	case mode&fs.ModeSymlink != 0:
		return errMoved
	case mode&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s is a named pipe, not a file", name)
	case mode&fs.ModeSocket != 0:
		return fmt.Errorf("%s is a socket, not a file", name)
	case mode&fs.ModeDevice != 0:
		return fmt.Errorf("%s is a device, not a file", name)
	}
	return fmt.Errorf("%s is not a plain file", name)
}

// plain says an error of the system in one short sentence: what the path was, the caller knows.
func plain(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fs.ErrNotExist
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// OpenWorkspace opens a folder for somebody who only wants to know where paths lead: see [Workspace.Resolve].
func OpenWorkspace(dir string) *Workspace { return openWorkspace(dir) }
