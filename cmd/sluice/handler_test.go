//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestHandlerOfTheDocument: the handler in docs/permission-handlers.md answers, as it stands there.
func TestHandlerOfTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/permission-handlers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sh\n")
	handler, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the document has no handler")
	}
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("jq is not there: make need installs it")
	}
	a := newAvenor(t, `steps: [{calls: [{tool: bash, input: {command: echo 1}}, {tool: bash, input: {command: echo 2}}]}, {text: Done.}]`,
		"--permission-handler", "file:run.perm")
	if err := os.WriteFile(a.path("work/run.pid"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sh := exec.Command("sh", "-c", strings.ReplaceAll(handler, "sleep 1", "sleep 0.1"))
	sh.Dir = a.path("work")
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	a.start(nil)
	a.wait()
	if err := os.Remove(a.path("work/run.pid")); err != nil {
		t.Error(err)
	}
	if err := sh.Wait(); err != nil {
		t.Error(err)
	}
	if a.exit != 0 {
		t.Errorf("exit %d: %s", a.exit, a.errs.String())
	}
}
