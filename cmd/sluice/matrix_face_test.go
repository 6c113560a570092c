//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A mask is a face as a row of the failure matrix sees it: how to say there what a row says to sluice run, and what must come of
// it.
type mask struct {
	name  string
	line  func(*run, wishes) []string // its command line; what it takes out of the wishes is said
	tools map[string]string           // its names for tools
	asks  bool                        // its rules let everything pass: what is to be asked about must be said
	exit  func(fault) int             // its table
	sees  func(*fault)                // what it makes of a row, if that is not in the table

	words  map[string]string       // of reasons, where it has its own
	file   bool                    // its stream goes to a file
	aside  bool                    // it has no word for notices: stderr has them
	cannot map[string]string       // rows, and flags of rows, that it has no word for, and why
	turns  map[string]func(*fault) // rows that come out in another way, by its document
}

// masks are the faces that rows are played through.
var masks = []*mask{grokMask, aictrlMask, ensoMask, avenorMask, aionrsMask}

// nowhere are the flags that neither a face nor the configuration can say, and why that is so.
var nowhere = map[string]string{
	"--idle":          "how long a server may be silent is nobody's flag and no key: a face has the usual five minutes",
	"--on-ask":        "a face has its own answer to a question, which its tests show",
	"--denied-ok":     noWord,
	"--require-mcp":   noWord,
	"--output-schema": noWord,
	"--verify":        noWord,
	"--require-tool":  noWord,
	"--expect-change": noWord,
}

const noWord = "no face has a word for it, nor has the configuration"

// layered are the flags that the environment says, too.
var layered = map[string]string{
	"--mode": "SLUICE_MODE", "--model": "SLUICE_MODEL", "--stall": "SLUICE_STALL", "--timeout": "SLUICE_TIMEOUT", "--retries": "SLUICE_RETRIES",
	"--max-turns": "SLUICE_MAX_TURNS", "--max-tool-calls": "SLUICE_MAX_TOOL_CALLS", "--max-total-tokens": "SLUICE_MAX_TOTAL_TOKENS",
	"--max-cost": "SLUICE_MAX_COST",
}

// ruled are those that the configuration has as lists.
var ruled = []string{"--allow", "--ask", "--deny"}

// worn are the faces that a row is played through: all that can say it, or in a hurry one of them.
func worn(f fault) []*mask {
	list := slices.DeleteFunc(slices.Clone(masks), func(m *mask) bool { return m.why(f) != "" })
	if testing.Short() && len(list) > 1 {
		return []*mask{oneOf(list, f.name)}
	}
	return list
}

// why says why a face cannot play a row; empty: it can.
func (m *mask) why(f fault) string {
	if why := m.cannot[f.name]; why != "" {
		return why
	}
	for _, flag := range f.flags {
		if why := m.cannot[flag]; why != "" {
			return why
		}
		if why := nowhere[flag]; why != "" {
			return why
		}
	}
	return ""
}

// Every row that a face leaves out has a reason, and every reason a row.
func TestWhatFacesCannotSay(t *testing.T) {
	rows := matrix()
	for _, m := range masks {
		left := 0
		for name := range m.cannot {
			if !slices.ContainsFunc(rows, func(f fault) bool { return f.name == name || slices.Contains(f.flags, name) }) {
				t.Errorf("%s: there is no row, and no flag of one, that is called %q", m.name, name)
			}
		}
		for name := range m.turns {
			if !slices.ContainsFunc(rows, func(f fault) bool { return f.name == name }) {
				t.Errorf("%s: there is no row that is called %q", m.name, name)
			}
		}
		for _, f := range rows {
			if why := m.why(f); why != "" {
				left++
				t.Logf("%s: %s: %s", m.name, f.name, why)
			}
		}
		if left*3 > len(rows) {
			t.Errorf("%s is played in %d of %d rows only", m.name, len(rows)-left, len(rows))
		}
	}
}

// seen is the row as it comes out under a face.
func (f fault) seen(m *mask) fault {
	f.exit = m.exit(f)
	if theirs, ok := m.words[f.reason]; ok {
		f.reason = theirs
	}
	if m.sees != nil {
		m.sees(&f)
	}
	if turn := m.turns[f.name]; turn != nil {
		turn(&f)
	}
	return f
}

// wishes are what a row says to sluice run: flags with their values, and the prompt.
type wishes struct {
	flags  map[string][]string
	prompt string
}

func parse(args []string) wishes {
	w := wishes{flags: map[string][]string{}}
	for i := 1; i < len(args); i++ { // the first is run
		switch name := args[i]; {
		case !strings.HasPrefix(name, "-"):
			w.prompt = name
		default:
			i++
			w.flags[name] = append(w.flags[name], args[i])
		}
	}
	return w
}

// take returns the last value of a flag, and takes it out. It is empty if nobody gave it.
func (w wishes) take(flag string) string {
	list := w.flags[flag]
	delete(w.flags, flag)
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// put appends flags of the face where somebody gave ours; they are in pairs, ours first.
func (w wishes) put(args []string, pairs ...string) []string {
	for i := 0; i < len(pairs); i += 2 {
		if v := w.take(pairs[i]); v != "" {
			args = append(args, pairs[i+1], v)
		}
	}
	return args
}

// last appends the prompt, if there is one.
func (w wishes) last(args []string) []string {
	if w.prompt != "" {
		return append(args, w.prompt)
	}
	return args
}

// configured says by the environment and the user's file what a face has no flag for.
func (r *run) configured(w wishes) {
	var file strings.Builder
	if r.mask.asks && w.flags["--mode"][len(w.flags["--mode"])-1] == "default" {
		w.flags["--ask"] = append(w.flags["--ask"], "bash(*)")
	}
	for _, flag := range slices.Sorted(maps.Keys(w.flags)) {
		switch variable := layered[flag]; {
		case variable != "":
			r.set(variable, w.take(flag))
		case slices.Contains(ruled, flag):
			fmt.Fprintf(&file, "%s = [", strings.TrimLeft(flag, "-"))
			for _, rule := range w.flags[flag] {
				fmt.Fprintf(&file, "%q, ", rule)
			}
			file.WriteString("]\n")
		default:
			r.Errorf("nobody says %s to %s", flag, r.mask.name)
		}
	}
	if file.Len() > 0 {
		before, err := os.ReadFile(r.path("home/sluice/config.toml"))
		if err != nil && !os.IsNotExist(err) {
			r.Fatal(err)
		}
		r.configure(file.String() + string(before)) // tables come last
	}
}

var toolIn = regexp.MustCompile(`tool: (\w+)`)

// script is a script with the tools that a face has.
func (m *mask) script(text string) string {
	return toolIn.ReplaceAllStringFunc(text, func(s string) string {
		name := strings.TrimPrefix(s, "tool: ")
		if theirs, ok := m.tools[name]; ok {
			name = theirs
		}
		return "tool: " + name
	})
}

// ours is our own table, that of a face whose document has none.
func ours(f fault) int { return f.exit }
