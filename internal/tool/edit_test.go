package tool

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	b := newBench(t, map[string]string{"a": "one\ntwo\n", "bin": "a\x00b", "sub/real": "old\n"})
	os.Chmod(b.path("a"), 0o751)
	p := b.mustPlan("write", object{"file_path": "a", "content": "one\n2\nthree\n"})
	diff := "--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+three\n"
	if p.Diff != diff {
		t.Errorf("the plan says %q", p.Diff)
	}
	if b.get("a") != "one\ntwo\n" {
		t.Error("the plan changed the file")
	}
	r := p.Run(t.Context(), nil)
	if r.Output != diff || r.Type != "diff" || r.Error != "" {
		t.Errorf("%+v", r)
	}
	if want := `{"file_path":"a","added":2,"removed":1}`; string(r.Metadata) != want {
		t.Errorf("metadata %s", r.Metadata)
	}
	if info, _ := os.Stat(b.path("a")); info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v", info.Mode())
	}
	if r := b.ok("write", object{"file_path": "a", "content": "one\n2\nthree\n"}); !strings.Contains(r.Output, "nothing was changed") {
		t.Errorf("%+v", r)
	}

	r = b.ok("write", object{"file_path": "new/deep/file.txt", "content": "x\n"})
	if r.Output != "--- /dev/null\n+++ b/new/deep/file.txt\n@@ -0,0 +1 @@\n+x\n" || b.get("new/deep/file.txt") != "x\n" {
		t.Errorf("%+v", r)
	}
	if want := `{"file_path":"new/deep/file.txt","added":1,"removed":0,"created":true}`; string(r.Metadata) != want {
		t.Errorf("metadata %s", r.Metadata)
	}
	if r = b.ok("write", object{"file_path": "none", "content": ""}); b.get("none") != "" || r.Output != "none has been written: 0 bytes" {
		t.Errorf("%+v", r)
	}
	if r = b.ok("write", object{"file_path": "bin", "content": "text\n"}); r.Type != "" || b.get("bin") != "text\n" {
		t.Errorf("%+v", r)
	}

	// A link in the workspace is followed: it stays a link.
	b.link("sub/real", "link")
	b.ok("write", object{"file_path": "link", "content": "new\n"})
	if info, _ := os.Lstat(b.path("link")); info.Mode()&os.ModeSymlink == 0 || b.get("sub/real") != "new\n" {
		t.Error("the link is gone, or its target is what it was")
	}
	// So is one that leads to nothing yet.
	b.link("sub/coming", "dangling")
	b.ok("write", object{"file_path": "dangling", "content": "here\n"})
	if b.get("sub/coming") != "here\n" {
		t.Error("nothing at the end of the link")
	}

	os.Chmod(b.path("a"), 0o444)
	b.fails("write", object{"file_path": "a", "content": "x"}, "read-only")
	b.fails("write", object{"file_path": "sub", "content": "x"}, "is a folder")
	b.fails("write", object{"file_path": "a/b", "content": "x"}, "not a directory")
	left, _ := os.ReadDir(b.dir)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".sluice-") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestWriteIsAtomic(t *testing.T) {
	before, after := strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)
	b := newBench(t, map[string]string{"f": before})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			data, err := os.ReadFile(b.path("f"))
			if err != nil || string(data) != before && string(data) != after {
				t.Errorf("half a file: %d bytes, %v", len(data), err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range 20 {
		b.ok("write", object{"file_path": "f", "content": []string{after, before}[i%2]})
	}
	close(stop)
	wg.Wait()
}

func TestSwap(t *testing.T) {
	for _, c := range []struct {
		name, text string
		swap       swap
		want, err  string
	}{
		{"exact", "a b c\n", swap{Old: "b", New: "B"}, "a B c\n", ""},
		{"across lines", "a\nb\nc\n", swap{Old: "a\nb", New: "x"}, "x\nc\n", ""},
		{"delete", "a\nb\nc\n", swap{Old: "b\n", New: ""}, "a\nc\n", ""},
		{"twice", "b\nx\nb\n", swap{Old: "b", New: "B"}, "", "there 2 times (lines 1, 3): add lines around it until it is the only one, or set replace_all"},
		{"all", "b\nx\nb\n", swap{Old: "b", New: "B", All: true}, "B\nx\nB\n", ""},
		{"many places", strings.Repeat("b\n", 20), swap{Old: "b", New: "B"}, "", "there 20 times (lines 1, 2, 3, 4, 5, 6, 7, 8 …)"},
		{"not there", "a\n", swap{Old: "z", New: "y"}, "", "not in the file: read it again"},
		{"first line only", "f() {\n\tx\n}\n", swap{Old: "f() {\n\ty\n}", New: "y"}, "", "its first line is at line 1, but what follows is different"},
		{"blanks only", "a\n", swap{Old: "\n\n\n", New: "y"}, "", "not in the file"},

		{"crlf kept", "a\r\nb\r\nc\r\n", swap{Old: "a\nb", New: "x\ny\nz"}, "x\r\ny\r\nz\r\nc\r\n", ""},
		{"crlf given", "a\r\nb\r\n", swap{Old: "a\r\n", New: "x\r\n"}, "x\r\nb\r\n", ""},
		{"crlf in one line", "a\r\nb\r\n", swap{Old: "a", New: "x\ny"}, "x\r\ny\r\nb\r\n", ""},
		{"mixed stays mixed", "a\r\nb\r\nc\nd\r\n", swap{Old: "b", New: "B"}, "a\r\nB\r\nc\nd\r\n", ""},

		{"less indentation", "\t\tif x {\n\t\t\ty()\n\t\t}\n", swap{Old: "if x {\n\ty()\n}", New: "if z {\n\ty()\n\tw()\n}"}, "\t\tif z {\n\t\t\ty()\n\t\t\tw()\n\t\t}\n", ""},
		{"spaces for tabs", "\tif x {\n\t\ty()\n\t}\n", swap{Old: "    if x {\n        y()\n    }\n", New: "    if x {\n        if z {\n            y()\n        }\n    }\n"}, "\tif x {\n\t\tif z {\n\t\t\ty()\n\t\t}\n\t}\n", ""},
		{"trailing blanks", "a  \nb\t\nc\n", swap{Old: "a\nb", New: "x\ny"}, "x\ny\nc\n", ""},
		{"loose and at the end", "x\n  a", swap{Old: "a \n", New: "b\n"}, "x\n  b\n", ""},
		{"loose in crlf", "  a\r\n  b\r\nc\r\n", swap{Old: "a\nb\n", New: "a\nB\n"}, "  a\r\n  B\r\nc\r\n", ""},
		{"loose twice", " a\n b\n  a\n  b\n", swap{Old: "a\nb", New: "x"}, "", "is there 2 times (the first at line 1)"},
		{"indentation makes no sense", "if x:\n    a\n  b\n", swap{Old: "if x:\n  a\n  b\n", New: "if x:\n  a\n"}, "", "at line 1 but with another indentation"},
		{"loose part of a line", "\tfoo(a, b)\n", swap{Old: "foo( a, b )", New: "x"}, "", "not in the file"},
		{"no change", "  a\n  b\n", swap{Old: "a\nb", New: "a\nb "}, "  a\n  b \n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.swap.in(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%q, %v; want %q", got, err, c.err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%v\n%s", err, cmp.Diff(c.want, got))
			}
		})
	}
}

func TestEdit(t *testing.T) {
	b := newBench(t, map[string]string{"a.go": "package a\n\nfunc f() {\n\treturn\n}\n", "huge": strings.Repeat("x", maxEdit+1)})
	p := b.mustPlan("edit", object{"file_path": "a.go", "old_string": "\treturn\n", "new_string": "\tg()\n"})
	want := "--- a/a.go\n+++ b/a.go\n@@ -1,5 +1,5 @@\n package a\n \n func f() {\n-\treturn\n+\tg()\n }\n"
	if p.Diff != want || p.Title != "a.go" {
		t.Errorf("%+v", p)
	}
	r := p.Run(t.Context(), nil)
	if r.Error != "" || r.Output != want || r.Type != "diff" || string(r.Metadata) != `{"file_path":"a.go","added":1,"removed":1}` {
		t.Errorf("%+v", r)
	}
	// The same plan a second time: the file is no longer what it was.
	if r := p.Run(t.Context(), nil); !strings.Contains(r.Error, "old_string is not in the file") {
		t.Errorf("%+v", r)
	}
	b.fails("edit", object{"file_path": "a.go", "old_string": "x", "new_string": "x"}, "the same")
	b.fails("edit", object{"file_path": "a.go", "old_string": "", "new_string": "x"}, "old_string is empty", "write")
	b.fails("edit", object{"file_path": "none", "old_string": "a", "new_string": "x"}, "no such file", "write")
	b.fails("edit", object{"file_path": "huge", "old_string": "a", "new_string": "x"}, "larger than 10 MB")
}

func TestEditsAtOnce(t *testing.T) {
	b := newBench(t, map[string]string{"f": strings.Repeat("x\n", 26)})
	b.put("f", "abcdefghijklmnopqrstuvwxyz\n")
	var wg sync.WaitGroup
	for c := 'a'; c <= 'z'; c++ {
		p := b.mustPlan("edit", object{"file_path": "f", "old_string": string(c), "new_string": strings.ToUpper(string(c))})
		wg.Go(func() {
			if r := p.Run(t.Context(), nil); r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	wg.Wait()
	if got := b.get("f"); got != "ABCDEFGHIJKLMNOPQRSTUVWXYZ\n" {
		t.Errorf("an edit got lost: %s", got)
	}
}
