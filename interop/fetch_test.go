//go:build interop

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// folder is where packages are.
func folder() string {
	if dir := os.Getenv("INTEROP"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "sluice", "interop")
}

// names are what $AGENT may be.
var names = []string{"mcp", "claude", "claude-tui", "claude-channel", "codex", "claude-acp", "opencode", "gemini", "qwen", "pi", "acpx"}

// fetch has sets of packages there for the tests of an agent, and passes over a test that is not wanted.
func fetch(t *testing.T, agent string, sets ...string) {
	t.Helper()
	if only := os.Getenv("AGENT"); only != "" && only != agent {
		if !slices.Contains(names, only) {
			t.Fatalf("AGENT=%s: it is one of %s", only, strings.Join(names, ", "))
		}
		t.Skipf("only %s is wanted", only)
	}
	script := exec.Command(filepath.Join("..", "scripts", "interop"), append([]string{folder()}, sets...)...)
	script.Stdout, script.Stderr = os.Stderr, os.Stderr
	if err := script.Run(); err != nil {
		t.Fatal("scripts/interop: ", err)
	}
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-interop-")
	if err != nil {
		return "", err
	}
	built = dir
	file := filepath.Join(dir, "sluice")
	out, err := exec.Command("go", "build", "-o", file, "../cmd/sluice").CombinedOutput()
	os.Stderr.Write(out)
	return file, err
})

// The folder of the program, when there is one.
var built string

// sluice is the program itself.
func sluice(t *testing.T) string {
	t.Helper()
	file, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}
