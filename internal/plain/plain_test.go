package plain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tree(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(inside, "folder"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600))
	must(os.WriteFile(filepath.Join(inside, "file"), []byte("12345678"), 0o600))
	for link, to := range map[string]string{
		"near": "file", "folder/up": "../file", "far": "../secret", "absolute": filepath.Join(inside, "file"),
		"round": "round", "nowhere": "gone", "out": "..",
	} {
		must(os.Symlink(to, filepath.Join(inside, link)))
	}
	root, err := os.OpenRoot(inside)
	must(err)
	t.Cleanup(func() { root.Close() })
	return root, inside
}

func TestRead(t *testing.T) {
	root, _ := tree(t)
	for name, want := range map[string]string{
		"file": "", "near": "", "folder/up": "",
		"far":          "link that leads out",
		"absolute":     "link that leads out",
		"out/secret":   "link that leads out",
		"../secret":    "link that leads out",
		"round":        "too many",
		"nowhere":      "link that leads nowhere",
		"folder":       "folder",
		"missing":      "not exist",
		"gone/missing": "not exist",
	} {
		data, err := Read(root, name, 8)
		if want == "" && (err != nil || string(data) != "12345678") {
			t.Errorf("%s: %q %v", name, data, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(data) > 0) {
			t.Errorf("%s: %q %v, want an error with %q", name, data, err, want)
		}
		if gone := strings.Contains(want, "exist"); gone != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, should it be one of what is not there: %v", name, err, gone)
		}
	}
	if data, err := Read(root, "file", 7); err == nil || len(data) > 0 {
		t.Errorf("more than the limit: %q %v", data, err)
	}
	if data, err := Head(root, "file", 8, 3); err != nil || string(data) != "123" {
		t.Errorf("the head: %q %v", data, err)
	}
	if data, err := Head(root, "file", 7, 3); err == nil || len(data) > 0 {
		t.Errorf("the head of what is too large: %q %v", data, err)
	}
}

func TestUpward(t *testing.T) {
	for _, tt := range []struct{ folder, top, want string }{
		{"/r/a/b", "/r", "/r/a/b /r/a /r"},
		{"/r/a/b/", "/r/", "/r/a/b/ /r/a /r"},
		{"/r", "/r", "/r"},
		{"/r/a", "", "/r/a"},
		{"/r/a", "/s", "/r/a"},
		{"/r", "/r/a", "/r"},
		{"/a/b", "/", "/a/b /a /"},
	} {
		if got := strings.Join(Upward(tt.folder, tt.top), " "); got != tt.want {
			t.Errorf("from %s to %s: %s, want %s", tt.folder, tt.top, got, tt.want)
		}
	}
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"/a/b c.md":   "/a/b c.md",
		"/ä/ö":        "/ä/ö",
		"/a\nb":       `"/a\nb"`,
		"/a\x1b[2Jb":  `"/a\x1b[2Jb"`,
		"/a\u009b2Jb": `"/a\u009b2Jb"`,
		"/a\xffb":     `"/a\xffb"`,
		"/a\u202Eb":   `"/a\u202eb"`,
	} {
		if got := Name(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
