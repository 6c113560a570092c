package sluice

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-dev/sluice"

// floors is the house, from the ground up. A package imports only floors below its own. Where does a new one go? As low as
// its imports allow: on floor 0 if it needs nothing of ours, on floor 1 if it works on events, on floor 2 if it runs
// something, on floor 3 only if it puts things together.
var floors = [][]string{
	{"internal/wire", "internal/spell", "internal/plain", "internal/pattern"},                                                                                                                  // the ground: text, before it means anything
	{"event", "internal/script", "internal/skill", "internal/proc", "internal/sandbox", "internal/config", "internal/rpc"},                                                                     // floor 0
	{"journal", "dialect", "fold", "internal/provider", "internal/gate", "internal/git", "internal/secret", "internal/outcome", "internal/acp", "internal/terminal", "internal/guest/standin"}, // floor 1
	{"internal/tool"}, // still floor 1: tools say what they need in the gate's words
	{"internal/agent", "internal/modelserver", "internal/mcp", "internal/control", "internal/loop", "internal/guest"}, // floor 2
	{"internal/cli"},
	{"cmd/sluice"},
}

// outside says who may import what that is not ours and not the standard library's.
var outside = map[string][]string{
	"github.com/fsnotify/fsnotify": {"journal", "internal/control"},
	"github.com/spf13/cobra":       {"internal/cli"},
	"github.com/spf13/pflag":       {"internal/cli"},
	"golang.org/x/term":            {"internal/cli", "internal/guest/standin"},
	"golang.org/x/sys":             {"journal", "internal/proc", "internal/tool", "internal/sandbox", "internal/cli"},

	"github.com/goccy/go-yaml":               {"internal/script", "internal/skill", "internal/loop"},
	"github.com/pelletier/go-toml/v2":        {"internal/config", "internal/loop"},
	"github.com/anthropics/anthropic-sdk-go": {"internal/provider"},
	"github.com/aws/aws-sdk-go-v2":           {"internal/provider", "internal/modelserver"},
	"golang.org/x/oauth2":                    {"internal/provider"},
	"github.com/google/jsonschema-go":        {"internal/cli", "internal/mcp"},
	"github.com/modelcontextprotocol/go-sdk": {"internal/mcp"},
	"github.com/creack/pty":                  {"internal/terminal"},
	"github.com/hinshun/vt10x":               {"internal/terminal"},
	"mvdan.cc/sh/v3/syntax":                  {"internal/gate"},
	"github.com/bmatcuk/doublestar/v4":       {"internal/gate", "internal/tool"},
	"github.com/aymanbagabas/go-udiff":       {"internal/tool", "internal/git"},
}

// pure packages have no clock, file, network or context of their own.
var pure = []string{"internal/wire", "event", "dialect", "fold"}

func TestTheHouseStands(t *testing.T) {
	floor := map[string]int{}
	for i, names := range floors {
		for _, n := range names {
			floor[n] = i
		}
	}
	for dir, imports := range packages(t) {
		at, known := floor[dir]
		if !known {
			if strings.HasPrefix(dir, "examples/") || strings.HasPrefix(dir, "scripts/") || dir == "." {
				continue
			}
			t.Errorf("%s has no floor: add it to floors in layout_test.go, as low as its imports allow", dir)
			continue
		}
		for _, imp := range imports {
			ours, isOurs := strings.CutPrefix(imp, module+"/")
			switch {
			case isOurs:
				if below, ok := floor[ours]; !ok || below >= at {
					t.Errorf("%s imports %s, which is not below it", dir, ours)
				}
			case strings.Contains(strings.Split(imp, "/")[0], "."):
				if !slices.ContainsFunc(keys(outside), func(m string) bool { return strings.HasPrefix(imp, m) && slices.Contains(outside[m], dir) }) {
					t.Errorf("%s imports %s: name it in outside in layout_test.go, with its reason in ARCHITECTURE.md", dir, imp)
				}
			case slices.Contains(pure, dir) && slices.Contains([]string{"os", "net", "net/http", "context", "os/exec"}, imp):
				t.Errorf("%s is pure and imports %s", dir, imp)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const limit = 600
	walk(t, func(file string, data string) {
		generated := strings.HasPrefix(data, "// Code generated ")
		if n := strings.Count(data, "\n"); n > limit && !generated && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s has %d lines: one idea each", file, n)
		}
	})
}

// packages returns the imports of every package that is not a test.
func packages(t *testing.T) map[string][]string {
	found := map[string][]string{}
	walk(t, func(file string, data string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, data, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(file)
		found[dir] = append(found[dir], []string{}...)
		for _, s := range f.Imports {
			p, _ := strconv.Unquote(s.Path.Value)
			found[dir] = append(found[dir], p)
		}
	})
	return found
}

func walk(t *testing.T, f func(file, data string)) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != ".") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(file, ".go") {
			f(filepath.ToSlash(file), readFile(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func keys[V any](m map[string]V) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}
