package gate

import (
	"flag"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// lines reads a corpus: one command a line, # for comments, a Go string where it is in double quotes as a whole.
func lines(t testing.TB, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		if s, err := strconv.Unquote(line); err == nil && strings.HasPrefix(line, `"`) {
			line = s
		}
		out = append(out, line)
	}
	return out
}

// workspace resolves paths as if the workspace were /home/me/work, with a link to / in it and nothing below a folder that is
// called missing.
func workspace(p string) (string, bool) {
	const root = "/home/me/work"
	at := root
	if strings.HasPrefix(p, "/") {
		at = "/"
	}
	for s := range strings.SplitSeq(p, "/") {
		if s == ".." && path.Base(at) == "missing" {
			return p, true
		}
		if at = path.Join(at, s); at == root+"/link" {
			at = "/"
		}
	}
	if at == root {
		return ".", false
	}
	if rest, ok := strings.CutPrefix(at, root+"/"); ok {
		return rest, false
	}
	return at, true
}

func rules(t testing.TB, action string, texts ...string) (list []event.Rule) {
	t.Helper()
	for _, s := range texts {
		r, err := ParseRule(action, s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func TestHostileCommandsDoNotPass(t *testing.T) {
	p := Policy{Rules: append(Defaults(FaceNative), rules(t, Allow, "bash(git *)", "bash(ls *)", "bash(echo *)", "bash(find *)")...)}
	for _, c := range lines(t, "testdata/hostile.txt") {
		if d := p.Decide(Command(c, workspace)); d.Action == Allow {
			t.Errorf("%q passes: %+v", c, Command(c, workspace))
		}
	}
}

func TestHonestCommandsPass(t *testing.T) {
	p := Policy{Rules: append(Defaults(FaceNative), rules(t, Allow, "bash(git *)", "bash(ls *)")...)}
	for _, c := range lines(t, "testdata/honest.txt") {
		if d := p.Decide(Command(c, workspace)); d.Action != Allow {
			t.Errorf("%q does not pass: %s", c, d.Reason)
		}
	}
}

var update = flag.Bool("update", false, "write testdata/command.txt anew")

// spell writes an access: ~ is implied, ! is opaque.
func spell(a Access) string {
	mark := ""
	if a.Implied {
		mark += "~"
	}
	if a.Opaque {
		mark += "!"
	}
	return mark + a.Permission + " " + a.Target
}

// testdata/command.txt has commands, each with its accesses below it.
func TestCommand(t *testing.T) {
	data, err := os.ReadFile("testdata/command.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got, want strings.Builder
	for line := range strings.Lines(string(data)) {
		want.WriteString(line)
		if strings.HasPrefix(line, "#") || line == "\n" {
			got.WriteString(line)
			continue
		}
		if strings.HasPrefix(line, "\t") {
			continue
		}
		got.WriteString(line)
		c := strings.TrimSuffix(line, "\n")
		if s, err := strconv.Unquote(c); err == nil {
			c = s
		}
		for _, a := range Command(c, workspace) {
			got.WriteString("\t" + spell(a))
			if a.Why != "" {
				got.WriteString("  # " + a.Why)
			}
			got.WriteString("\n")
		}
	}
	if *update {
		if err := os.WriteFile("testdata/command.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Deny rules for files hold for what commands name, also in yolo.
func TestDenyHoldsForCommands(t *testing.T) {
	p := Policy{Mode: ModeYolo, Rules: rules(t, Deny, "read(secrets)", "read(.env)", "edit(vendor/**)", "bash(rm *)", "outside(/etc/**)")}
	for command, want := range map[string]string{
		"cat secrets/key":                   Deny,
		"cat < secrets/key":                 Deny,
		"head -n 1 a/.env":                  Deny,
		"cat SECRETS/key":                   Deny,
		"cp x vendor/a/b.go":                Deny,
		"echo x > vendor/a":                 Deny,
		"sed -i s/a/b/ vendor/a":            Deny,
		"git mv x .git/hooks/y":             Deny,
		"echo x | tee -a .git/hooks/y":      Deny,
		"cd .git/hooks && cp ../../x y":     Deny,
		"cd .git && touch x":                Deny,
		"rm x":                              Deny,
		"/bin/rm x":                         Deny,
		"r\\m x":                            Deny,
		"env rm x":                          Deny,
		"ls | xargs rm":                     Deny,
		"find . -exec rm {} ;":              Deny,
		"bash -c 'rm x'":                    Deny,
		"echo $(rm x)":                      Deny,
		"ls /etc/ssl":                       Deny,
		"cd $x && ls /etc/ssl":              Deny,
		"cp vendor/a x":                     Allow,
		"cat vendor/a":                      Allow,
		"ls .git/hooks":                     Allow,
		"git rm x":                          Allow,
		"ls /usr":                           Allow,
		"rsync -a --exclude=.git a b":       Allow,
		"grep -r x --exclude-dir=.git .":    Allow,
		"find . -path ./.git -prune -o -ls": Allow,
	} {
		if d := p.Decide(Command(command, workspace)); d.Action != want {
			t.Errorf("%s: %s, not %s", command, d.Action, want)
		}
	}
}

// sh is not bash: what only bash takes for data must not pass.
func TestSh(t *testing.T) {
	p := Policy{Rules: append(Defaults(FaceNative), rules(t, Allow, "bash(git *)", "bash(ls *)", "bash([[ *)")...)}
	for command, want := range map[string]string{
		"git log":                   Allow,
		"git log && ls":             Allow,
		"git log > /dev/null 2>&1":  Allow,
		"cd src && git log":         Allow,
		"git log $'\\'; rm x #\\''": Ask,
		"[[ a && rm x ]]":           Ask,
		"[[ a < b ]] && git log":    Ask,
		"git log &> x":              Ask,
		"git log <(rm x)":           Ask,
		"ls {a,b}":                  Allow,
		"rm x":                      Ask,
	} {
		if d := p.Decide(ShCommand(command, workspace)); d.Action != want {
			t.Errorf("%s: %s, not %s: %+v", command, d.Action, want, ShCommand(command, workspace))
		}
	}
}

// What is too much for us is opaque, and takes no time.
func TestBounds(t *testing.T) {
	nested := "git log"
	for range maxScripts + 1 {
		nested = "bash -c " + strconv.Quote(nested)
	}
	for name, c := range map[string]string{
		"long":      "git log " + strings.Repeat("x", maxCommand),
		"parens":    strings.Repeat("(", 30000),
		"dollars":   strings.Repeat("$(", 30000) + strings.Repeat(")", 30000),
		"braces":    strings.Repeat("{ ", 30000),
		"arith":     "git log " + strings.Repeat("$((1+", 10000),
		"params":    "git log " + strings.Repeat("${x:-", 10000),
		"backticks": strings.Repeat("`", 60001),
		"ifs":       strings.Repeat("if ls; then ", 5000),
		"parts":     strings.Repeat("git log; ls; cat a;", 3000) + strings.Repeat("x=1;y $z;", 1) + numbered("a%;", maxParts+1),
		"loops":     strings.Repeat("for i in a; do ", 3000) + "git log" + strings.Repeat("; done", 3000) + "; cd $x; ls",
		"moves":     strings.Repeat("cd a && ", 5000) + "git log",
		"pieces":    "git log " + strings.Repeat(":/a", 1000) + ":",
		"closed":    ": '" + strings.Repeat(")", 30000) + "'; " + strings.Repeat("(", 30000),
		"paths":     "ls " + numbered("d%/x ", maxLooks+1),
		"scripts":   nested,
		"nul":       "git log\x00",
		"bytes":     "git log \xff",
	} {
		accesses := Command(c, workspace)
		if !slices.ContainsFunc(accesses, func(a Access) bool { return a.Permission == "bash" && a.Opaque }) {
			t.Errorf("%s is not opaque", name)
		}
	}
	cds := strings.Repeat("cd a; ", 20) + "git log"
	if d := (Policy{Rules: rules(t, Allow, "bash(git *)")}).Decide(Command(cds, workspace)); d.Action == Allow {
		t.Error("a command that may run in too many folders passes")
	}
}

// numbered repeats a text n times, with the number in the place of %.
func numbered(s string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(s, "%", strconv.Itoa(i)))
	}
	return b.String()
}

func FuzzCommand(f *testing.F) {
	for _, file := range []string{"testdata/hostile.txt", "testdata/honest.txt"} {
		for _, c := range lines(f, file) {
			f.Add(c)
		}
	}
	p := Policy{Rules: append(Defaults(FaceNative), rules(f, Allow, "bash(git *)", "bash(ls *)")...)}
	f.Fuzz(func(t *testing.T, c string) {
		accesses := Command(c, workspace)
		if !slices.ContainsFunc(accesses, func(a Access) bool { return a.Permission == "bash" && !a.Implied }) {
			t.Errorf("no command needs to be allowed: %+v", accesses)
		}
		for _, a := range accesses {
			if a.Permission == "bash" && strings.ContainsFunc(a.Target, unicode.IsControl) {
				t.Errorf("%q hides something", a.Target)
			}
			if a.Opaque == (a.Why == "") {
				t.Errorf("%+v does not say why", a)
			}
		}
		// Whatever stands before or after it, a command on its own line is seen.
		for _, more := range []string{c + "\nrm x", "rm x\n" + c} {
			if d := p.Decide(Command(more, workspace)); d.Action == Allow && !strings.HasSuffix(c, "\\") {
				t.Errorf("%q passes", more)
			}
		}
	})
}
