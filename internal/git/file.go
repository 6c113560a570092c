package git

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"
)

const (
	maxHash = 64 << 20  // a larger file is known by its dates alone
	maxText = 256 << 10 // a larger file that was not clean has no lines to count
	maxKept = 8 << 20   // text of all of them

	readTime = 2 * time.Second // for all of them: somebody waits
)

// A stat is what tells without reading a file that it was not touched.
type stat struct{ mtime, ctime, size int64 }

// A file is one of the work tree.
type file struct {
	tracked bool
	index   string // hash that the index has for it
	clean   stat   // when it had that content

	there bool // there is a plain file or a link
	mode  fs.FileMode
	now   stat
	sum   string // hash of its content; empty if it was not read
	text  string // the content itself, if it is not on record and not large
	kept  bool   // text is it
}

// look sees what is there.
func (r *reader) look(path string, f file) file {
	info, err := os.Lstat(filepath.Join(r.top, filepath.FromSlash(path)))
	if err != nil || !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return f
	}
	f.there, f.mode, f.now = true, info.Mode()&(fs.ModeType|0o100), statOf(info)
	return f
}

// remember makes sure that the file can be compared later. One that is clean is on record; any other is read, and its text
// kept if there is room. When there is no time for that, its dates have to do.
func (r *reader) remember(path string, f file) file {
	switch {
	case !f.there:
	case f.tracked && f.now.same(f.clean):
		f.sum = f.index
	case time.Since(r.since) < readTime:
		f.sum, f.text, f.kept = r.read(path, f)
		if r.kept+len(f.text) > maxKept || f.sum == f.index {
			f.text, f.kept = "", false
		}
		r.kept += len(f.text)
	}
	return f
}

// same holds dates against those in the index, where some programs write no fractions of seconds.
func (s stat) same(index stat) bool {
	if index.mtime%1e9 == 0 && index.ctime%1e9 == 0 {
		s.mtime, s.ctime = s.mtime/1e9*1e9, s.ctime/1e9*1e9
	}
	return s == index
}

// differ says whether a file is another than before. Dates that are the same spare the reading.
func (r *reader) differ(path string, before, after file) bool {
	switch {
	case before.there != after.there || before.mode != after.mode:
		return before.there || after.there
	case !before.there || before.now == after.now:
		return false
	case before.sum == "":
		return true
	}
	after.index = before.index // the same way of hashing
	sum, _, _ := r.read(path, after)
	return sum != before.sum
}

// read hashes a file as git does, but without its filters: they may be programs. A small one is also returned.
func (r *reader) read(path string, f file) (sum, text string, whole bool) {
	name := filepath.FromSlash(path)
	var h hash.Hash = sha1.New()
	if len(f.index) == 2*sha256.Size {
		h = sha256.New()
	}
	if f.mode&fs.ModeSymlink != 0 {
		to, err := r.root.Readlink(name)
		if err != nil {
			return "", "", false
		}
		fmt.Fprintf(h, "blob %d\x00%s", len(to), to)
		return hex.EncodeToString(h.Sum(nil)), "", false
	}
	in, size, err := r.open(name)
	if err != nil || size > maxHash {
		return "", "", false
	}
	defer in.Close()
	fmt.Fprintf(h, "blob %d\x00", size)
	var keep bytes.Buffer
	to := io.Writer(h)
	if size <= maxText {
		to = io.MultiWriter(h, &keep)
	}
	if n, err := io.Copy(to, io.LimitReader(in, size+1)); err != nil || n != size {
		return "", "", false
	}
	return hex.EncodeToString(h.Sum(nil)), keep.String(), size <= maxText
}

// open opens a plain file of the work tree, and nothing outside it.
func (r *reader) open(name string) (*os.File, int64, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|noBlock, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// count counts the lines that came and went, where both texts are at hand.
func (r *reader) count(d difference, old map[string]string) (added, removed int) {
	before, ok := d.before.text, d.before.kept || !d.before.there
	if d.before.sum == d.before.index && !ok {
		before, ok = old[d.before.index]
	}
	if !ok {
		return 0, 0
	}
	after := ""
	if d.after.there {
		if after, ok = r.textOf(d.path, d.after); !ok {
			return 0, 0
		}
	}
	if strings.ContainsRune(before, 0) || strings.ContainsRune(after, 0) {
		return 0, 0
	}
	for _, e := range udiff.Lines(before, after) {
		added += countLines(e.New)
		removed += countLines(before[e.Start:e.End])
	}
	return added, removed
}

func (r *reader) textOf(path string, f file) (string, bool) {
	if f.mode&fs.ModeSymlink != 0 {
		to, err := r.root.Readlink(filepath.FromSlash(path))
		return to, err == nil
	}
	in, size, err := r.open(filepath.FromSlash(path))
	if err != nil {
		return "", false
	}
	defer in.Close()
	if size > maxOld {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(in, maxOld))
	return string(data), err == nil
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
