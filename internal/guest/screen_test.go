package guest

import (
	"os"
	"strings"
	"testing"
)

// TestLook: the screens are claude's own, as a terminal showed them.
func TestLook(t *testing.T) {
	for name, want := range map[string]struct {
		ready    bool
		question string
		about    string
		kinds    string
		trust    bool
	}{
		"trust":    {question: "Accessing workspace:", about: "Accessing workspace:", kinds: "allow_once reject_once", trust: true},
		"ready":    {ready: true},
		"typed":    {},
		"bash":     {question: "Do you want to proceed?", about: "Bash command touch made2.txt make a file", kinds: "allow_once allow_always reject_once"},
		"create":   {question: "Do you want to create w.txt?", about: "Create file w.txt", kinds: "allow_once allow_always reject_once"},
		"rejected": {ready: true},
		"quoted":   {ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			screen, err := os.ReadFile("testdata/screens/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			v := look(string(screen))
			if v.ready != want.ready || v.busy {
				t.Errorf("ready %v, busy %v", v.ready, v.busy)
			}
			if (v.dialog != nil) != (want.question != "") {
				t.Fatalf("the dialog is %+v", v.dialog)
			}
			if v.dialog == nil {
				return
			}
			var kinds []string
			for i, o := range v.dialog.options {
				kinds = append(kinds, o.Kind)
				if o.ID != string(rune('1'+i)) {
					t.Errorf("option %d is %+v", i, o)
				}
			}
			if got := strings.Join(kinds, " "); got != want.kinds {
				t.Errorf("the answers are %q", got)
			}
			if !strings.HasPrefix(v.dialog.question, want.question) || !strings.HasPrefix(v.dialog.about, want.about) || v.dialog.trusts() != want.trust {
				t.Errorf("it asks %q about %q", v.dialog.question, v.dialog.about)
			}
		})
	}
}

// TestLookBusy: what is going on is told by the line at the bottom.
func TestLookBusy(t *testing.T) {
	box := strings.Repeat("─", 60)
	v := look("✻ Clauding…\n" + box + "\n❯ \n" + box + "\n  esc to interrupt · ← for agents\n")
	if !v.busy || v.ready || v.dialog != nil {
		t.Errorf("%+v", v)
	}
}

// TestLookNeverPanics: a screen is a stranger's.
func TestLookNeverPanics(t *testing.T) {
	for _, s := range []string{"", "\n\n", " ❯ 1. Yes", "Esc to cancel", "a\nb\nEsc to cancel", "1. a\n❯ 2. b\n\nEsc to cancel", "❯ 1. Yes\n2. No\nEsc to cancel"} {
		look(s)
	}
}
