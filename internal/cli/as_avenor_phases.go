package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/guest"
	"github.com/sluice-dev/sluice/internal/loop"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/spell"
)

// avenorGuests are its backends that have another name among our guests. Its claude is the one on a terminal.
var avenorGuests = map[string]string{
	"sluice": "", "claude": "claude-tui", "claude-stream": "claude", "opencode-acp": "opencode", "gemini-acp": "gemini",
}

// avenorBackends are the names of all backends.
func avenorBackends() []string {
	return []string{"sluice", "claude", "claude-stream", "claude-channel", "codex", "claude-acp", "opencode", "gemini", "qwen", "pi", "acp:COMMAND"}
}

// avenorGuest is the guest that a backend is; none if it is our own agent.
func avenorGuest(backend string) (string, error) {
	if name, ok := avenorGuests[backend]; ok || backend == "" {
		return name, nil
	}
	if strings.HasPrefix(backend, "acp:") || slices.Contains(guest.Names(), backend) {
		return backend, nil
	}
	hint := "there are " + strings.Join(avenorBackends(), ", ")
	if near := spell.Nearest(backend, avenorBackends()); near != "" {
		hint = "is " + near + " meant?"
	}
	return "", fmt.Errorf("there is no backend %q: %s", backend, hint)
}

// loadPlan reads a configuration of phases, and holds it to what can be run here.
func loadPlan(file string) (loop.Config, error) {
	cfg, err := loop.Load(file)
	wrong := cfg.Hold("backend", func(p loop.Phase) error {
		_, err := avenorGuest(p.Backend)
		return err
	})
	if list, ok := errors.AsType[loop.Problems](err); ok || err == nil {
		wrong = append(list, wrong...)
	} else {
		return cfg, err
	}
	if len(wrong) > 0 {
		slices.SortStableFunc(wrong, func(a, b loop.Problem) int { return a.Line - b.Line })
		return cfg, wrong
	}
	return cfg, nil
}

// plan makes the run one of phases, if there is a configuration. A prompt beside it is the first of them. What is wrong with the file
// is told in the stream: somebody may wait for its end.
func (f *avenorFlags) plan(o *runOptions) {
	if f.config == "" {
		return
	}
	o.runID = first(o.runID, avenorRunID())
	cfg, err := loadPlan(f.config)
	if err != nil {
		o.wrong = hinted{err, "avenor verify " + f.config}
		return
	}
	prompt := f.prompt
	if f.promptFile != "" {
		data, err := os.ReadFile(f.promptFile)
		if err != nil {
			o.wrong = hinted{err, "--prompt-file names a file with the prompt"}
			return
		}
		prompt = strings.ToValidUTF8(string(data), "\uFFFD")
	}
	if prompt != "" {
		cfg.Begin(prompt)
	}
	o.plan = &plan{config: cfg, guest: avenorGuest}
}

// avenorRunID makes up an id for a run that has none.
func avenorRunID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ended writes the sentinel of a run that may have been one of phases: the session is that of the last, and what blocked it is
// what that said.
func (s *sentinel) ended(p *plan) aftermath {
	return func(session string, end event.RunEnd, v outcome.Verdict, code int) {
		if p != nil {
			last, label := p.said()
			session, s.label = first(last, session), label
		}
		s.write(session, end, v, code)
	}
}
