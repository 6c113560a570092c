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

// open opens a file, or stdin for "-", and finds out its dialect if name is empty; flag is how a user would say it.
func (s IO) open(ctx context.Context, file, name, flag string) (*input, error) {
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
		if st, err := f.Stat(); err == nil && st.IsDir() {
			f.Close()
			return nil, hinted{fmt.Errorf("%s is a folder", file), "name a file in it"}
		}
		r, in.close = f, f.Close
	}
	if endless(r, s.Out) {
		in.close()
		return nil, hinted{fmt.Errorf("%s is also what is written to: it would never end", in.name), "write to another file"}
	}
	var err error
	in.reader = s.newProgress(ctx, in.name, r)
	if name != "" {
		in.dialect, err = dialect.Source(name)
	} else {
		in.dialect, in.reader, err = dialect.Open(in.reader)
	}
	if err != nil {
		in.close()
		if errors.Is(err, dialect.ErrUnknown) {
			err = unknown(in.name, flag, in.reader)
		}
		return nil, err
	}
	return in, nil
}

// endless says whether what is written comes in again.
func endless(r io.Reader, w io.Writer) bool {
	from, ok := r.(*os.File)
	to, also := w.(*os.File)
	if !ok || !also {
		return false
	}
	x, err := from.Stat()
	y, cannot := to.Stat()
	return err == nil && cannot == nil && x.Mode().IsRegular() && x.Size() > 0 && os.SameFile(x, y)
}

// unknown says why a stream was not recognised, as far as its beginning tells.
func unknown(name, flag string, r io.Reader) error {
	head := make([]byte, 2)
	switch n, _ := io.ReadFull(r, head); {
	case n == 0:
		return hinted{fmt.Errorf("%s is empty", name), "a stream has at least one line; with " + flag + " NAME an empty one is taken as it is"}
	case string(head[:n]) == "\x1f\x8b":
		return hinted{fmt.Errorf("%s is compressed", name), "zcat " + name + " | sluice …"}
	case string(head[:n]) == "\xff\xfe", string(head[:n]) == "\xfe\xff": // as PowerShell writes what it redirects
		return hinted{fmt.Errorf("%s is UTF-16, and not UTF-8", name), "iconv -f UTF-16 -t UTF-8 " + name + " | sluice …"}
	}
	return hinted{fmt.Errorf("%s: %w", name, dialect.ErrUnknown), flag + " NAME names it: " + sourceNames()}
}

// each reads the lines, and whenever the next one must be waited for calls idle: what was told so far should be shown.
func (in *input) each(line func(line []byte, torn bool), idle func() error) error {
	lines := wire.NewLines(in.reader)
	for {
		l, err := lines.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
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

// newProgress tells how far r is, if stderr is a terminal and nothing else is written there meanwhile.
func (s IO) newProgress(ctx context.Context, name string, r io.Reader) io.Reader {
	p := &progress{ctx: ctx, r: r, name: name}
	if isTerminal(s.Err) && !isTerminal(r) && (s.Quiet || !isTerminal(s.Out)) {
		p.w, p.shown = s.Err, time.Now()
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
