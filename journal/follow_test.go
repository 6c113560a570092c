package journal

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A followed file: what is done to it, and what is heard.
type followed struct {
	*testing.T
	path  string
	lines chan heard
}

func follow(t *testing.T, path string, opt FollowOptions) *followed {
	ctx, cancel := context.WithCancel(t.Context())
	f := &followed{t, path, make(chan heard)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(f.lines)
		for line, err := range Follow(ctx, path, opt) {
			select {
			case f.lines <- heard{string(line), err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// want says which lines must come next.
func (f *followed) want(lines ...string) {
	f.Helper()
	for _, want := range lines {
		select {
		case h, open := <-f.lines:
			if h.err != nil || h.text != want || !open {
				f.Fatalf("heard %q, %v, want %q", h.text, h.err, want)
			}
		case <-time.After(60 * time.Second):
			f.Fatalf("%q never came", want)
		}
	}
}

func (f *followed) append(text string) {
	f.Helper()
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		f.Fatal(err)
	}
}

func (f *followed) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func TestFollowPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	os.WriteFile(path, []byte("a\nb\n"), 0o600)
	f := follow(t, path, FollowOptions{})
	f.want("a", "b")
	f.append("one ")
	f.append("two ")
	f.append("three\n\nfo")
	f.want("one two three", "")
	f.append("ur\n")
	f.want("four")
}

func TestFollowNotThereYet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "f")
	f := follow(t, path, FollowOptions{})
	f.must(os.Mkdir(filepath.Join(dir, "a"), 0o700))
	f.must(os.Mkdir(filepath.Join(dir, "a", "b"), 0o700))
	f.append("x\ny\n")
	f.want("x", "y")

	// The whole folder goes, and comes again.
	for range 20 {
		f.must(os.RemoveAll(filepath.Join(dir, "a")))
		f.must(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
		f.append("z\n")
		f.want("z")
	}
}

func TestFollowFromEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	os.WriteFile(path, []byte("a\nb\nhalf"), 0o600)
	f := &followed{T: t, path: path}
	fo := &follower{ctx: t.Context(), path: path, watch: newWatch(path, 0)}
	defer fo.close()
	f.must(fo.open(true)) // so that it is sure to have looked before we write
	b := make([]byte, 10)
	n, err := fo.Read(b)
	if string(b[:n]) != "half" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	f.must(os.WriteFile(path, []byte("anew\nagain\n"), 0o600))
	if _, err := fo.Read(b); err != io.EOF || !fo.cut {
		t.Error("truncated:", err)
	}
}

func TestFollowTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := follow(t, path, FollowOptions{})
	f.append("a long line before\nhalf")
	f.want("a long line before")
	f.must(os.WriteFile(path, []byte("new\n"), 0o600))
	if h := <-f.lines; h.text != "half" { // unless it was truncated before we saw it
		if h.text != "new" {
			t.Fatal(h)
		}
	} else {
		f.want("new")
	}
	// It grows beyond where we were before anybody looks.
	f.append("x\n")
	f.append("y\n")
	for range 50 { // the consumer holds "x" or waits; either way "y" is the last
		f.want("x", "y")
		f.must(os.WriteFile(path, []byte("another\nx\n"), 0o600))
		f.want("another")
		f.append("y\n")
	}
	f.want("x", "y")
}

func TestFollowRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := follow(t, path, FollowOptions{})
	f.append("a\n")
	f.want("a")
	for n := range 20 {
		old, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		f.must(err)
		fmt.Fprintf(old, "before %d\n", n)
		f.must(os.Rename(path, fmt.Sprint(path, n)))
		fmt.Fprintf(old, "after %d\nhalf", n)
		f.must(old.Close())
		f.append("new\n")
		f.want(fmt.Sprint("before ", n), fmt.Sprint("after ", n), "half", "new")
	}
}

func TestFollowRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := follow(t, path, FollowOptions{})
	f.append("a\n")
	f.want("a")
	for range 20 {
		f.append("b\n")
		f.must(os.Remove(path))
		f.append("c\nd\n")
		f.want("b", "c", "d")
	}
}

func TestFollowLink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "link")
	f := follow(t, path, FollowOptions{})
	f.must(os.Symlink(filepath.Join(other, "one"), path)) // to nothing yet
	f.append("a\n")
	f.want("a")
	f.append("b\n")
	f.want("b")
	f.must(os.WriteFile(filepath.Join(other, "two"), []byte("c\n"), 0o600))
	f.must(os.Symlink(filepath.Join(other, "two"), path+"~"))
	f.must(os.Rename(path+"~", path))
	f.want("c")
	f.append("d\n")
	f.want("d")
}

func TestFollowMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := follow(t, path, FollowOptions{})
	const n = 10_000
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		for i := range n {
			fmt.Fprintf(file, "%d %s\n", i, strings.Repeat("x", i%500))
		}
	}()
	for i := range n {
		f.want(fmt.Sprintf("%d %s", i, strings.Repeat("x", i%500)))
	}
}

// Without notes from the system, it still goes, if slower.
func TestFollowPoll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &watch{path: path, every: time.Millisecond, done: make(chan struct{})}
	close(w.done)
	fo := &follower{ctx: ctx, path: path, watch: w}
	defer fo.close()
	go os.WriteFile(path, []byte("a\n"), 0o600)
	if err := fo.open(false); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := fo.Read(b); string(b[:n]) != "a\n" || err != nil {
		t.Error(n, err)
	}
}

func TestFollowStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	os.WriteFile(path, []byte("a\nb\nc\n"), 0o600)
	files := openFiles(t)
	for range 10 {
		for range Follow(t.Context(), path, FollowOptions{}) {
			break
		}
		n := 0
		ctx, cancel := context.WithCancel(t.Context())
		for _, err := range Follow(ctx, path, FollowOptions{}) {
			if n++; err != nil {
				t.Error(err)
			}
			cancel()
		}
		if n != 1 {
			t.Errorf("%d lines after the end of ctx", n-1)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		for _, err := range Follow(ctx, path+"none", FollowOptions{}) {
			t.Error(err)
		}
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d open files, before %d", now, files)
	}
	for _, err := range Follow(t.Context(), filepath.Dir(path), FollowOptions{}) {
		if err == nil {
			t.Error("followed a folder")
		}
	}
}

// openFiles counts this process's open files, where the system tells.
func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log(err)
	}
	return len(list)
}
