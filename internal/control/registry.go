package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Registry is a folder with the sockets of runs, by which they are found.
type Registry struct{ Dir string }

// Path is where the socket of a run is.
func (r Registry) Path(id string) string { return filepath.Join(r.Dir, fileName(id)+".sock") }

// Listen serves a run's socket in the folder. Where its path would be too long for a socket, the folder gets a link to one that
// is elsewhere.
func (r Registry) Listen(id string, o ServerOptions) (*Server, error) {
	path, err := filepath.Abs(r.Path(id))
	if err != nil {
		return nil, err
	}
	if len(path) <= pathMost() {
		return Listen(path, o)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", elsewhere) // 0700
	if err != nil {
		return nil, err
	}
	s, err := Listen(filepath.Join(dir, "s"), o)
	if err == nil {
		s.also = func() {
			os.Remove(path)
			os.Remove(dir)
		}
		if err = os.Symlink(s.Path(), path); err != nil {
			s.Close(context.Background())
		}
	}
	if err != nil {
		os.Remove(dir)
		return nil, err
	}
	return s, nil
}

// Enter lets a run be found whose socket is somewhere else, as long as it is served.
func (r Registry) Enter(id string, s *Server) error {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	path := r.Path(id)
	if to, err := os.Readlink(path); err == nil {
		if err := free(to); err != nil {
			return fmt.Errorf("the socket of another run is there: %w", err)
		}
		os.Remove(path) // it is left over
	}
	if err := os.Symlink(s.Path(), path); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.also = func() { os.Remove(path) }
	return nil
}

// elsewhere is how folders are called that hold a socket whose own place has too long a name.
const elsewhere = "sluice-socket-"

// A Found run is one that a socket serves.
type Found struct {
	Socket string
	Status
}

// Live lists the runs that are served now, newest first. Sockets that nobody serves are taken away.
func (r Registry) Live(ctx context.Context) ([]Found, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Found
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".sock" {
			continue
		}
		path := filepath.Join(r.Dir, e.Name())
		runs, err := ask(ctx, path)
		if errors.Is(err, ErrNobody) {
			sweep(path)
		}
		for _, s := range runs {
			list = append(list, Found{path, s})
		}
	}
	slices.SortStableFunc(list, func(a, b Found) int { return b.StartedAt.Compare(a.StartedAt) })
	return list, ctx.Err()
}

// ask asks one socket what it serves. One that does not answer is not waited for.
func ask(ctx context.Context, path string) ([]Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*dialTime)
	defer cancel()
	c, err := Dial(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.List(ctx)
}

// sweep takes away a socket that nobody serves, if nobody is just about to.
func sweep(path string) {
	at := path
	if to, err := os.Readlink(path); err == nil {
		at = to
	}
	unlock, err := lock(at + ".lock")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return
	}
	if unlock != nil {
		defer unlock()
	}
	if free(at) != nil {
		return
	}
	os.Remove(path)
	if at != path {
		os.Remove(at)
		if dir := filepath.Dir(at); strings.HasPrefix(filepath.Base(dir), elsewhere) {
			defer os.Remove(dir)
		}
	}
}

// Find finds a run by its id, run id, session or label. If several have it, it is the newest one; the others are returned too.
func (r Registry) Find(ctx context.Context, name string) (Found, []Found, error) {
	live, err := r.Live(ctx)
	if err != nil {
		return Found{}, nil, err
	}
	var fits []Found
	for _, f := range live {
		if slices.Contains([]string{f.RuntimeID, f.RunID, f.SessionID, f.RunLabel}, name) {
			fits = append(fits, f)
		}
	}
	if len(fits) == 0 {
		var known []string
		for _, f := range live {
			known = append(known, cmp.Or(f.RunLabel, f.RuntimeID))
		}
		return Found{}, nil, fmt.Errorf("no run %q is going on: there are %s", name, cmp.Or(strings.Join(known, ", "), "none"))
	}
	return fits[0], fits[1:], nil
}
