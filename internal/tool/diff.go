package tool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"crypto/rand"

	udiff "github.com/aymanbagabas/go-udiff"
)

const (
	maxEdit = 10 << 20 // a file that is edited is in memory as a whole
	maxDiff = 1 << 20  // what is larger is told without a diff
	maxPlan = 64 << 10 // what is larger has no diff before it is done
)

// A change is a file's text before and after.
type change struct {
	before, after string
	made          bool // the file was not there before
}

// fileChange is the metadata of a change.
type fileChange struct {
	Path    string `json:"file_path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Created bool   `json:"created,omitempty"`
}

// diff shows the change, as far as it can be shown.
func (c change) diff(name string) (text string, added, removed int) {
	if !isText(c.before) || !isText(c.after) {
		return "", 0, 0
	}
	if len(c.before) > maxDiff || len(c.after) > maxDiff {
		return "", 0, 0
	}
	from, to := "a/"+name, "b/"+name
	if strings.HasPrefix(name, "/") {
		from, to = name, name
	}
	if c.made {
		from = "/dev/null"
	}
	text = udiff.Unified(from, to, c.before, c.after)
	for line := range strings.Lines(body(text)) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return text, added, removed
}

// body is a diff without its two lines of names.
func body(diff string) string {
	_, rest, _ := strings.Cut(diff, "\n")
	_, rest, _ = strings.Cut(rest, "\n")
	return rest
}

func isText(s string) bool { return !strings.ContainsRune(s, 0) && utf8.ValidString(s) }

// result tells the change.
func (c change) result(p place) Result {
	if c.before == c.after && !c.made {
		return Result{Output: p.target + " has this content already: nothing was changed"}
	}
	text, added, removed := c.diff(p.target)
	r := Result{Metadata: metadata(fileChange{Path: p.target, Added: added, Removed: removed, Created: c.made})}
	if text == "" {
		r.Output = fmt.Sprintf("%s has been written: %d bytes", p.target, len(c.after))
		return r
	}
	r.Type, r.Output = "diff", text
	return r
}

// preview is the diff that the gate may show. What is outside is not looked at before the gate has agreed.
func (w *Workspace) preview(p place, edit func(before string) (string, error)) string {
	if !p.inside() {
		return ""
	}
	c := change{}
	f, info, err := w.file(p)
	switch {
	case err == nil:
		defer f.Close()
		if info.Size() > maxPlan {
			return ""
		}
		data, err := io.ReadAll(io.LimitReader(f, maxPlan+1))
		if err != nil {
			return ""
		}
		c.before = string(data)
	case errors.Is(err, fs.ErrNotExist):
		c.made = true
	default:
		return ""
	}
	if c.after, err = edit(c.before); err != nil || len(c.after) > maxPlan {
		return ""
	}
	if c.after == c.before {
		return ""
	}
	text, _, _ := c.diff(p.target)
	return text
}

// errReadOnly says that somebody does not want the file to be changed.
var errReadOnly = errors.New("the file is read-only: change its mode first, if that is meant")

// change reads the file at a place, has it edited, and puts the new text in its place at once: whoever reads it sees the old
// file or the new one. edit gets an error instead of a text if there is none, and may do without.
func (w *Workspace) change(p place, edit func(before string, err error) (string, error)) (c change, err error) {
	w.editing.Lock()
	defer w.editing.Unlock()
	before, info, err := w.text(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if info != nil && info.Mode().Perm()&0o200 == 0 {
		return c, errReadOnly
	}
	c = change{before: before, made: info == nil}
	if c.after, err = edit(before, err); err != nil {
		return c, err
	}
	if c.after == c.before && !c.made {
		return c, nil
	}
	dir, name, err := w.folder(p, func(r *os.Root, name string) error { return r.Mkdir(name, 0o777) })
	if err != nil {
		return c, err
	}
	defer dir.Close()
	return c, replace(dir, name, c.after, info)
}

// text reads a whole file.
func (w *Workspace) text(p place) (string, fs.FileInfo, error) {
	f, info, err := w.file(p)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return "", nil, plain(err)
	}
	if len(data) > maxEdit {
		return "", nil, fmt.Errorf("the file is larger than %d MB: change it with a command", maxEdit>>20)
	}
	return string(data), info, nil
}

// replace puts a new file in the place of an old one, with its mode and owner. A link that stands there by now is replaced, not
// followed.
func replace(dir *os.Root, name, text string, old fs.FileInfo) error {
	temp := ".sluice-" + rand.Text()
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return plain(err)
	}
	defer dir.Remove(temp) // fails if it was renamed
	_, err = io.WriteString(f, text)
	if old != nil {
		if uid, gid, ok := ownerOf(old); ok {
			f.Chown(uid, gid) // we may not be allowed to; then it is ours
		}
		err = errors.Join(err, f.Chmod(old.Mode().Perm()))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return plain(err)
	}
	if info, err := dir.Lstat(name); err == nil && info.IsDir() {
		return errMoved
	}
	return plain(dir.Rename(temp, name))
}
