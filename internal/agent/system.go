package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/plain"
)

// System is what the model is told before anything else: where it is, how it should work, and what the people who keep the
// repository wrote down for agents.
func System(workspace string, day time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, `You are a coding agent that works alone: nobody watches, and nobody can answer a question.
Work with the tools until the task is done, then say in a few sentences what you did and what you found.
If something cannot be done, say so plainly; do not pretend.

- Look before you change: read a file before you edit it, and keep to its style.
- Make the smallest change that does the task, and check it (build, tests) where there is a way to.
- Calls of one answer run at the same time. Put commands that need each other into one command.
- A call that is denied stays denied: find another way, or say what is missing.
- Never print secrets.

Workspace: %s
System: %s/%s
Date: %s
`, workspace, runtime.GOOS, runtime.GOARCH, day.Format(time.DateOnly))
	for _, i := range Instructions(workspace) {
		fmt.Fprintf(&b, "\n<instructions from=%q>\n%s\n</instructions>\n", i.Path, strings.TrimSpace(i.Text))
	}
	return b.String()
}

// An Instruction is a file that people wrote for agents.
type Instruction struct {
	Path string // relative to the top folder, or ~/… for the user's own
	Text string
}

// instructionLimit bounds one file; more would not be read by a person either.
const instructionLimit = 64 << 10

// Instructions returns the user's own AGENTS.md, then those of the repository from its top folder down to the workspace.
// CLAUDE.md stands in where a folder has no AGENTS.md. A link that leads out of the repository is not followed: what it
// points to would be sent to the model.
func Instructions(workspace string) (list []Instruction) {
	if home, err := os.UserConfigDir(); err == nil {
		if root, err := os.OpenRoot(filepath.Join(home, "sluice")); err == nil {
			if text, name, ok := instruction(root, "."); ok {
				list = append(list, Instruction{"~/" + name, text})
			}
			root.Close()
		}
	}
	top := Top(workspace)
	root, err := os.OpenRoot(top)
	if err != nil {
		return list
	}
	defer root.Close()
	down, err := filepath.Rel(top, workspace)
	if err != nil {
		return list
	}
	folders := []string{"."}
	for at := down; at != "."; at = filepath.Dir(at) {
		folders = slices.Insert(folders, 1, at)
	}
	for _, folder := range folders {
		if text, name, ok := instruction(root, folder); ok {
			list = append(list, Instruction{filepath.ToSlash(filepath.Join(folder, name)), text})
		}
	}
	return list
}

// instruction reads the folder's file for agents.
func instruction(root *os.Root, folder string) (text, name string, ok bool) {
	for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
		data, err := plain.Head(root, filepath.Join(folder, name), 16<<20, instructionLimit)
		if err == nil && len(data) > 0 {
			return strings.ToValidUTF8(string(data), "\uFFFD"), name, true
		}
	}
	return "", "", false
}

// Top is the top folder of the repository that a folder is in, or the folder itself.
func Top(folder string) string {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return folder
		}
	}
}
