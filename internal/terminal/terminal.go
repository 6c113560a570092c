// Package terminal is a screen with a program on it and nobody in front: for programs that have no other door. What the program
// shows can be read, and typed to. There are two kinds: a pseudo-terminal of our own, and a pane of a tmux server of our own,
// which a person may attach to. Programs are started as lists of arguments; no shell is ever asked to read one.
package terminal

import (
	"errors"
	"strings"

	"github.com/sluice-dev/sluice/internal/proc"
)

// A Terminal has a program on it.
type Terminal interface {
	// Kind is pty or tmux.
	Kind() string
	// Screen is what it shows now: lines without the blanks at their ends.
	Screen() string
	// Changed receives when something was shown since it last received. It is one channel for one reader.
	Changed() <-chan struct{}
	// Type types keys, as they come from a keyboard.
	Type(keys string) error
	// Paste pastes text, so that the program can tell it from keys: a newline in it submits nothing.
	Paste(text string) error
	// Exited is closed when the program has ended; Exit then says how.
	Exited() <-chan struct{}
	Exit() proc.Exit
	// Close ends the program and whatever it started, and returns when they are gone.
	Close()
}

// Options say what is started, and how large the screen is.
type Options struct {
	Group *proc.Group
	Args  []string
	Dir   string
	Env   []string // all of it
	Cols  int      // 0: 220
	Rows  int      // 0: 50
	Temp  string   // a folder for a socket; empty: the system's
}

func (o Options) size() (cols, rows int) {
	cols, rows = o.Cols, o.Rows
	if cols == 0 {
		cols = 220
	}
	if rows == 0 {
		rows = 50
	}
	return cols, rows
}

// Keys that programs understand.
const (
	Enter  = "\r"
	Escape = "\x1b"
)

// ErrExited says that there is no program to type to.
var ErrExited = errors.New("the program on the terminal has ended")

// trimmed takes the blanks from the ends of lines, and the empty lines at the end.
func trimmed(screen string) string {
	lines := strings.Split(screen, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \x00")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// printable is text without what a terminal would take for keys.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && !(r >= 0x80 && r < 0xa0) {
			return r
		}
		return -1
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}
