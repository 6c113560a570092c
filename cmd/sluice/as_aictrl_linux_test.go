package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal makes one: what is written to the second file is read from the first.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

// On a terminal text has colours and a line that lives; with AICTRL_HEADLESS it is as plain as in a file.
func TestAictrlHeadless(t *testing.T) {
	t.Parallel()
	for _, headless := range []string{"", "true"} {
		a := newAictrl(t, greets)
		a.set("AICTRL_HEADLESS", headless)
		a.set("TERM", "xterm")
		screen, tty := terminal(t)
		ctx, cancel := context.WithTimeout(t.Context(), patient)
		defer cancel()
		cmd := exec.CommandContext(ctx, "aictrl", "run", "hello")
		cmd.Env, cmd.Dir, cmd.Stdout = a.env, a.path("work"), tty
		shown := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(screen) // it ends with an error when nobody has the terminal any more
			shown <- all
		}()
		err := cmd.Run()
		tty.Close()
		text := <-shown
		if err != nil || !bytes.Contains(text, []byte("Hello there.")) {
			t.Fatalf("%v: %q", err, text)
		}
		if lively := bytes.Contains(text, []byte("\x1b")); lively != (headless == "") {
			t.Errorf("AICTRL_HEADLESS=%s: %q", headless, text)
		}
	}
}
