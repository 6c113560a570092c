// Package cli is the command line: one file per subcommand, and the only place where packages are put together.
//
// What the user sees on stderr keeps these rules: one line per thing, "sluice:" in front, small letters, no full stop;
// "sluice: hint:" says what to type next. stdout belongs to what was asked for.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/sandbox"
	"github.com/sluice-dev/sluice/internal/secret"
	"github.com/sluice-dev/sluice/internal/tool"
)

// IO is where a command reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer

	Quiet bool        // nothing is written to Out while reading
	Tools []tool.Tool // that a run has besides those that come with Sluice; a test's, say
}

// Exit codes of the commands that read.
const (
	exitOK    = 0
	exitUsage = 1 // bad usage, or the answer is no
)

// errNo says that a command did its work and its answer is no: a stream that breaks its rules, a conversion that lost
// something. There is nothing more to say.
var errNo = errors.New("no")

// A hinted error says what to type next.
type hinted struct {
	err  error
	hint string
}

func (h hinted) Error() string { return h.err.Error() }
func (h hinted) Unwrap() error { return h.err }

// Main runs the program and ends it.
func Main() {
	sandbox.Enter()         // a command of ours may begin as ourselves, and go no further than this
	dismiss := proc.Guard() // what we start does not outlive us, even if we are killed; the guard begins as ourselves, too
	ignoreSignals()
	// The readers keep little and throw away much: a heap of a few megabytes need not be swept for each of them.
	debug.SetGCPercent(400)
	// Signals that end a program end this one: it only reads, and has nothing to clean up.
	code := Run(context.Background(), calledAs(os.Args), IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	dismiss()
	os.Exit(code)
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, args []string, io IO) int {
	root := rootCommand(io)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK // a reader who closed the pipe has seen enough
	case errors.Is(err, errNo):
		return exitUsage
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	io.complain(lost(err))
	return exitUsage
}

// unknownCommand is how cobra complains of one: with the command that it belongs to and, perhaps, what was meant.
var unknownCommand = pattern.Lazy(`^(unknown command "[^"]*" for "([^"]*)")(?:\s+Did you mean this\?\s+(\S+))?`)

// lost says what to type instead of a command that is not there.
func lost(err error) error {
	m := unknownCommand().FindStringSubmatch(err.Error())
	if m == nil || errors.As(err, new(hinted)) {
		return err
	}
	return hinted{errors.New(m[1]), m[2] + " " + first(m[3], "--help")}
}

// orHint adds what to type next to an error that does not say so itself.
func orHint(err error, hint string) error {
	if err == nil || errors.As(err, new(hinted)) {
		return err
	}
	return hinted{err, hint}
}

// complain says what is wrong, and what to type next, without the secrets that somebody may have typed.
func (s IO) complain(err error) {
	hide := secret.New(secret.Values(os.Environ(), tool.Secret))
	fmt.Fprintf(s.Err, "sluice: %s\n", hide.String(oneLine(err.Error())))
	if h, ok := errors.AsType[hinted](err); ok && h.hint != "" {
		fmt.Fprintf(s.Err, "sluice: hint: %s\n", hide.String(h.hint))
	}
}

// skip complains about one file of several, so that the others are read all the same. A reader who has gone ends everything.
func (s IO) skip(err error) error {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return err
	}
	s.complain(err)
	return nil
}

func rootCommand(io IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "run coding agents with nobody watching, and tell the truth about what they did",
		Long: `Sluice runs a coding agent headless, as a stream of events on stdout that has exactly one end and an exit code that is the
outcome; and it reads such streams, whichever dialect they are in (` + sourceNames() + `).

  sluice run "What is in this folder?"          run the agent
  sluice drive claude "fix the failing test"    let another agent do it, under the same contract
  sluice as grok --prompt "…" --format json     be another system; sluice link DIR makes the links
  sluice model serve script.yaml                a scripted model behind the real wire formats
  sluice digest run.ndjson                      what happened in a run
  sluice lint run.ndjson                        is the stream what its specification says?
  sluice convert --to aictrl run.ndjson         tell it in another dialect
  sluice watch --follow run.ndjson              follow it while it grows`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.AddCommand(runCommand(io), driveCommand(io), asCommand(io), linkCommand(io), acpCommand(io), convertCommand(io), lintCommand(io), digestCommand(io), watchCommand(io), schemaCommand(io), modelCommand(io), sessionsCommand(io), configCommand(io), trustCommand(io), mcpCommand(io), controlCommand(io), emitCommand(io), awaitCommand(io), answerCommand(io), stableCommand(io), verifyCommand(io), channelCommand(io), versionCommand(io))
	dress(root, io)
	return root
}

// dress makes a command line speak as all of ours do.
func dress(root *cobra.Command, io IO) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hinted{err, cmd.CommandPath() + " --help"}
	})
	if !root.HasSubCommands() { // a face of one command: completion is no word of its prompt, and not worth a line of its help
		root.CompletionOptions.HiddenDefaultCmd = true
		if root.Args == nil {
			root.Args = cobra.ArbitraryArgs
		}
	}
	root.InitDefaultCompletionCmd("completion")
	root.SetHelpCommand(helpCommand())
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" && !cmd.Runnable() { // else it has help for every shell that there is, and no failure
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return cmd.Help() }
		}
		cmd.Args = hintArgs(cmd.Args)
	}
}

// helpCommand is cobra's, but fails if there is no such command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return hinted{fmt.Errorf("there is no command %q", strings.Join(args, " ")), cmd.Root().Name() + " --help"}
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// hintArgs adds what to type next to a complaint about arguments.
func hintArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return hinted{err, cmd.CommandPath() + " --help"}
		}
		return nil
	}
}

// oneLine keeps a message on one line, whatever is in it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
}

// either returns the first error: the others follow from it.
func either(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
