package gate

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file holds our reading of shell text against bash itself. bash runs the commands, but finds no program: for each name it
// calls a handler, which writes down what would have run. All of that, and every file that bash writes, must be in what Command
// said, or be opaque.

// driver runs the commands that it reads, each in a shell and a folder of its own. N says which one a record belongs to.
const driver = `
command_not_found_handle() { printf '%s\0' "$N" "$#" "$@" >> "$LOG"; return "$(( $# % 2 ))"; }
N=0
while IFS= read -r -d '' c; do
	N=$((N + 1))
	( cd "$BASE/$N/work" && eval "$c" ) < /dev/null > /dev/null 2>&1
done
exit 0
`

// A deed is what bash did for one command.
type deed struct {
	ran   [][]string
	wrote []string // as Command names files: from the workspace, or absolute
}

func deeds(t *testing.T, commands []string) []deed {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("this compares with bash, and there is none: ", err)
	}
	base := filepath.Join(t.TempDir(), "1/2/3/4/5/6/7/8") // deep, so that no cd .. leads out of it
	for n := range commands {
		if err := os.MkdirAll(filepath.Join(base, strconv.Itoa(n+1), "work", "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "--noprofile", "--norc", "-c", driver)
	cmd.Env = []string{"PATH=/nonexistent", "LOG=" + log, "BASE=" + base, "HOME=/nonexistent"}
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\x00") + "\x00")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bash: %v: %s", err, out)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	done := make([]deed, len(commands))
	fields := strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00")
	for len(fields) > 2 {
		n, _ := strconv.Atoi(fields[0])
		count, _ := strconv.Atoi(fields[1])
		done[n-1].ran = append(done[n-1].ran, fields[2:2+count])
		fields = fields[2+count:]
	}
	for n := range commands {
		own := filepath.Join(base, strconv.Itoa(n+1))
		err := filepath.WalkDir(own, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				p = filepath.ToSlash(strings.TrimPrefix(p, own))
				p, _ = workspace("/home/me" + p)
				done[n].wrote = append(done[n].wrote, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return done
}

// names says whether the accesses have a command in them that may be this one, or one that is opaque.
func names(accesses []Access, words []string) bool {
	var list []word
	for _, s := range words {
		list = append(list, plain(s))
	}
	text := join(list)
	return slices.ContainsFunc(accesses, func(a Access) bool {
		return a.Permission == "bash" && (a.Target == text || a.Opaque || a.Target == "time" && words[0] == "time" ||
			strings.ContainsAny(a.Target, "$`*?[{~") && strings.HasPrefix(a.Target, list[0].text))
	})
}

// pieces are what hostile texts are made of.
var pieces = []string{
	"git", "ls", "rm", "git log", "rm x", "ls a", " ", " ", " ", ";", "; ", " && ", " || ", " | ", " & ", "\n", "\n", "'", "'", `"`, `"`, "`", "$(", ")", "(", ")",
	"{ ", "; }", "{a,b}", "{r", ",m}", `\`, "\\\n", "$'", "#", " # ", " <<E\n", "E\n", "\nE\n", " <<'E'\n", " <<-E\n", "\t", "$x", `"$x"`, "${x:-", "}", "!", "! ",
	"[[ ", " ]]", "if ", "; then ", "; fi", "for i in a; do ", "; done", "do ", "case a in a) ", ";;", " esac", "x=1 ", "x=(", "f() ", "eval ", " <(", "$((", "))",
	"~", "*", "=", ",", "[", "]", "time ", "then ", "else ", "in ", "env ", "command ", "bash -c ", "exec ", "$", "${", "@(", "?", "|&", "<<<", "2>&1", "&>n", ">n", "a", "-c",
	"function f ", "coproc ", "select i in a; do ", "declare ", "x=", "cd sub", "cd ", "$[", "<>n", "\\'", `\"`, "$\"", "''", `""`, ";&", "a|", "((",
	"cd sub && ", "cd ..; ", "cd nowhere; ", "cd sub || ", " > ../n", " >sub/n", ">n ", "(cd sub; ", "pushd sub; ", "builtin cd sub; ", "cd $x; ",
}

func TestBashDoesNothingElse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var commands []string
	for range 250 {
		var b strings.Builder
		for range 2 + random.IntN(10) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		commands = append(commands, b.String())
	}
	check(t, commands)
}

func TestBashDoesNothingElseForTheCorpus(t *testing.T) {
	var commands []string
	for _, c := range append(lines(t, "testdata/hostile.txt"), lines(t, "testdata/honest.txt")...) {
		// Left out: what would not end, what writes elsewhere, what bash cannot be given.
		if !strings.Contains(c, "while") && !strings.Contains(c, "/tmp") && !strings.Contains(c, "\x00") {
			commands = append(commands, c)
		}
	}
	check(t, commands)
}

func check(t *testing.T, commands []string) {
	t.Helper()
	ran, wrote := 0, 0
	for i, d := range deeds(t, commands) {
		accesses := Command(commands[i], workspace)
		for _, words := range d.ran {
			if ran++; !names(accesses, words) {
				t.Errorf("%q runs %q, which is not in %+v", commands[i], words, accesses)
			}
		}
		for _, file := range d.wrote {
			if wrote++; !slices.ContainsFunc(accesses, func(a Access) bool { return a.Opaque || a.Permission == "edit" && a.Target == file }) {
				t.Errorf("%q writes %q, which is not in %+v", commands[i], file, accesses)
			}
		}
	}
	if ran < len(commands)/20 || wrote < 5 {
		t.Errorf("bash ran %d commands and wrote %d files for %d texts: too few to say anything", ran, wrote, len(commands))
	}
}
