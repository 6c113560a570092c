package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

type exportFlags struct{ format, out string }

func sessionsExport(io IO) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export ID|latest",
		Short: "write a session down: as Markdown, or as a stream in any dialect",
		Long: `Export writes a session down for somebody else: as Markdown, with calls and thoughts folded away, or as a stream. What a run
left open because it was killed, or still runs, is closed, and marked as inferred.`,
		Example: `  sluice sessions export latest -o run.md
  sluice sessions export 019a8 --format aictrl > run.ndjson`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.export(cmd.Context(), io, args[0])
		},
	}
	formats := append([]string{"md"}, dialect.Names()...)
	cmd.Flags().StringVar(&f.format, "format", "md", "md, "+dialectNames())
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write to this file")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f exportFlags) export(ctx context.Context, s IO, name string) error {
	if f.format != "md" {
		if _, err := dialect.Lookup(f.format); err != nil {
			return hinted{fmt.Errorf("--format %q: it is one of md, %s", f.format, dialectNames()), "sluice sessions export --help"}
		}
	}
	dir, err := theSession(name)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, journalName)
	if f.out == "" {
		return f.write(ctx, s, path)
	}
	if sameFile(f.out, path) {
		return hinted{errors.New("--output would overwrite the journal"), "choose another file"}
	}
	return f.toFile(ctx, s, path)
}

// toFile writes a file that is for the user only: whoever reads an export should be chosen by the one who made it. What stood
// there before stays until all is written.
func (f exportFlags) toFile(ctx context.Context, s IO, path string) error {
	at := f.out
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	if info, err := os.Stat(at); err == nil && !info.Mode().IsRegular() { // a pipe, say
		file, err := os.OpenFile(at, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		s.Out = file
		return either(f.write(ctx, s, path), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(at), ".export-*") // 0600
	if err != nil {
		return err
	}
	s.Out = file
	if err = either(f.write(ctx, s, path), file.Close()); err == nil {
		err = os.Rename(file.Name(), at)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

func (f exportFlags) write(ctx context.Context, s IO, path string) error {
	if f.format != "md" {
		return convert(ctx, s, convertFlags{from: "native", to: f.format, repair: true}, path)
	}
	in, err := s.open(ctx, path, "native", "")
	if err != nil {
		return err
	}
	defer in.close()
	m := markdown{out: bufio.NewWriter(s.Out), session: filepath.Base(filepath.Dir(path))}
	stream := dialect.NewStream(in.dialect, dialect.StreamOptions{})
	tell := func(e event.Event) { m.tell(e) }
	err = in.each(func(line []byte, torn bool) { stream.Line(line, torn, tell) }, func() error { return nil })
	stream.Close(tell)
	return either(err, m.out.Flush())
}
