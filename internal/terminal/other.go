//go:build !unix

package terminal

import "errors"

// Open says that there are no pseudo-terminals here.
func Open(Options) (Terminal, error) {
	return nil, errors.New("there are no pseudo-terminals on this system")
}

// OpenTmux says that there is no tmux here.
func OpenTmux(Options) (Terminal, error) { return nil, errors.New("there is no tmux on this system") }
