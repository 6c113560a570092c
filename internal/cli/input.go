package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/wire"
)

// An input is a stream that a command reads: a file, or stdin.
type input struct {
	name    string
	dialect *dialect.Dialect
	reader  io.Reader
	close   func() error
}

// open opens a file, or stdin for "-", and finds out its dialect if name is empty.
func (s IO) open(ctx context.Context, file, name string) (*input, error) {
	in := &input{name: file, close: func() error { return nil }}
	r := s.In
	if file == "-" {
		in.name = "stdin"
		if isTerminal(s.In) {
			fmt.Fprintln(s.Err, "sluice: reading from the terminal; end with ctrl-d, or name a file")
		}
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		r, in.close = f, f.Close
	}
	var err error
	in.reader = newProgress(ctx, s.Err, in.name, r)
	if name != "" {
		in.dialect, err = dialect.Lookup(name)
	} else {
		in.dialect, in.reader, err = dialect.Open(in.reader)
	}
	if err != nil {
		in.close()
		if errors.Is(err, dialect.ErrUnknown) {
			err = hinted{fmt.Errorf("%s: %w", in.name, err), "name its dialect: " + dialectNames()}
		}
		return nil, err
	}
	return in, nil
}

// each reads the lines, and whenever the next one must be waited for calls idle: what was told so far should be shown.
func (in *input) each(line func(line []byte, torn bool), idle func() error) error {
	lines := wire.NewLines(in.reader)
	for {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line(l, lines.Torn())
		if !lines.Buffered() {
			if err := idle(); err != nil {
				return err
			}
		}
	}
}

// orStdin is what a command reads when no file is named.
func orStdin(files []string) []string {
	if len(files) == 0 {
		return []string{"-"}
	}
	return files
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A progress tells on a terminal how far a long reading is. In a pipe it is silent.
type progress struct {
	ctx   context.Context
	r     io.Reader
	w     io.Writer
	name  string
	size  int64 // 0: not known
	read  int64
	shown time.Time
	any   bool
}

const progressEvery = 500 * time.Millisecond

func newProgress(ctx context.Context, w io.Writer, name string, r io.Reader) io.Reader {
	p := &progress{ctx: ctx, r: r, name: name}
	if isTerminal(w) && !isTerminal(r) {
		p.w, p.shown = w, time.Now()
		if f, ok := r.(*os.File); ok {
			if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
				p.size = st.Size()
			}
		}
	}
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	p.read += int64(n)
	if p.w == nil {
		return n, err
	}
	if err != nil && p.any {
		fmt.Fprint(p.w, "\r\x1b[K")
	} else if now := time.Now(); err == nil && now.Sub(p.shown) > progressEvery {
		p.shown, p.any = now, true
		if p.size > 0 {
			fmt.Fprintf(p.w, "\r\x1b[Ksluice: %s: %d %%, %d MB", p.name, 100*p.read/p.size, p.read>>20)
		} else {
			fmt.Fprintf(p.w, "\r\x1b[Ksluice: %s: %d MB", p.name, p.read>>20)
		}
	}
	return n, err
}
