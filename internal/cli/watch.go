package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/wire"
	"github.com/sluice-dev/sluice/journal"
)

type watchFlags struct {
	dialect, format                       string
	follow, forever, classify, accumulate bool
}

func watchCommand(io IO) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch [file]",
		Short: "show a stream, and follow it while it grows",
		Long: `Watch shows a stream one line per event: EVENT, its type, its session and an excerpt. With --classify,
milestones and findings are tagged. With --follow it waits for what comes, also for a file that is not there
yet, survives truncation and rotation, and ends after the event that ends the run.

--format json passes the lines on as they are; --classify then adds a field to those that have a tag.`,
		Example: `  sluice watch run.ndjson
  sluice watch --follow --classify events.ndjson
  tail -f run.ndjson | sluice watch --accumulate`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return watch(cmd.Context(), io, f, orStdin(args)[0])
		},
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "wait for what comes, until the run ends")
	cmd.Flags().BoolVar(&f.forever, "forever", false, "with --follow: go on after the run's end")
	cmd.Flags().BoolVar(&f.classify, "classify", false, "tag milestones and findings")
	cmd.Flags().BoolVar(&f.accumulate, "accumulate", false, "put the pieces of a text together, on one line that is not cut")
	cmd.Flags().StringVar(&f.format, "format", "plain", "plain or json")
	cmd.Flags().StringVar(&f.dialect, "dialect", "", "dialect of the stream (default: found out): "+sourceNames())
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"plain", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions(dialect.SourceNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func watch(ctx context.Context, s IO, f watchFlags, file string) error {
	if f.format != "plain" && f.format != "json" {
		return hinted{fmt.Errorf("--format is %q, not plain or json", f.format), "sluice watch --format json"}
	}
	if f.forever && !f.follow {
		return hinted{errors.New("--forever is for --follow"), "sluice watch --follow --forever " + file}
	}
	if f.accumulate && f.format == "json" {
		return hinted{errors.New("--accumulate works on plain text only"), "sluice watch --accumulate --format plain"}
	}
	v := &viewer{out: bufio.NewWriterSize(s.Out, 64<<10), err: s.Err, flags: f, name: file}
	if isTerminal(s.Out) && os.Getenv("NO_COLOR") == "" {
		v.colour = true
	}
	if f.dialect != "" {
		d, err := dialect.Source(f.dialect)
		if err != nil {
			return err
		}
		v.classing = newClassing(d, nil, nil)
	}
	if f.follow && file != "-" {
		return v.follow(ctx, file)
	}
	in, err := s.open(ctx, file, f.dialect, "--dialect")
	if err != nil {
		return err
	}
	defer in.close()
	v.name, v.classing = in.name, newClassing(in.dialect, nil, nil)
	err = in.each(v.show, func() error {
		if err := v.out.Flush(); err != nil {
			return err
		}
		if f.follow && !f.forever && v.stream.Ended() {
			return errSeen
		}
		return nil
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return either(err, v.flush())
}

// errSeen ends a reading whose run is over.
var errSeen = errors.New("the run is over")

// A viewer shows lines.
type viewer struct {
	*classing
	out    *bufio.Writer
	err    io.Writer
	name   string
	flags  watchFlags
	colour bool
	number int

	// What --accumulate has put together and not yet shown.
	piece struct {
		typ, session string
		class        fold.Class
		text         strings.Builder
	}
}

// grace is how long a follower waits after the run's end for what the program still has to say.
const grace = 300 * time.Millisecond

func (v *viewer) follow(ctx context.Context, file string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var over *time.Timer
	for line, err := range journal.Follow(ctx, file, journal.FollowOptions{}) {
		if err != nil {
			return either(err, v.flush())
		}
		if v.classing == nil {
			if d := dialect.Recognise(line); d != nil {
				v.classing = newClassing(d, nil, nil)
			} else {
				v.number++
				v.skipped("in no dialect that is known here")
				continue
			}
		}
		v.show(line, false)
		if err := v.out.Flush(); err != nil {
			return err
		}
		if over != nil {
			over.Stop() // the run, or the program, goes on
			over = nil
		}
		if !v.flags.forever && v.stream.Ended() {
			over = time.AfterFunc(grace, stop)
		}
	}
	return v.flush()
}

func (v *viewer) show(line []byte, torn bool) {
	v.number++
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) == 0 {
		return
	}
	class, events := v.read(line, torn)
	typ := v.typ
	if typ == "" {
		v.skipped("not a line of " + v.dialect.Name)
		return
	}
	if class == fold.Activity {
		class = ""
	}
	if v.flags.format == "json" {
		if v.flags.classify && class != "" {
			line = tagged(line, class)
		}
		v.out.Write(line)
		v.out.WriteByte('\n')
		return
	}
	piece, isPiece := textPiece(events)
	if v.flags.accumulate {
		p := &v.piece
		if p.typ != "" && (!isPiece || p.typ != typ || p.session != v.session) {
			v.endPiece()
		}
		if isPiece {
			p.typ, p.session = typ, v.session
			p.text.WriteString(piece)
			if class != "" {
				p.class = class
			}
			return
		}
	}
	v.plain(class, typ, v.session, clipped(excerpt(events)))
}

func (v *viewer) endPiece() {
	p := &v.piece
	if p.typ != "" {
		v.plain(p.class, p.typ, p.session, flat(p.text.String()))
	}
	p.typ, p.session, p.class = "", "", ""
	p.text.Reset()
}

func (v *viewer) plain(class fold.Class, typ, session, text string) {
	if v.flags.classify && class != "" {
		if v.colour {
			fmt.Fprintf(v.out, "\x1b[1m%s\x1b[0m ", class)
		} else {
			fmt.Fprintf(v.out, "%s ", class)
		}
	}
	fmt.Fprintln(v.out, strings.TrimRight(fmt.Sprintf("EVENT %s %s %s", flat(typ), flat(session), text), " "))
}

func (v *viewer) skipped(why string) {
	fmt.Fprintf(v.err, "sluice: %s:%d: skipped: %s\n", v.name, v.number, why)
}

func (v *viewer) flush() error {
	v.endPiece()
	return v.out.Flush()
}

// classing reads lines as they are told and says what class each has.
type classing struct {
	dialect    *dialect.Dialect
	stream     *dialect.Stream
	classifier fold.Classifier
	doc        wire.Doc
	session    string // of the last line that had one, or was of none
	typ        string // of the last line; empty if it had none
	events     []event.Event
}

func newClassing(d *dialect.Dialect, milestones, findings []string) *classing {
	set := func(names []string) map[string]bool {
		m := map[string]bool{}
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	return &classing{
		dialect: d, stream: dialect.NewStream(d, dialect.StreamOptions{NoOrigin: true, AsTold: true}),
		classifier: fold.Classifier{Milestones: set(milestones), Findings: set(findings)},
	}
}

// read returns the class of a line and what it says; both are good until the next.
func (c *classing) read(line []byte, torn bool) (fold.Class, []event.Event) {
	c.typ = ""
	if c.doc.Parse(bytes.TrimPrefix(line, []byte("\ufeff"))) == nil {
		c.typ = c.doc.Root().Get(c.dialect.Key()).Text()
	}
	class := fold.Activity
	c.events = c.events[:0]
	c.stream.Line(line, torn, func(e event.Event) {
		switch e.Body.(type) {
		case event.LoopStarted, event.PhaseStarted, event.PhaseEnded, event.LoopEnded: // these are of no session, unless they say so
			c.session = e.Session
		default:
			c.session = first(e.Session, c.session)
		}
		if k := c.classifier.Class(e); k == fold.Milestone || k == fold.Finding && class == fold.Activity {
			class = k
		}
		c.events = append(c.events, e)
	})
	return class, c.events
}

// tagged adds a line's class to it, and changes nothing else. A line that is no object, or has one, stays as it is.
func tagged(line []byte, class fold.Class) []byte {
	var d wire.Doc
	body := bytes.TrimRight(line, " \t\r")
	if d.Parse(bytes.TrimPrefix(body, []byte("\ufeff"))) != nil || d.Root().Kind() != wire.Object || d.Root().Get("classification").Kind() != wire.Absent {
		return line
	}
	end := len(body) - 1
	out := append([]byte(nil), body[:end]...)
	if d.Root().Len() > 0 {
		out = append(out, ',')
	}
	out = append(out, `"classification":"`...)
	out = append(out, class...)
	out = append(out, '"')
	return append(out, line[end:]...)
}
