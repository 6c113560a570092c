package cli

import (
	"io"
	"os"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// show puts the stream where --on-event says, and the run before whoever looks at stdout. If the stream goes to stdout nothing
// else does.
func (f *avenorFlags) show(o *runOptions, s *IO) (release func(), err error) {
	release = func() {}
	if f.onEvent == "-" || leadsTo(f.onEvent, s.Out) {
		return release, nil
	}
	var person event.Sink = &lastWord{w: s.Out}
	if isTerminal(s.Out) {
		person = (&runner{runOptions: runOptions{format: "text"}, io: *s}).show()
	}
	if f.onEvent == "" {
		o.shown = &aside{nil, person}
		return release, nil
	}
	out := &outlet{path: f.onEvent}
	if info, err := os.Stat(f.onEvent); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		if err := out.open(); err != nil {
			return release, err
		}
	} // a pipe is opened when there is something to say: that may wait for a reader, as the run does for a slow one
	d, err := dialect.Lookup("avenor")
	o.shown = &aside{dialect.NewWriter(out, d, o.tell), person}
	return out.close, err
}

// leadsTo says whether a path leads to what w writes to, as /dev/stdout does.
func leadsTo(path string, w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || path == "" {
		return false
	}
	there, err1 := os.Stat(path)
	here, err2 := f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(there, here)
}

// An outlet is a file that is made anew when the first is written to it.
type outlet struct {
	path string
	file *os.File
}

func (o *outlet) open() (err error) {
	o.file, err = os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	return err
}

func (o *outlet) Write(p []byte) (int, error) {
	if o.file == nil {
		if err := o.open(); err != nil {
			return 0, err
		}
	}
	return o.file.Write(p)
}

func (o *outlet) close() {
	if o.file != nil {
		o.file.Close()
	}
}

// An aside shows a run to a person as well. The run does not depend on him.
type aside struct{ stream, person event.Sink }

func (a *aside) Put(e event.Event) (err error) {
	if a.stream != nil {
		err = a.stream.Put(e)
	}
	if a.person != nil && a.person.Put(e) != nil {
		a.person = nil // he has gone
	}
	return err
}

// Recall lets the stream's counters go on after what was told before.
func (a *aside) Recall(e event.Event) {
	if a.stream != nil {
		recall(a.stream, e)
	}
}

// A lastWord writes what the agent said last, when the run is over.
type lastWord struct {
	w    io.Writer
	text string
}

func (l *lastWord) Put(e event.Event) error {
	if b, ok := e.Body.(event.Text); ok && e.Top() && !b.Partial && b.Text != "" {
		l.text = b.Text
	}
	if _, ends := event.AsRunEnd(e.Body); !ends || l.text == "" {
		return nil
	}
	_, err := io.WriteString(l.w, l.text+"\n")
	return err
}
