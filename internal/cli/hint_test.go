package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Whoever plays a face has its flags and not ours: no message of a run that goes wrong may tell him to type another one.
func TestFacesNameTheirOwnFlags(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "script.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return "script/" + path
	}
	cut := script("steps: [{text: half of it, finish: length}]")
	asks := script("steps: [{call: {tool: bash, input: {command: make it}}}, {text: well}]")
	lines := map[string][]string{
		"aictrl": {"run", "--format", "json", "go"},
		"grok":   {"--format", "json", "--prompt", "go"},
		"enso":   {"run", "--format", "json", "go"},
		"avenor": {"run", "--on-event", "-", "--prompt", "go"},
		"aionrs": {"--json-stream"},
	}
	for _, c := range []struct {
		name  string
		model string
		set   map[string]string
		more  map[string][]string
	}{
		{name: "an answer that is too long", model: cut},
		{name: "a call that is denied", model: asks, set: map[string]string{"AICTRL_PERMISSION": `{"bash":"ask"}`}},
		{name: "no home", model: cut, set: map[string]string{"HOME": "", "XDG_STATE_HOME": ""}},
		{name: "a state folder that is a file", model: cut, set: map[string]string{"XDG_STATE_HOME": "/dev/null"}},
		{name: "a session twice", model: cut, more: map[string][]string{"aionrs": {"--resume", "a", "--session-id", "b"}}},
		{name: "no such folder", model: cut, more: map[string][]string{"aictrl": {"--dir", "/no/such"}, "grok": {"-d", "/no/such"}, "avenor": {"--dir", "/no/such"}, "aionrs": {"--workspace", "/no/such"}}},
	} {
		for name, line := range lines {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				home := t.TempDir()
				for key, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home, "SLUICE_MODEL": c.model} {
					t.Setenv(key, value)
				}
				for key, value := range c.set {
					t.Setenv(key, value)
				}
				var out, errs strings.Builder
				said := IO{In: strings.NewReader(`{"type":"message","msg_id":"m","input":"go"}` + "\n"), Out: &out, Err: &errs}
				code := Run(context.Background(), append(append([]string{"as", name}, line...), c.more[name]...), said)
				if talks := name == "aionrs" || name == "grok" && c.model == asks; code == exitOK && !talks { // these go on, or allow it
					t.Error("nothing went wrong")
				}
				flags := flagsOf(faces()[name].command(IO{}), line)
				for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(out.String()+errs.String(), -1) {
					if !flags[flag] && flag != "--help" {
						t.Errorf("it names %s, which it does not have:\n%s%s", flag, out.String(), errs.String())
					}
				}
			})
		}
	}
}

// flagsOf are the flags of the command that a command line is for.
func flagsOf(root *cobra.Command, line []string) map[string]bool {
	if cmd, _, err := root.Find(line); err == nil {
		root = cmd
	}
	has := map[string]bool{}
	for _, line := range strings.Fields(root.UsageString()) {
		has[line] = true
	}
	return has
}

// A command that is not there has a hint.
func TestLost(t *testing.T) {
	for args, want := range map[string]string{
		"as aictrl rnu":   `unknown command "rnu" for "aictrl"|aictrl run`,
		"as enso version": `unknown command "version" for "enso"|enso --help`,
		"model sereve":    `unknown command "sereve" for "sluice model"|sluice model --help`,
	} {
		var errs strings.Builder
		Run(context.Background(), strings.Fields(args), IO{Out: &strings.Builder{}, Err: &errs})
		text, hint, _ := strings.Cut(want, "|")
		if errs.String() != fmt.Sprintf("sluice: %s\nsluice: hint: %s\n", text, hint) {
			t.Errorf("%s: it says\n%s", args, errs.String())
		}
	}
	if err := errors.New("unknown"); lost(err) != err {
		t.Error("another error is changed")
	}
}
