package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

type convertFlags struct {
	from, to, loss           string
	strict, noOrigin, repair bool
}

func convertCommand(io IO) *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert --to DIALECT [file]",
		Short: "tell a stream in another dialect",
		Long: `Convert reads a stream in one dialect and tells it in another, line by line as it comes. A stream that was
cut is told whole: what was open is closed, and marked inferred where the dialect has a word for that.

In the native dialect every line of the input is kept as it was, so that converting back gives the same
bytes. --no-origin leaves these lines out of account and really translates. --repair closes what was cut
when a stream is converted to its own dialect, and leaves out lines that are not JSON; all other lines
stay as they are.

The report of --loss is NDJSON, one line per thing: line (of the input), kind and field (of our event; an
empty field is the whole event), fate (dropped, approximated, synthesised) and why.`,
		Example: `  sluice convert --to aictrl run.ndjson
  sluice convert --from grok --to native --loss loss.ndjson < run.ndjson > journal.ndjson
  sluice convert --to grok --repair cut.ndjson`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return convert(cmd.Context(), io, f, orStdin(args)[0])
		},
	}
	cmd.Flags().StringVar(&f.from, "from", "", "dialect of the input (default: found out): "+sourceNames())
	cmd.Flags().StringVar(&f.to, "to", "", "dialect of the output: "+dialectNames())
	cmd.Flags().StringVar(&f.loss, "loss", "", "write what the dialect could not say to this file")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit 1 if anything was lost")
	cmd.Flags().BoolVar(&f.noOrigin, "no-origin", false, "translate also lines that were kept as they were")
	cmd.Flags().BoolVar(&f.repair, "repair", false, "close what was cut, in the stream's own dialect too")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(dialect.SourceNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(dialect.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func dialectNames() string { return strings.Join(dialect.Names(), ", ") }

// sourceNames are the dialects that can be read.
func sourceNames() string { return strings.Join(dialect.SourceNames(), ", ") }

func convert(ctx context.Context, s IO, f convertFlags, file string) (err error) {
	if f.to == "" {
		return hinted{errors.New("--to is missing"), "sluice convert --to native " + file}
	}
	to, err := dialect.Lookup(f.to)
	if err != nil {
		return err
	}
	in, err := s.open(ctx, file, f.from, "--from")
	if err != nil {
		return err
	}
	defer in.close()

	c := conversion{in: in, to: to, out: s.Out, flags: f}
	opt := dialect.Options{NoOrigin: f.noOrigin, Repair: f.repair}
	if f.loss != "" || f.strict {
		if f.loss != "" {
			if sameFile(f.loss, file) {
				return hinted{errors.New("--loss would overwrite the input"), "sluice convert --to " + f.to + " --loss loss.ndjson " + file}
			}
			report, cannot := os.Create(f.loss)
			if cannot != nil {
				return cannot
			}
			c.report = bufio.NewWriter(report)
			defer func() { err = either(err, c.report.Flush(), report.Close()) }()
		}
		opt.Loss = c.lost
	}
	c.enc = to.NewEncoder(opt)
	if err := c.run(); err != nil {
		return err
	}
	if f.strict && c.losses > 0 {
		if f.loss == "" {
			fmt.Fprintf(s.Err, "sluice: %s: %d things could not be said in %s; --loss FILE names them\n", in.name, c.losses, to.Name)
		}
		return errNo
	}
	return nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// A conversion is one stream on its way from one dialect to another.
type conversion struct {
	in     *input
	stream *dialect.Stream
	to     *dialect.Dialect
	enc    dialect.Encoder
	out    io.Writer
	buf    []byte // what is told and not yet written
	err    error  // of writing it
	flags  convertFlags
	report *bufio.Writer
	losses int
}

func (c *conversion) run() error {
	// A journal that stays a journal is copied: a newer version may have written fields that this one does not know.
	journal := c.in.dialect.Name == "native"
	copied := journal && c.to == c.in.dialect && !c.flags.noOrigin
	kept := !c.flags.noOrigin && (c.to.Name == "native" || c.to == c.in.dialect)
	opt := dialect.StreamOptions{NoOrigin: !kept, Transient: true}
	if c.flags.loss == "" && !c.flags.strict {
		opt.For = c.to
	}
	c.stream = dialect.NewStream(c.in.dialect, opt)
	tell := c.tell
	if copied {
		tell = func(event.Event) {}
	}
	err := c.in.each(func(line []byte, torn bool) {
		if copied {
			if c.flags.repair && !isEvent(line) {
				return // left out, and no number is spent on it
			}
			c.buf = append(c.buf, line...)
			if !torn || c.flags.repair {
				c.buf = append(c.buf, '\n')
			}
			c.full()
		}
		c.stream.Line(line, torn, tell)
	}, c.flush)
	if err != nil {
		return either(err, c.flush())
	}
	if copied {
		ended := false
		tell = func(e event.Event) {
			if _, end := event.AsRunEnd(e.Body); c.flags.repair && event.Inferred(e.Body) && !ended {
				c.tell(e)
				ended = end
			}
		}
	}
	c.stream.Close(tell)
	return c.flush()
}

func isEvent(line []byte) bool {
	_, err := event.Parse(line)
	return err == nil
}

func (c *conversion) tell(e event.Event) {
	c.buf = c.enc.Encode(c.buf, e)
	c.full()
}

// full writes what there is, if it is enough.
func (c *conversion) full() {
	if len(c.buf) >= 64<<10 {
		_ = c.flush() // an error stays
	}
}

// flush writes what there is. After an error nothing more is written.
func (c *conversion) flush() error {
	if len(c.buf) > 0 && c.err == nil {
		_, c.err = c.out.Write(c.buf)
	}
	if c.buf = c.buf[:0]; cap(c.buf) > 4<<20 {
		c.buf = nil // after a very long line
	}
	return c.err
}

// lost takes a loss. The numbers that we gave to a foreign stream's events are no loss of its.
func (c *conversion) lost(l dialect.Loss) {
	if (l.Field == "seq" || l.Field == "of") && c.in.dialect.Name != "native" {
		return
	}
	c.losses++
	if c.report == nil {
		return
	}
	l.Line = c.stream.At()
	c.report.Write(append(wire.Append(nil, l), '\n'))
}
