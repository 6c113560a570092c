//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/cli"
	"github.com/sluice-dev/sluice/internal/tool"
)

// The test program also plays these, by its name.
func init() {
	programs["stray"] = stray
	programs["sluice-strange"] = strange
}

// stray leaves a process behind that does what it can to stay: it forks twice, has a session of its own, hears no TERM, and
// keeps the stdout that it was given. It writes its number to a file in $STRAYS. Whoever called it goes on when the file is
// there.
func stray() {
	file := filepath.Join(os.Getenv("STRAYS"), os.Args[1])
	if len(os.Args) > 2 {
		stay(file)
		return
	}
	c := exec.Command(os.Args[0], os.Args[1], "stay")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for !exists(file) {
		time.Sleep(time.Millisecond)
	}
}

func stay(file string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	err := os.WriteFile(file+".new", fmt.Appendln(nil, os.Getpid()), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	time.Sleep(patient) // and no longer, if nobody kills it
}

// strange is sluice in a world that a test cannot make from outside: names are looked up where $RESOLVER says, and there is
// a tool that panics.
func strange() {
	if at := os.Getenv("RESOLVER"); at != "" {
		net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", at)
		}}
	}
	os.Exit(cli.Run(context.Background(), os.Args[1:], cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Tools: []tool.Tool{bomb{}}}))
}

// A bomb panics: when it is planned, or when it runs.
type bomb struct{}

func (bomb) Spec() tool.Spec {
	return tool.Spec{Name: "bomb", Description: "Panics.", Class: event.ClassInfo, Schema: event.Raw(`{"type":"object"}`)}
}

func (bomb) Plan(input event.Raw) (tool.Plan, error) {
	var none []string
	if string(input) == `{"when":"plan"}` {
		return tool.Plan{Title: none[len(input)]}, nil
	}
	return tool.Plan{Title: "tick", Run: func(context.Context, func(string)) tool.Result {
		return tool.Result{Output: none[len(input)]}
	}}, nil
}

// resolver answers every question about a name: there is no such name. It returns its address.
func (r *run) resolver() string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12 // of the question: labels up to the empty one, type and class
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			if end += 5; n < 12 || end > n {
				continue
			}
			answer := append([]byte{buf[0], buf[1], 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0}, buf[12:end]...)
			_, _ = c.WriteTo(answer, from)
		}
	}()
	return c.LocalAddr().String()
}
