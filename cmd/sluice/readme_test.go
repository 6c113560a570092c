package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/internal/cli"
)

// words splits a command line as a shell does, as far as documents need it.
func words(line string) (list []string) {
	for _, w := range regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s"']+`).FindAllString(line, -1) {
		list = append(list, strings.Trim(w, `"'`))
	}
	return list
}

// shown is what a document shows of an output: … stands for anything in a line, and on a line of its own for any lines.
func shown(text string) *regexp.Regexp {
	expr := strings.ReplaceAll(regexp.QuoteMeta(text), "\n…\n", "\n(?:.*\n)*?")
	return regexp.MustCompile("^" + strings.ReplaceAll(expr, "…", ".*") + "$")
}

// Every console block of the documents is run as it stands, from the root of the repository, and prints what it says.
func TestDocumentsTellTheTruth(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SLUICE_MODEL", "demo/demo") // whatever keys are in the environment
	t.Setenv("LC_ALL", "C.UTF-8")
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, file := range append(files, "README.md", "ARCHITECTURE.md") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(data), "```console\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			command, want, _ := strings.Cut(block, "\n")
			args, ok := strings.CutPrefix(command, "$ sluice ")
			if !ok {
				t.Fatalf("%s: not a command of ours: %s", file, command)
			}
			var out, errs bytes.Buffer
			cli.Run(context.Background(), words(args), cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs})
			if got := out.String() + errs.String(); !shown(want).MatchString(got) {
				t.Errorf("%s: %s (-document, +program)\n%s", file, command, cmp.Diff(want, got))
			}
			run++
		}
	}
	if run == 0 {
		t.Error("no command was found")
	}
}
