package secret

import "io"

// Writer returns a writer that passes on to w what is written to it, without the secrets in it, however it is cut into pieces. Close
// passes on what it still holds, and leaves w open. It is for output that is cut short or kept in a file before it becomes an
// event: half a secret is found only where the other half is.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser {
	if r.finder == nil {
		return keepOpen{w}
	}
	return &writer{finder: r.finder, to: w}
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

type writer struct {
	finder *finder
	to     io.Writer
	rest   string
}

func (w *writer) Write(p []byte) (int, error) {
	out, rest := w.finder.scan(w.rest+string(p), false)
	w.rest = rest
	if err := w.pass(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error {
	out := w.finder.whole(w.rest)
	w.rest = ""
	return w.pass(out)
}

func (w *writer) pass(text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w.to, text)
	return err
}
