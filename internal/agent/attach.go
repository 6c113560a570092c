package agent

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/event"
)

// attachLimit is how large a file of a prompt may be: what a request can carry.
const attachLimit = 20 << 20

// Attach reads a file that a prompt names.
func Attach(path string) (event.Attachment, error) {
	info, err := os.Stat(path)
	if err != nil {
		return event.Attachment{}, err
	}
	if !info.Mode().IsRegular() {
		return event.Attachment{}, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() > attachLimit {
		return event.Attachment{}, fmt.Errorf("%s is too large to attach: %d MB, and %d are the limit", path, info.Size()>>20, attachLimit>>20)
	}
	file, err := os.Open(path)
	if err != nil {
		return event.Attachment{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, attachLimit))
	if err != nil {
		return event.Attachment{}, err
	}
	a := event.Attachment{Path: path, Type: http.DetectContentType(data)}
	a.Type, _, _ = strings.Cut(a.Type, ";")
	if strings.HasPrefix(a.Type, "text/") && utf8.Valid(data) {
		a.Text = string(data)
	} else {
		a.Data = base64.StdEncoding.EncodeToString(data)
	}
	return a, nil
}

func attach(paths []string) (list []event.Attachment, problems []error) {
	for _, p := range paths {
		a, err := Attach(p)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, a)
	}
	return list, problems
}
