package secret

import (
	"io"
	"sync"
)

// Writer returns a writer that passes on to w what is written, without the secrets in it. What may be the beginning of a secret
// is held back until more comes; Close passes it on, and does not close w. It may be used by several goroutines.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &writer{finder: r.finder, to: w} }

type writer struct {
	finder *finder

	mu   sync.Mutex
	to   io.Writer
	held string
}

func (w *writer) Write(p []byte) (int, error) {
	if w.finder == nil {
		return w.to.Write(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out, rest := w.finder.scan(w.held+string(p), false)
	w.held = rest
	if out == "" {
		return len(p), nil
	}
	_, err := io.WriteString(w.to, out)
	return len(p), err
}

func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == "" {
		return nil
	}
	_, err := io.WriteString(w.to, w.finder.whole(w.held))
	w.held = ""
	return err
}
