//go:build unix

// Weigh runs a command and prints what it cost: milliseconds until its first line, milliseconds of CPU, kilobytes of peak memory.
// It is a program of its own because a process begins with the peak memory of the one that it was forked from: this one is
// small.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		fail(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		fail(err)
	}
	watchdog := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	r := bufio.NewReader(out)
	r.ReadSlice('\n')
	first := time.Since(begin)
	io.Copy(io.Discard, r)
	if err := cmd.Wait(); err != nil {
		fail(err)
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	fmt.Println(float64(first.Microseconds())/1000, float64(use.Utime.Nano()+use.Stime.Nano())/1e6, use.Maxrss)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
