package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// A socket is a Unix socket that is ours: for the user only, and there is never a moment when it is not.
type socket struct {
	*net.UnixListener
	path   string
	info   fs.FileInfo
	unlock func()
}

// dialTime is how long somebody may take to say that he is there.
const dialTime = 250 * time.Millisecond

// pathMost is how long the name of a socket may be: a system's constant, less one.
func pathMost() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// listen makes a socket. One that is left over is replaced; one that somebody serves is not.
func listen(path string) (*socket, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if long := max(len(path), len(dir)+len("/.s012345/s")); long > pathMost() {
		return nil, fmt.Errorf("the socket's path %s is %d bytes too long: choose a shorter one", path, long-pathMost())
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("the socket %s: %w", path, err)
	}
	s, err := bind(path)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("the socket %s: %w", path, err)
	}
	s.unlock = unlock
	return s, nil
}

var errServed = errors.New("another process serves it: choose another path, or stop that one")

// free says whether a socket can be put at the path.
func free(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("something else has that name: choose another path")
	}
	c, err := net.DialTimeout("unix", path, dialTime)
	if err == nil {
		c.Close()
		return errServed
	}
	if !dead(err) {
		return fmt.Errorf("nobody knows whether it is served: %w", err)
	}
	return nil
}

// dead says whether a failure to connect means that nobody is there.
func dead(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// bind makes the socket in a folder that nobody else can look into, and moves it to its place when it is for the user only.
func bind(path string) (*socket, error) {
	if err := free(path); err != nil {
		return nil, err
	}
	var name [3]byte
	rand.Read(name[:])
	dir := filepath.Join(filepath.Dir(path), ".s"+hex.EncodeToString(name[:]))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	at := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it will be elsewhere
	s := &socket{UnixListener: l, path: path}
	if err = os.Chmod(at, 0o600); err == nil {
		if s.info, err = os.Lstat(at); err == nil {
			err = os.Rename(at, path)
		}
	}
	if err != nil {
		l.Close()
		os.Remove(at)
		return nil, err
	}
	return s, nil
}

// close takes the socket away, if it is still ours.
func (s *socket) close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.info) {
		os.Remove(s.path) // if that fails the next one sees that nobody serves it
	}
	err := s.UnixListener.Close()
	s.unlock()
	return err
}

// dial connects to a socket.
func dial(ctx context.Context, path string) (net.Conn, error) {
	// A registry may keep a link where a path would be too long.
	if to, err := os.Readlink(path); err == nil {
		path = to
	}
	if len(path) > pathMost() {
		return nil, fmt.Errorf("the socket's path %s is too long for this system", path)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no socket %s: %w", path, ErrNobody)
	case dead(err):
		return nil, fmt.Errorf("the socket %s is left over: %w", path, ErrNobody)
	}
	return nil, err
}

// ErrNobody says that nobody serves a socket.
var ErrNobody = errors.New("nobody is there")
