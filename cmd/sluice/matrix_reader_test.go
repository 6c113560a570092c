//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// What the one who reads stdout does.
var readerFaults = []fault{
	{
		name: "reader closes the pipe", script: `{chunk: 2, delay: 20ms, steps: [{text: "` + strings.Repeat("All work and no play. ", 200) + `"}]}`,
		read: readOneLine, during: func(r *run) { r.await("text.delta"); r.leave() },
		exit: 141, outcome: event.Cancelled, reason: "the reader closed the pipe", unread: true,
	},
	{
		name: "reader closes the pipe in a tool", script: `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60"}}}, {text: Done.}]`,
		read: readOneLine, during: func(r *run) { r.awaitStray("one"); r.leave() },
		exit: 141, outcome: event.Cancelled, reason: "the reader closed the pipe", unread: true,
	},
	{
		name: "reader closes the pipe at once", script: `steps: [{text: Hello there., fault: {hang: start}}]`,
		read: func(_ *run, in *os.File) []byte { in.Close(); return nil }, during: func(r *run) { r.cause = time.Now() },
		exit: 141, outcome: event.Cancelled, reason: "the reader closed the pipe", unread: true,
	},
	{
		name: "reader at 1 kB/s", script: `{chunk: 50, steps: [{text: "` + strings.Repeat("All work and no play. ", 70) + `"}]}`,
		before: func(r *run) { r.narrow = true },
		read: func(r *run, in *os.File) (all []byte) {
			buf := make([]byte, 100)
			for {
				n, err := in.Read(buf)
				all = append(all, buf[:n]...)
				if err != nil {
					return all
				}
				time.Sleep(100 * time.Millisecond)
			}
		},
		outcome: event.Done,
	},
	{
		name: "reader stalls at the end", script: `{chunk: 100, steps: [{text: "` + strings.Repeat("All work and no play. ", 5000) + `"}]}`,
		read: readLate, during: func(r *run) { r.awaitFull(); time.Sleep(time.Second); close(r.gone) },
		outcome: event.Done,
	},
	{
		name: "a tool that talks to a slow reader", script: `{chunk: 100, steps: [{call: {tool: bash, input: {command: "stray one; seq 30000"}}}, {text: "` + strings.Repeat("All work and no play. ", 5000) + `"}]}`,
		read: readLate, during: func(r *run) { r.awaitFull(); close(r.gone) },
		outcome: event.Done,
	},
}

// readOneLine reads one line, and closes the pipe when the run says so.
func readOneLine(r *run, in *os.File) []byte {
	line, _ := bufio.NewReaderSize(in, 16).ReadBytes('\n')
	go func() { _, _ = io.Copy(io.Discard, in) }()
	<-r.gone
	in.Close()
	return line
}

// readLate reads nothing until the run says so.
func readLate(r *run, in *os.File) []byte {
	<-r.gone
	return readAll(r, in)
}

// leave has the reader close the pipe.
func (r *run) leave() {
	r.cause = time.Now()
	close(r.gone)
}
