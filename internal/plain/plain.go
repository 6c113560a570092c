// Package plain reads files that somebody else may have put there: only plain ones, only so much of them, and never by a link
// that leads out of a folder.
package plain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Read reads a file below a folder. One that is larger than limit is an error, and so is a folder, a pipe or a device, and a
// link that leads out of the folder or is absolute. What is not there is an [fs.ErrNotExist]. The errors say what is wrong
// with the file, and do not name it.
func Read(root *os.Root, name string, limit int64) ([]byte, error) {
	data, err := Head(root, name, limit, limit+1) // it may grow meanwhile
	if int64(len(data)) > limit {
		return nil, tooLarge(limit)
	}
	return data, err
}

// Head is Read for the first bytes only, n at most.
func Head(root *os.Root, name string, limit, n int64) ([]byte, error) {
	f, info, err := Open(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch {
	case info.IsDir():
		return nil, errors.New("it is a folder, not a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a plain file")
	case info.Size() > limit:
		return nil, tooLarge(limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return nil, reason(err)
	}
	return data, nil
}

// Open opens a file or folder below a folder, under the same rules. It does not wait for anybody at the other end of a pipe.
func Open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if info, lerr := root.Lstat(name); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, nil, errors.New("it is a link that leads nowhere")
		}
	}
	if err != nil {
		return nil, nil, reason(err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, reason(err)
	}
	return f, info, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("it is larger than %d KiB", limit>>10)
}

// reason is an error of the system without the path, which the caller knows better.
func reason(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	if strings.Contains(err.Error(), "escapes") { // package os has no name for it
		return errors.New("it is reached by a link that leads out of its place")
	}
	return err
}

// Upward lists the folders from one up to another that it is in, or only itself if it is in no such folder.
func Upward(folder, top string) []string {
	list := []string{folder}
	if rel, err := filepath.Rel(top, folder); top == "" || err != nil || !filepath.IsLocal(rel) {
		return list
	}
	for at := filepath.Clean(folder); at != filepath.Clean(top); list = append(list, at) {
		at = filepath.Dir(at)
	}
	return list
}

// Name shows a path on one line, whatever is in it.
func Name(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}
