package main

import (
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-dev/sluice/internal/cli"
)

// programs are what the test program is when it is called by their names. They are found in its PATH.
var programs = map[string]func(){
	"sluice": cli.Main, "aictrl": cli.Main, "aionrs": cli.Main, "avenor": cli.Main, "enso": cli.Main, "grok": cli.Main,
}

func TestMain(m *testing.M) { testscript.Main(crowd{m}, programs) }

// A crowd runs more tests at a time than there are processors: most of them wait for a process that waits for something.
type crowd struct{ m *testing.M }

func (c crowd) Run() int {
	const parallel = "test.parallel"
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == parallel })
	if !chosen {
		_ = flag.Set(parallel, "8")
	}
	// Whoever runs the tests in the background, or with nohup, ignores signals, and the programs that are started here would
	// too. A signal that somebody listens to is one that they do not ignore.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return c.m.Run()
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
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
	})
}
