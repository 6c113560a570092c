//go:build unix

package journal

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// This file is about other processes. The test's own binary, run again with JOURNAL_TEST_CHILD, is the child.

func startChild(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_CHILD="+job)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func child(job, path string) {
	switch job {
	case "write":
		w, err := Create(path)
		check(err)
		childPut(w, event.RunStarted{Format: 1})
		childPut(w, event.Prompt{ID: "p"})
		childPut(w, event.TurnStarted{Number: 1})
		text := strings.Repeat("0123456789", 20_480)
		for {
			size := 100 << rand.IntN(11)
			childPut(w, event.TextDelta{Text: text[:size+rand.IntN(size)]})
		}
	case "lock":
		_, err := Resume(path)
		fmt.Println(errors.Is(err, ErrLocked), err)
	case "full":
		signal.Ignore(syscall.SIGXFSZ)
		w, err := Create(path)
		check(err)
		childPut(w, event.RunStarted{Format: 1})
		check(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2000, Max: 2000}))
		e := event.Event{Header: event.Header{Seq: 2}, Body: event.Text{Text: strings.Repeat("x", 5000)}}
		first := w.Put(e)
		e.Body = event.Text{Text: "short"}
		second := w.Put(e)
		fmt.Println(errors.Is(first, syscall.EFBIG), first == second, w.Last())
	}
}

func childPut(w *Writer, b event.Body) {
	e := event.Event{Header: event.Header{Seq: w.Last() + 1, Session: "s"}, Body: b}
	check(w.Put(e))
	fmt.Println(e.Seq)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A writer that is killed loses nothing that was put.
func TestKill(t *testing.T) {
	rounds := 1000
	switch {
	case testing.Short():
		rounds = 50
	case raced:
		rounds = 300 // starting a child takes several times as long
	}
	for part := range 4 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			dir, torn := t.TempDir(), 0
			for round := range rounds / 4 {
				if killOnce(t, filepath.Join(dir, fmt.Sprint(round))) {
					torn++
				}
			}
			t.Logf("%d rounds, %d torn tails", rounds/4, torn)
		})
	}
}

// killOnce kills a writer anywhere, and says whether that left a torn tail.
func killOnce(t *testing.T, path string) (torn bool) {
	cmd, acks := startChild(t, "write", path)
	shown := uint64(0)
	for n := rand.IntN(10); n >= 0 && acks.Scan(); n-- {
		fmt.Sscan(acks.Text(), &shown)
	}
	// Any point between two acknowledgements will do.
	for end := time.Now().Add(time.Duration(rand.IntN(200)) * time.Microsecond); time.Now().Before(end); {
	}
	cmd.Process.Kill()
	for acks.Scan() {
		fmt.Sscan(acks.Text(), &shown)
	}
	cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
		t.Fatal("the child ended by itself")
	}

	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	torn = w.size < before.Size()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := uint64(len(read(t, path))); got < shown || got > shown+1 || got != w.Last() {
		t.Fatalf("%d events, last %d, %d were shown", got, w.Last(), shown)
	}
	if _, err := Repair(path); err != nil {
		t.Fatal(err)
	}
	events, ends := read(t, path), 0
	for _, e := range events {
		if runEnd(e.Kind) {
			ends++
		}
	}
	if last := events[len(events)-1]; ends != 1 || !runEnd(last.Kind) {
		t.Fatalf("%d ends, last is %s", ends, last.Kind)
	}
	os.Remove(path)
	return torn
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, delta("a"))
	if _, err := Resume(path); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second writer: %v", err)
	}
	if _, err := Repair(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a repair: %v", err)
	}
	if got := tell(t, "lock", path); !strings.HasPrefix(got, "true ") {
		t.Errorf("another process: %s", got)
	}
	if line, err := Last(path); err != nil || line.Seq != 1 {
		t.Errorf("readers do not lock: %v", err)
	}
	w.Close()
	if got := tell(t, "lock", path); got != "false <nil>" {
		t.Errorf("after Close: %s", got)
	}
}

// tell returns what a child says.
func tell(t *testing.T, job, path string) string {
	t.Helper()
	cmd, out := startChild(t, job, path)
	var lines []string
	for out.Scan() {
		lines = append(lines, out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return lines[len(lines)-1]
}

func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	if got := tell(t, "full", path); got != "true true 1" {
		t.Errorf("the child says %q", got)
	}
	if events := read(t, path); len(events) != 1 {
		t.Errorf("%d events", len(events))
	}
}
