package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/internal/plain"
)

// A Reply is an answer to a question that is out as a file.
type Reply struct {
	Base    string // as the run was given it
	Request string // empty: the oldest open one
	Option  string
	Message string
	Outcome string // selected or cancelled; empty means selected
	Force   bool   // replace an answer that is there
}

// ErrRefused says that a reply cannot be given as it was said. Anything else is the system's fault.
var ErrRefused = errors.New("not answered")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// Send puts the answer where the run finds it. An answer that is there already is an error, unless Force is set.
func (r Reply) Send() error {
	if r.Outcome == "" {
		r.Outcome = Selected
	}
	switch {
	case r.Outcome != Selected && r.Outcome != Cancelled:
		return refused("there is no outcome %q: it is selected or cancelled", r.Outcome)
	case r.Option == "" && r.Outcome == Selected:
		return refused("no option is named: add --option ID")
	case r.Base == "":
		return refused("nobody said which question: name the base of its files")
	case len(r.Message) > maxMessage || !utf8.ValidString(r.Message):
		return refused("a message is UTF-8 and has at most %d bytes", maxMessage)
	}
	path := r.Base + ".req"
	if r.Request != "" {
		path = r.Base + "." + fileName(r.Request) + ".req"
	}
	q, err := readRequest(path)
	if err != nil {
		return err
	}
	if r.Request != "" && q.RequestID != r.Request {
		return refused("%s is about request %q", plain.Name(path), q.RequestID)
	}
	if err := r.fits(q.Options); err != nil {
		return err
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(response{Outcome: r.Outcome, RequestID: q.RequestID, OptionID: r.Option, Message: r.Message}); err != nil {
		return err
	}
	return r.put(path+".response", body.Bytes())
}

func readRequest(path string) (q request, err error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return q, refused("there is no %s: nothing is asked, or it has been answered", plain.Name(path))
	}
	if err != nil {
		return q, err
	}
	defer root.Close()
	data, err := plain.Read(root, filepath.Base(path), 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return q, refused("there is no %s: nothing is asked, or it has been answered", plain.Name(path))
	}
	if err != nil {
		return q, fmt.Errorf("%s: %w", plain.Name(path), err)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return q, refused("%s is no question: %v", plain.Name(path), err)
	}
	return q, nil
}

// fits says whether the question offers what the reply chooses.
func (r Reply) fits(options []Option) error {
	if r.Option == "" {
		return nil
	}
	var ids []string
	for _, o := range options {
		if o.ID != "" {
			ids = append(ids, o.ID)
		}
	}
	if !slices.Contains(ids, r.Option) {
		return refused("the question has no option %q: it has %s", r.Option, strings.Join(ids, ", "))
	}
	if i := slices.IndexFunc(options, func(o Option) bool { return o.ID == r.Option }); options[i].RequiresMessage && r.Message == "" {
		return refused("option %q wants a message: add --message TEXT", r.Option)
	}
	return nil
}

// put writes the answer. A hard link is refused where something is, so that of two who answer at once one is told.
func (r Reply) put(path string, body []byte) error {
	if r.Force {
		return put(path, body)
	}
	tmp, err := draft(path, body)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	err = os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		return refused("%s is there already: add --force to replace it", plain.Name(path))
	}
	return err
}
