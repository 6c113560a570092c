package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-dev/sluice/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice": cli.Main})
}

// Each script of testdata/script is one behaviour of the program, run as a user would run it. $STREAMS has the test data of
// the dialects, $EXAMPLES the examples of the repository.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("STREAMS", filepath.Join(root, "dialect", "testdata"))
			env.Setenv("EXAMPLES", filepath.Join(root, "examples"))
			env.Setenv("ROOT", root)
			env.Setenv("NO_COLOR", os.Getenv("NO_COLOR"))
			return nil
		},
	})
}
