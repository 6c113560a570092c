package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/plain"
)

type lintFlags struct {
	dialect            string
	json, rules, quiet bool
}

func lintCommand(io IO) *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint [file ...]",
		Short: "is a stream what its specification says?",
		Long: `Lint checks streams against the specification of their dialect: shape and type of every field, order and
pairing, the one end, ids, counters, times. It says rule, line, column and reason. It exits 1 if a rule is
broken; notes, which tell what is unusual and allowed, do not count.`,
		Example: `  sluice lint run.ndjson
  sluice lint --dialect grok --json < run.ndjson
  sluice lint --rules`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rules {
				if len(args) > 0 {
					return hinted{errors.New("--rules lists the rules and reads no file"), "sluice lint " + args[0]}
				}
				return listRules(io, f)
			}
			broken := false
			for _, file := range orStdin(args) {
				ok, err := lint(cmd.Context(), io, f, file)
				if err := io.skip(err); err != nil {
					return err
				}
				broken = broken || !ok || err != nil
			}
			if broken {
				return errNo
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.dialect, "dialect", "", "dialect of the streams (default: found out): "+sourceNames())
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object per finding")
	cmd.Flags().BoolVar(&f.rules, "rules", false, "list the rules, of all dialects or of --dialect")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "leave out notes and what is clean")
	_ = cmd.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions(dialect.SourceNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// finding is a line of lint --json.
type finding struct {
	File    string `json:"file"`
	Dialect string `json:"dialect"`
	dialect.Diagnostic
}

func lint(ctx context.Context, s IO, f lintFlags, file string) (ok bool, err error) {
	in, err := s.open(ctx, file, f.dialect, "--dialect")
	if err != nil {
		return false, err
	}
	defer in.close()
	out := bufio.NewWriterSize(s.Out, 64<<10)
	violations, notes, lines := 0, 0, 0
	name := plain.Name(in.name)
	l := dialect.NewLinter(in.dialect, func(d dialect.Diagnostic) {
		if d.Note {
			notes++
		} else {
			violations++
		}
		if f.json {
			line, _ := json.Marshal(finding{in.name, in.dialect.Name, d})
			out.Write(append(line, '\n'))
			return
		}
		fmt.Fprintf(out, "%s:%d:", name, d.Line)
		if d.Column > 0 {
			fmt.Fprintf(out, "%d:", d.Column)
		}
		if d.Note {
			fmt.Fprint(out, " note:")
		}
		fmt.Fprintf(out, " %s: %s\n", d.Rule, oneLine(d.Message))
	})
	l.NoNotes = f.quiet
	err = in.each(func(line []byte, torn bool) {
		l.Line(line, torn)
		lines++
	}, out.Flush)
	if err != nil {
		return false, either(err, out.Flush())
	}
	l.Close()
	if !f.json && !f.quiet {
		verdict := "clean"
		if violations > 0 {
			verdict = plural(violations, "violation")
		}
		fmt.Fprintf(out, "%s: %s, %s, %s, %s\n", name, in.dialect.Name, plural(lines, "line"), verdict, plural(notes, "note"))
	}
	return violations == 0, out.Flush()
}

func listRules(s IO, f lintFlags) error {
	rules := dialect.AllRules()
	if f.dialect != "" {
		d, err := dialect.Source(f.dialect)
		if err != nil {
			return err
		}
		rules = d.Rules()
	}
	if f.json {
		enc := json.NewEncoder(s.Out)
		for _, r := range rules {
			if err := enc.Encode(struct {
				Rule string `json:"rule"`
				Note bool   `json:"note,omitempty"`
				Doc  string `json:"doc"`
			}{r.ID, r.Note, r.Doc}); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
	for _, r := range rules {
		level := "violation"
		if r.Note {
			level = "note"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.ID, level, r.Doc)
	}
	return w.Flush()
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
