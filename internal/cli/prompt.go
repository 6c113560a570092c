package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// stdinSilence is how long a pipe beside a prompt may say nothing before it is left alone: it is probably nobody's.
const stdinSilence = 2 * time.Second

// errNoPrompt says that there is nothing to do.
var errNoPrompt = hinted{errors.New("there is no prompt"), `sluice run "What is in this folder?"`}

// promptMost is how long a prompt may be: more than any model takes, and less than the memory that a pipe without an end fills.
const promptMost = 64 << 20

var errLongPrompt = hinted{errors.New("the prompt is longer than 64 MB, and perhaps without an end"), "put it into a file, and say in the prompt which file it is"}

// readPrompt puts the prompt together: the arguments, or a file, and then what stdin says, if it is a pipe or a file. It
// returns where it came from.
func (s IO) readPrompt(ctx context.Context, args []string, file string) (text, source string, err error) {
	parts := []string{strings.Join(args, " ")}
	source = "argument"
	if file != "" {
		data, err := readAtMost(file, promptMost)
		switch {
		case err != nil:
			return "", "", hinted{err, "--prompt-file names a file with the prompt"}
		case len(data) > promptMost:
			return "", "", errLongPrompt
		}
		parts = append(parts, string(data))
	}
	given := strings.TrimSpace(strings.Join(parts, "")) != ""
	piped, err := s.readPiped(ctx, given)
	if err != nil {
		return "", "", err
	}
	if !given {
		source = "stdin"
	}
	var said []string
	for _, p := range append(parts, piped) {
		if p = strings.TrimSpace(strings.ToValidUTF8(p, "\uFFFD")); p != "" {
			said = append(said, p)
		}
	}
	if len(said) == 0 {
		return "", "", errNoPrompt
	}
	return strings.Join(said, "\n\n"), source, nil
}

// readAtMost reads a file, or so much of it and one byte more.
func readAtMost(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// readPiped reads stdin, if somebody put something there. Beside a prompt it is read as long as it goes on talking.
func (s IO) readPiped(ctx context.Context, given bool) (string, error) {
	if f, ok := s.In.(*os.File); ok {
		info, err := f.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return "", nil // a terminal, /dev/null, or nothing at all
		}
	}
	if s.In == nil {
		return "", nil
	}
	type piece struct {
		text string
		err  error
	}
	pieces := make(chan piece)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.In.Read(buf)
			select {
			case pieces <- piece{string(buf[:n]), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var b strings.Builder
	silence := time.NewTimer(stdinSilence)
	defer silence.Stop()
	for {
		select {
		case p := <-pieces:
			b.WriteString(p.text)
			if errors.Is(p.err, io.EOF) {
				return b.String(), nil
			}
			if p.err != nil {
				return "", fmt.Errorf("stdin: %w", p.err)
			}
			if b.Len() > promptMost {
				return "", errLongPrompt
			}
			silence.Reset(stdinSilence)
		case <-silence.C:
			switch {
			case given && b.Len() == 0:
				fmt.Fprintln(s.Err, "sluice: stdin is open and says nothing; it is left alone (</dev/null avoids the wait)")
				return "", nil
			case given:
				fmt.Fprintln(s.Err, "sluice: stdin went silent before its end; what came is part of the prompt")
				return b.String(), nil
			}
			fmt.Fprintln(s.Err, "sluice: waiting for the prompt on stdin")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
