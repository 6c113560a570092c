package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/plain"
)

// A Trust remembers which files of projects the user trusts. It is a folder with a small file for each, so that two who add at
// once do not lose anything. A file is trusted by its path and its content: changed or moved, it is not.
type Trust struct{ dir string }

// An Entry is a file that was trusted.
type Entry struct {
	Path   string    `json:"path"` // absolute, links followed
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
}

// A Standing is what a file is to the user.
type Standing string

// Unknown is a file that was never trusted. Changed is one that was, with another content.
const (
	Unknown Standing = "unknown"
	Changed Standing = "changed"
	Trusted Standing = "trusted"
)

// OpenTrust opens the user's. Nothing need be there.
func OpenTrust(env func(string) string) (Trust, error) {
	state, err := State(env)
	if err != nil {
		return Trust{}, err
	}
	return Trust{filepath.Join(state, "trust")}, nil
}

// whole is a path as it is remembered.
func whole(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

func (t Trust) file(path string) string { return filepath.Join(t.dir, sum([]byte(path))+".json") }

// Add trusts a file with this content.
func (t Trust) Add(path string, data []byte, now time.Time) (Entry, error) {
	path, err := whole(path)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Path: path, SHA256: sum(data), At: now.UTC().Truncate(time.Second)}
	text, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return e, err
	}
	tmp, err := os.CreateTemp(t.dir, ".new-*") // 0600
	if err != nil {
		return e, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(text, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), t.file(path))
	}
	return e, err
}

// Check says what a file with this content is to the user.
func (t Trust) Check(path string, data []byte) Standing {
	path, err := whole(path)
	if err != nil {
		return Unknown
	}
	e, err := read(t.file(path))
	switch {
	case err != nil || e.Path != path:
		return Unknown
	case e.SHA256 != sum(data):
		return Changed
	}
	return Trusted
}

// Trusts is Check for one who wants to know only that.
func (t Trust) Trusts(path string, data []byte) bool { return t.Check(path, data) == Trusted }

// Remove forgets a file. It may be gone meanwhile.
func (t Trust) Remove(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if real, err := whole(path); err == nil {
		abs = real
	}
	err = os.Remove(t.file(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s was not trusted", plain.Name(abs))
	}
	return err
}

// List returns all that were trusted, by path.
func (t Trust) List() ([]Entry, error) {
	files, err := os.ReadDir(t.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Entry
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			continue // of one who is just adding
		}
		e, err := read(filepath.Join(t.dir, f.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

func read(file string) (e Entry, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("%s is damaged: %w", file, err)
	}
	return e, nil
}
