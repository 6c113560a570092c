//go:build unix

package tool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/internal/proc"
)

// expressions that the two understand differently, or that are hard to put to the other.
var expressions = []string{
	"foo", "(?i)foo", "foo|bar", "^foo", "foo$", "^foo$", "^$", `^\s*$`, `\bfoo\b`, `\Bo`, `o\B`, `\w+`, `\W`, `^\w+$`, `^\W+$`, `\d`, `\D$`, `[^a-z]`, ".", "^.$", "^..$", "a.b", `a\x{FFFD}b`, "a[^x]b", "a[^x]*b$",
	"é", "(?i)É", `\pL{4}`, `\PL`, `[[:punct:]]`, `(?i)k`, `(?i)ſ`, "x*", "(foo|bar)$", "foo$|^bar", "(?:foo$)?", `foo$\b`, `$^`, `\Afoo`, `foo\z`, "(?m)^foo$", "(?s)o.b", "(?U)f.*o", `\r`, `foo\s`, `\s$`, `\t`, "o{2}", "o{1,}", "(fo){0,2}$", "",
	`\Qa.b\E`, `[\]\[^-]`, `[&~]{2}`, `\x{10FFFF}`, "(a|b)*$", "~~", `"`, `\\`, "^\ufefffoo", "[\x00-\x08]", "z{3,5}z$", "(?i)straße", "[k-k]", "(?i)[k]", `\p{Greek}`, "(^|,)foo(,|$)", "(foo\r?)$",
}

// never are those that ripgrep is not asked for.
var never = []string{"foo\n", "[\n]", `[^\x00-\x{10FFFF}]`, `\p{Cs}`, "[\n]?foo"}

var words = []string{
	"foo", "FOO", "bar", "a.b", "axb", "a\xffb", "a\xc3b", "\xed\xa0\x80", "é", "É", "K", "\u212a", "ſ", "Straße", "Ωmega", "x", "zzzz", "0123", "[^-]", "&&", "~~", "\"", `\`, "\t", " ", "  ", "\r", ",", "\ufeff", "\ufffd", "\U0010ffff", "\v",
}

var ends = []string{"\n", "\n", "\n", "\r\n", "\n\n", "\r\r\n"}

func someText(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(8) == 0 {
		b.WriteString("\ufeff")
	}
	for range r.IntN(6) {
		for range r.IntN(4) {
			b.WriteString(words[r.IntN(len(words))])
		}
		switch r.IntN(25) {
		case 0:
			b.WriteString(strings.Repeat("long ", 200))
		case 1:
			b.WriteString(strings.Repeat("filler\n", 1500+r.IntN(12000))) // the NUL that may follow is not among the first bytes
		}
		if r.IntN(12) == 0 {
			b.WriteString("\x00")
		}
		b.WriteString(ends[r.IntN(len(ends))])
	}
	if r.IntN(3) == 0 {
		return strings.TrimRight(b.String(), "\r\n")
	}
	return b.String()
}

var oddNames = []string{
	"plain.go", "b.txt", "c.log", "-dash", "--", "with space", "new\nline", "bad\xffname", "ä", ".hidden", "quote'\"", "tab\t", "[x]", "{a,b}", "!bang", "#hash", "back\\slash", "a/deep/er/f.go", "a/b.txt", "a/c.log", "A/x", "a.d/x", "build/out.go",
	"node_modules/m/i.js", "a/node_modules/x", ".git/config", "a/.git/x", ".ignore", ".rgignore", "keep/c.log", "dir.go/inner.txt", "dir.go/inner.go", "trail ",
}

// Whatever is in the files, and whatever they are called, ripgrep makes no difference to what is found.
func TestRipgrepMakesNoDifference(t *testing.T) {
	if _, err := exec.LookPath("rg"); err != nil {
		t.Skip("needs ripgrep to compare with")
	}
	random := rand.New(rand.NewPCG(3, 4))
	rules := []string{"*.log", "!keep/c.log", "/build/", "node_modules", "a/**", "!a/b.txt", "*.txt", "a/", "with space", "*.[lt]*", "{a,b}", "deep/*", "*", "!*/", "!*.go", "**/er", "dir.go/", "# none", ""}
	for round := range 2 {
		b := newBench(t, nil)
		for _, n := range oddNames {
			b.put(n, someText(random))
		}
		b.put(".git/info/exclude", "plain.go\n")
		some := func(n int) (text string) {
			for range random.IntN(n) {
				text += rules[random.IntN(len(rules))] + "\n"
			}
			return text
		}
		b.put(".gitignore", some(4))
		b.put("a/.gitignore", some(3))
		b.put(".ignore", "*.go\n")
		b.put("keep/boundary", "éfooé\n")
		b.link("plain.go", "link.go")
		b.link("..", "a/up")
		tool, _ := b.set.Find("grep")
		with := tool.(grep)
		without := with
		without.rg = ripgrep{}
		for i, pattern := range expressions {
			args := object{"pattern": pattern, "output_mode": []string{"content", "files", "count"}[(round+i)%3]}
			switch random.IntN(6) {
			case 0:
				args["context"] = 1 + random.IntN(3)
			case 1:
				args["ignore_case"] = true
			case 2:
				args["glob"] = []string{"*.go", "*.{go,txt}", "a/**", "[a-c]*", "*.d", "*"}[random.IntN(6)]
			case 3:
				args["path"] = "a"
			}
			if pattern == "" {
				args["pattern"] = "(?:)"
			}
			want, got := runGrep(t, without, args), runGrep(t, with, args)
			if !cmp.Equal(got, want) {
				t.Errorf("round %d, %q, .gitignore %q, a/.gitignore %q:\n%s", round, args, b.get(".gitignore"), b.get("a/.gitignore"), cmp.Diff(lines(want.Output), lines(got.Output)))
			}
		}
	}
}

func runGrep(t *testing.T, g grep, args object) Result {
	t.Helper()
	p, err := g.Plan(metadata(args))
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return p.Run(t.Context(), nil)
}

// It is really asked, and what it names is little.
func TestRipgrepIsAsked(t *testing.T) {
	if _, err := exec.LookPath("rg"); err != nil {
		t.Skip("needs ripgrep")
	}
	b := newBench(t, map[string]string{"a/b/foo": "foo\n", "a/none": "nothing\n", "build/foo": "foo\n", ".gitignore": "build\n", ".git/foo": "foo\n"})
	hintFor := func(pattern string) hint {
		m, err := newMatcher(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		tool, _ := b.set.Find("grep")
		g := tool.(grep)
		p, _ := g.w.resolve(".")
		dir, err := g.w.dir(p)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		return g.rg.hint(t.Context(), dir, p, &search{matcher: *m})
	}
	if got, want := hintFor("^foo$"), (hint{"a": true, "a/b": true, "a/b/foo": true}); !cmp.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, e := range expressions {
		if hintFor(e) == nil {
			t.Errorf("%q was not put to it", e)
		}
	}
	for _, e := range never {
		if h := hintFor(e); h != nil {
			t.Errorf("%q: %v", e, h)
		}
	}
	// Rules that mean more to it than to git.
	for _, rules := range []string{"{a,b}\n", "build\n[a\\-c]\n", "[]a]\n", "a\t\n"} {
		b.put(".gitignore", rules)
		if h := hintFor("foo"); h != nil {
			t.Errorf("%q: %v", rules, h)
		}
	}
	for _, rules := range []string{"*.py[cod]\n[Bb]in/\n[a-f0-9]*.x\n# {a}\n\n!a b\n", "\r\nbuild/\r\n"} {
		b.put(".gitignore", rules)
		if h := hintFor("foo"); !h["a/b/foo"] {
			t.Errorf("%q: %v", rules, h)
		}
	}
	os.Remove(b.path(".gitignore"))
	b.put("rules", "a\n")
	b.link("rules", ".gitignore")
	if h := hintFor("foo"); h != nil {
		t.Errorf("a link: %v", h)
	}
	// Further down they are the one difference.
	os.Remove(b.path(".gitignore"))
	b.put("a/.gitignore", "{b,c}\n")
	if h := hintFor("^foo"); !cmp.Equal(h, hint{"build": true, "build/foo": true}) {
		t.Errorf("got %v: if it is no longer one, say so at ripgrep", h)
	}
}

// fakeRipgrep puts a script in its place.
func fakeRipgrep(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rg"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return dir
}

// Whatever goes wrong with it, the search does not.
func TestRipgrepFails(t *testing.T) {
	for name, script := range map[string]string{
		"fails":      "exit 2",
		"is killed":  `printf './a\0'; kill -9 $$`,
		"has no end": "while :; do printf './%01000d\\0' 1; done",
		"lies":       `printf '../outer/secret\0/etc/passwd\0./link\0./up/secret\0./f\0\0\0./f/x\0'`,
		"half names": `printf './f'`,
	} {
		t.Run(name, func(t *testing.T) {
			fakeRipgrep(t, script)
			b, outer := secretBench(t, map[string]string{"f": "a secret\n"})
			b.link(outer+"/secret", "link")
			b.link(outer, "up")
			if got := b.ok("grep", object{"pattern": "secret"}).Output; got != "f:1:a secret\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestRipgrepIsCancelled(t *testing.T) {
	fakeRipgrep(t, "trap '' TERM; echo $$ > pid; while :; do sleep 1; done")
	b := newBench(t, map[string]string{"f": "x\n"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result, 1)
	go func() { done <- b.mustPlan("grep", object{"pattern": "x"}).Run(ctx, nil) }()
	pid := stubbornPid(t, b)
	cancel()
	select {
	case r := <-done:
		if r.Error == "" || !gone(pid) {
			t.Errorf("%+v, gone: %v", r, gone(pid))
		}
	case <-time.After(60 * time.Second):
		t.Fatal("it does not end")
	}
	b.opts.Group.Close()
	if got := b.ok("grep", object{"pattern": "x"}).Output; got != "f:1:x\n" { // nothing can be started any more
		t.Errorf("got %q", got)
	}
}

// It gets no keys, and begins in the folder that was judged.
func TestRipgrepEnvironment(t *testing.T) {
	dir := fakeRipgrep(t, `{ env; pwd -P; printf '%s\n' "$@"; } > "${0%/*}/seen"; exit 1`)
	t.Setenv("MY_API_KEY", "sk-1")
	t.Setenv("RIPGREP_CONFIG_PATH", "/elsewhere")
	t.Setenv("PLAIN", "also-not")
	b := newBench(t, map[string]string{"sub/f": "x\n"})
	b.ok("grep", object{"pattern": "x", "path": "sub"})
	data, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err != nil {
		t.Fatal(err)
	}
	seen := string(data)
	for _, not := range []string{"sk-1", "/elsewhere", "also-not"} {
		if strings.Contains(seen, not) {
			t.Errorf("%s is there:\n%s", not, seen)
		}
	}
	for _, must := range []string{proc.Mark + "=", "\n" + b.path("sub") + "\n", "\n--no-config\n", "\n--no-follow\n"} {
		if !strings.Contains(seen, must) {
			t.Errorf("%q is not there:\n%s", must, seen)
		}
	}
}

// A program that came with the repository is not run, by whichever way it is found.
func TestRipgrepOfTheWorkspace(t *testing.T) {
	b := newBench(t, map[string]string{"bin/rg": "#!/bin/sh\ntouch ran\n", "f": "x\n"})
	os.Chmod(b.path("bin/rg"), 0o755)
	other := t.TempDir()
	os.Symlink(b.path("bin/rg"), filepath.Join(other, "rg"))
	for i, dir := range []string{b.path("bin"), other, "bin"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Chdir(b.dir)
			t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
			tool, _ := Builtin(b.opts).Find("grep")
			if r := runGrep(t, tool.(grep), object{"pattern": "x"}); !strings.Contains(r.Output, "f:1:x\n") {
				t.Errorf("%+v", r)
			}
			if exists(b.path("ran")) {
				t.Error("it was run")
			}
		})
	}
}
