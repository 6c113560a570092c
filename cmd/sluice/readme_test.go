package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/internal/cli"
)

// Every console block of the documents is run as it stands, from the root of the repository, and prints what it says.
func TestDocumentsTellTheTruth(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
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
			cli.Run(context.Background(), strings.Fields(args), cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs})
			if diff := cmp.Diff(want, out.String()+errs.String()); diff != "" {
				t.Errorf("%s: %s (-document, +program)\n%s", file, command, diff)
			}
			run++
		}
	}
	if run == 0 {
		t.Error("no command was found")
	}
}
