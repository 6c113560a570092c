package tool

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

func sorted(s string) []string {
	l := lines(s)
	slices.Sort(l)
	return l
}

var project = map[string]string{
	".gitignore":          "*.log\n/build/\nnode_modules\n!keep.log\n# comment\n\n\\#odd\ntrail \nsub/deep/*.tmp\nfoo/**\n!foo/stay\n",
	"main.go":             "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n",
	"a.log":               "hello\n",
	"keep.log":            "hello\n",
	"build/out.go":        "hello\n",
	"sub/build/in.go":     "hello\n",
	"node_modules/x/y.js": "hello\n",
	"sub/node_modules/z":  "hello\n",
	"sub/deep/a.tmp":      "hello\n",
	"sub/deep/b.txt":      "Hello\nworld\n",
	"sub/.gitignore":      "b.txt\n!a.tmp\n",
	"foo/gone":            "hello\n",
	"foo/stay":            "hello\n",
	"#odd":                "hello\n",
	"trail":               "hello\n",
	".hidden/c.go":        "hello\n",
	".git/config":         "hello\n",
	".git/info/exclude":   "excluded\n",
	"excluded":            "hello\n",
	"bin":                 "hello\x00\n",
}

func TestGlob(t *testing.T) {
	b := newBench(t, project)
	b.link("main.go", "link.go")
	b.link("..", "sub/up")
	for _, c := range []struct {
		args object
		want []string
	}{
		{object{"pattern": "**/*.go"}, []string{".hidden/c.go", "link.go", "main.go", "sub/build/in.go"}},
		{object{"pattern": "*.go"}, []string{"link.go", "main.go"}},
		{object{"pattern": "./*.go"}, []string{"link.go", "main.go"}},
		{object{"pattern": "*"}, []string{".gitignore", ".hidden/", "bin", "foo/", "keep.log", "link.go", "main.go", "sub/"}},
		{object{"pattern": "**"}, []string{".gitignore", ".hidden/c.go", "bin", "foo/stay", "keep.log", "link.go", "main.go", "sub/.gitignore", "sub/build/in.go", "sub/deep/a.tmp", "sub/up"}},
		{object{"pattern": "*/*"}, []string{".hidden/c.go", "foo/stay", "sub/.gitignore", "sub/build/", "sub/deep/", "sub/up"}},
		{object{"pattern": "sub/**/*.go"}, []string{"sub/build/in.go"}},
		{object{"pattern": "**/*.{go,tmp}", "path": "sub"}, []string{"sub/build/in.go", "sub/deep/a.tmp"}},
		{object{"pattern": "node_modules/**"}, []string{"node_modules/x/y.js"}}, // whoever names it wants it
		{object{"pattern": "*.py"}, []string{"no file matches"}},
		{object{"pattern": "none/*.py"}, []string{"no file matches: there is no folder none"}},
		{object{"pattern": b.dir + "/*.go"}, []string{"link.go", "main.go"}},
	} {
		if got := sorted(b.ok("glob", c.args).Output); !cmp.Equal(got, c.want) {
			t.Errorf("%v:\n%s", c.args, cmp.Diff(c.want, got))
		}
	}
	b.fails("glob", object{"pattern": "[a"}, "is not a pattern")
	b.fails("glob", object{"pattern": "*", "path": "main.go"}, "not a folder")
	if r := b.mustPlan("glob", object{"pattern": "**"}).Run(over(t), nil); r.Error == "" {
		t.Errorf("%+v", r)
	}
	outer := filepath.Dir(b.dir)
	os.WriteFile(filepath.Join(outer, "far.go"), nil, 0o600)
	if got := b.ok("glob", object{"pattern": "../*.go"}).Output; got != filepath.ToSlash(outer)+"/far.go\n" {
		t.Errorf("outside: %q", got)
	}
}

func TestGlobNewestFirstAndBounded(t *testing.T) {
	files := map[string]string{}
	for i := range globShown + 7 {
		files[fmt.Sprintf("f%03d", i)] = ""
	}
	b := newBench(t, files)
	now := time.Now()
	for i := range globShown + 7 {
		os.Chtimes(b.path(fmt.Sprintf("f%03d", i)), now, now.Add(time.Duration(i)*time.Second))
	}
	got := lines(b.ok("glob", object{"pattern": "*"}).Output)
	if len(got) != globShown+1 || got[0] != "f206" || got[1] != "f205" || got[globShown] != "(and 7 more: narrow the pattern)" {
		t.Errorf("%d lines: %q … %q", len(got), got[:2], got[len(got)-1])
	}
}

func TestGrep(t *testing.T) {
	b := newBench(t, project)
	b.link("main.go", "link.go")
	for _, c := range []struct {
		args object
		want []string
	}{
		{object{"pattern": "hello"}, []string{".hidden/c.go:1:hello", "foo/stay:1:hello", "keep.log:1:hello", "main.go:4:\tprintln(\"hello\")", "sub/build/in.go:1:hello", "sub/deep/a.tmp:1:hello"}},
		{object{"pattern": "^hello$", "glob": "*.go"}, []string{".hidden/c.go:1:hello", "sub/build/in.go:1:hello"}},
		{object{"pattern": "hello", "glob": "sub/**/*.{go,txt}"}, []string{"sub/build/in.go:1:hello"}},
		{object{"pattern": "HELLO", "ignore_case": true, "path": "main.go"}, []string{"main.go:4:\tprintln(\"hello\")"}},
		{object{"pattern": "hello", "path": "sub"}, []string{"sub/build/in.go:1:hello", "sub/deep/a.tmp:1:hello"}},
		{object{"pattern": "hello", "path": "a.log"}, []string{"a.log:1:hello"}},
		{object{"pattern": "hello", "path": "bin"}, []string{"no matches"}},
		{object{"pattern": "hello", "output_mode": "files", "glob": "*.go"}, []string{".hidden/c.go", "main.go", "sub/build/in.go"}},
		{object{"pattern": "[a-z]", "output_mode": "count", "path": "main.go"}, []string{"main.go:3"}},
		{object{"pattern": "hello", "path": "main.go", "context": 1}, []string{"main.go-3-func main() {", "main.go:4:\tprintln(\"hello\")", "main.go-5-}"}},
		{object{"pattern": "nothing like it"}, []string{"no matches"}},
	} {
		if got := lines(b.ok("grep", c.args).Output); !cmp.Equal(got, c.want) {
			t.Errorf("%v:\n%s", c.args, cmp.Diff(c.want, got))
		}
	}
	b.fails("grep", object{"pattern": "(a"}, "not a regular expression of RE2: missing closing )")
	b.fails("grep", object{"pattern": `a(?=b)`}, "RE2")
	b.fails("grep", object{"pattern": ""}, "empty")
	b.fails("grep", object{"pattern": "a", "output_mode": "json"}, "content, files or count")
	b.fails("grep", object{"pattern": "a", "path": "none"}, "no such file or folder")
	b.fails("grep", object{"pattern": "a", "glob": "[a"}, "not a pattern")
}

func TestGrepContext(t *testing.T) {
	b := newBench(t, map[string]string{"f": "1\nx2\n3\n4\n5\nx6\nx7\n8\n", "g": "x1\n"})
	want := []string{"f-1-1", "f:2:x2", "f-3-3", "--", "f-5-5", "f:6:x6", "f:7:x7", "f-8-8", "--", "g:1:x1"}
	if got := lines(b.ok("grep", object{"pattern": "x", "context": 1}).Output); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	want = []string{"f-1-1", "f:2:x2", "f-3-3", "f-4-4", "f-5-5", "f:6:x6", "f:7:x7", "f-8-8", "--", "g:1:x1"}
	if got := lines(b.ok("grep", object{"pattern": "x", "context": 2}).Output); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestGrepIsBounded(t *testing.T) {
	long := strings.Repeat("é", 5000)
	b := newBench(t, map[string]string{"many": strings.Repeat("match\n", 2000), "long": long + "match\r\n", "bad": "a\xffmatch\n"})
	got := lines(b.ok("grep", object{"pattern": "^match$"}).Output)
	if len(got) != grepLines+1 || got[grepLines] != "(there are more: narrow the search with path, glob or pattern)" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
	if got := b.ok("grep", object{"pattern": "match$", "path": "long"}).Output; got != "long:1:"+long[:grepLine]+ellipsis+"\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok("grep", object{"pattern": "match", "path": "bad"}).Output; got != "bad:1:a\uFFFDmatch\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok("grep", object{"pattern": "^match$", "output_mode": "count", "path": "many"}).Output; got != "many:2000\n" {
		t.Errorf("got %q", got)
	}
	if r := b.mustPlan("grep", object{"pattern": "x"}).Run(over(t), nil); r.Error == "" {
		t.Errorf("%+v", r)
	}
}

func TestHidden(t *testing.T) {
	b := benchWith(t, map[string]string{"a": "key\n", "secrets/b": "key\n"}, Options{Hidden: func(target string) bool { return strings.HasPrefix(target, "secrets/") }})
	if got := b.ok("grep", object{"pattern": "key"}).Output; got != "a:1:key\n" {
		t.Errorf("got %q", got)
	}
	if got := b.ok("glob", object{"pattern": "**"}).Output; got != "a\n" {
		t.Errorf("got %q", got)
	}
	b.fails("grep", object{"pattern": "key", "path": "secrets/b"}, "may not be read")
}

func TestIgnoreFromTheRepositoryAbove(t *testing.T) {
	top := t.TempDir()
	for name, text := range map[string]string{".git/HEAD": "", ".gitignore": "*.out\n/pkg/local\n", "pkg/a.out": "", "pkg/local": "", "pkg/b": ""} {
		os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755)
		os.WriteFile(filepath.Join(top, name), []byte(text), 0o644)
	}
	set := Builtin(Options{Workspace: filepath.Join(top, "pkg")})
	glob, _ := set.Find("glob")
	p, err := glob.Plan([]byte(`{"pattern":"**"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Run(t.Context(), nil).Output; got != "b\n" {
		t.Errorf("got %q", got)
	}
}

// What is listed is what git would list.
func TestIgnoreAsGitDoes(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git to compare with")
	}
	patterns := []string{
		"*.log", "/top", "dir/", "a/b", "**/x", "a/**", "a/**/c", "!keep", "!a/b/keep", "*", "!*/", "[ab].txt", "[!a].txt", "?.c", "\\!odd", "x*y", "{a,b}", "a/*", "/*", "foo\\ ", "b/", "!/a", "**", "**/b/**", "*.txt/",
	}
	names := []string{"top", "keep", "x", "a.txt", "b.txt", "c.c", "!odd", "xzy", "{a,b}", "foo ", "n.log", "dir/f", "a/b/keep", "a/b/x", "a/c", "a/d/c", "a/top", "b/b/b", "b/a.txt", "dir.txt/in"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		b := newBench(t, nil)
		for _, n := range names {
			b.put(n, "")
		}
		var outer, inner []string
		for range 1 + random.IntN(4) {
			outer = append(outer, patterns[random.IntN(len(patterns))])
		}
		for range random.IntN(3) {
			inner = append(inner, patterns[random.IntN(len(patterns))])
		}
		b.put(".gitignore", strings.Join(outer, "\n")+"\n")
		b.put("a/.gitignore", strings.Join(inner, "\n")+"\n")
		run := func(args ...string) string {
			c := exec.Command(git, args...)
			c.Dir = b.dir
			c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		run("init", "-q")
		want := strings.Split(strings.Trim(run("ls-files", "--others", "--exclude-standard", "-z"), "\x00"), "\x00")
		slices.Sort(want)
		if want[0] == "" {
			want = []string{"no file matches"}
		}
		if got := sorted(b.ok("glob", object{"pattern": "**"}).Output); !cmp.Equal(got, want) {
			t.Errorf("%q, in a %q:\n%s", outer, inner, cmp.Diff(want, got))
		}
	}
}

func TestNeedle(t *testing.T) {
	texts := []string{"", "foo", "FOO", "a foo bar", "fobar", "foobaz", "K", "k", "\u212a", "\u017ftop", "stop", "STOP it", "xyxy", "é", "É", "a.b", "fooooo"}
	for _, c := range []struct {
		pattern, needle string
		fold            bool
	}{
		{"foo", "foo", false}, {"(?i)foo", "foo", true}, {"fo+bar", "bar", false}, {"(foo|bar)baz", "baz", false}, {"foo|bar", "", false}, {"x*", "", false}, {"(xy)+", "xy", false},
		{"(?i)k", "k", true}, {"(?i)stop", "stop", true}, {"a\\.b", "a.b", false}, {"^foo$", "foo", false}, {"(?i)é", "", false}, {"foo{2,}", "f", false}, {"[f]oo", "foo", false}, {"fo?o", "f", false},
	} {
		m, err := newMatcher(c.pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		if c.needle != "f" && string(m.needle) != c.needle || m.fold != c.fold {
			t.Errorf("%s: needle %q fold %v", c.pattern, m.needle, m.fold)
		}
		for _, text := range texts {
			if got, want := m.match([]byte(text)), m.re.MatchString(text); got != want {
				t.Errorf("%s in %q: %v", c.pattern, text, got)
			}
		}
	}
}
