package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/plain"
	"github.com/sluice-dev/sluice/journal"
)

type digestFlags struct {
	dialect              string
	json, classify       bool
	milestones, findings []string
}

func digestCommand(io IO) *cobra.Command {
	var f digestFlags
	cmd := &cobra.Command{
		Use:   "digest [file ...]",
		Short: "say what happened in a run",
		Long: `Digest sums up streams for a person: outcome, duration, sessions and sub-agents, turns, tool calls by tool,
tokens and cost, permissions, retries, errors, findings, and what the dialect could not tell. Several files
are listed one by one and then merged.

With --classify it is a filter: every line passes as it is, with its class added: MILESTONE, FINDING or
ACTIVITY. --milestone and --finding raise custom events by their name.`,
		Example: `  sluice digest run.ndjson
  sluice digest --json runs/*.ndjson
  sluice digest --classify --milestone deploy.started < run.ndjson`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.classify && len(f.milestones)+len(f.findings) > 0 {
				return hinted{errors.New("--milestone and --finding are for --classify"), "sluice digest --classify"}
			}
			if f.classify && f.json {
				return hinted{errors.New("--classify passes lines on as they are; --json is for the summary"), "sluice digest --classify"}
			}
			if f.classify {
				return classify(cmd.Context(), io, f, orStdin(args))
			}
			return digest(cmd.Context(), io, f, orStdin(args))
		},
	}
	cmd.Flags().StringVar(&f.dialect, "dialect", "", "dialect of the streams (default: found out): "+sourceNames())
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object per file, and one for all")
	cmd.Flags().BoolVar(&f.classify, "classify", false, "pass every line on with its class added")
	cmd.Flags().StringArrayVar(&f.milestones, "milestone", nil, "custom event that is a milestone (with --classify; repeatable)")
	cmd.Flags().StringArrayVar(&f.findings, "finding", nil, "custom event that is a finding (with --classify; repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions(dialect.SourceNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// A digested is one file, read.
type digested struct {
	name, dialect string
	digest        fold.Digest
	bad           error // lines that could not be read
	err           error
}

func digest(ctx context.Context, s IO, f digestFlags, files []string) error {
	s.Quiet = len(files) == 1
	results := make([]*digested, len(files))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, file := range files {
		results[i] = &digested{name: file}
		slots <- struct{}{}
		wg.Go(func() {
			results[i].read(ctx, s, f, file)
			<-slots
		})
	}
	wg.Wait()
	out := bufio.NewWriter(s.Out)
	var all fold.Digest
	failed := false
	for i, r := range results {
		if r.err != nil {
			if err := s.skip(r.err); err != nil || len(files) == 1 {
				return either(err, out.Flush(), errNo)
			}
			failed = true
			continue
		}
		if r.bad != nil {
			fmt.Fprintf(s.Err, "sluice: %s: %s\n", plain.Name(r.name), oneLine(r.bad.Error()))
		}
		if err := r.write(out, f, i > 0, len(files) > 1); err != nil {
			return err
		}
		all.Merge(&r.digest)
	}
	if len(files) > 1 {
		merged := &digested{name: fmt.Sprintf("all %d files", len(files)), digest: all}
		if err := merged.write(out, f, true, true); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil || !failed {
		return err
	}
	return errNo
}

func (r *digested) read(ctx context.Context, s IO, f digestFlags, file string) {
	in, err := s.open(ctx, file, f.dialect, "--dialect")
	if err != nil {
		r.err = err
		return
	}
	defer in.close()
	r.name, r.dialect = in.name, in.dialect.Name
	if r.dialect == "native" {
		err := fold.Run(journal.Scan(in.reader, fold.Wanted(&r.digest)), &r.digest)
		var bad *fold.BadLines
		if errors.As(err, &bad) {
			r.bad = bad
		} else {
			r.err = err
		}
		return
	}
	st := dialect.NewStream(in.dialect, dialect.StreamOptions{Lean: true})
	apply := r.digest.Apply
	r.err = in.each(func(line []byte, torn bool) { st.Line(line, torn, apply) }, func() error { return nil })
	st.Close(apply)
}

func (r *digested) write(w *bufio.Writer, f digestFlags, more, named bool) error {
	sum := r.digest.Summary()
	sum.Dialect = r.dialect
	if f.json {
		return json.NewEncoder(w).Encode(struct {
			File string `json:"file"`
			fold.Summary
		}{r.name, sum})
	}
	if more {
		fmt.Fprintln(w)
	}
	if named {
		fmt.Fprintf(w, "%s\n", plain.Name(r.name))
	}
	return sum.WriteText(w)
}

// classify passes lines on with their class added.
func classify(ctx context.Context, s IO, f digestFlags, files []string) error {
	out := bufio.NewWriterSize(s.Out, 64<<10)
	for _, file := range files {
		in, err := s.open(ctx, file, f.dialect, "--dialect")
		if err != nil {
			return err
		}
		c := newClassing(in.dialect, f.milestones, f.findings)
		err = in.each(func(line []byte, torn bool) {
			class, _ := c.read(line, torn)
			out.Write(tagged(line, class))
			out.WriteByte('\n')
		}, out.Flush)
		in.close()
		if err != nil {
			return either(err, out.Flush())
		}
	}
	return out.Flush()
}
