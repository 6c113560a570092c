package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

const (
	readLines = 2000           // lines of a file that are shown unless more are asked for
	lineBytes = 2000           // of a line
	readBytes = 50_000         // of a file, at once
	countTo   = 64 << 20       // how far lines are counted that are not shown
	maxImage  = 3_750_000      // bytes: 5 MB of base64
	sniffed   = 8 << 10        // bytes that tell what a file is
	ellipsis  = "… [line cut]" // where a line is too long
)

// read shows a file.
type read struct{ w *Workspace }

func (read) Spec() Spec {
	return Spec{
		Name:  "read",
		Class: event.ClassInfo,
		Description: fmt.Sprintf("Reads a file. Text comes with the number of each line and a tab in front of it, which are not part of the file; "+
			"at most %d lines and %d bytes at once: go on with offset. Images (PNG, JPEG, GIF, WebP) are shown as such.", readLines, readBytes),
		Schema: event.Raw(`{"type":"object","properties":{` +
			`"file_path":{"type":"string","description":"The file, from the workspace or absolute."},` +
			`"offset":{"type":"integer","minimum":1,"description":"The first line to show; 1 if absent."},` +
			`"limit":{"type":"integer","minimum":1,"description":"How many lines to show."}},` +
			`"required":["file_path"]}`),
	}
}

func (t read) Plan(input event.Raw) (Plan, error) {
	var a struct {
		Path   string `json:"file_path"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}
	if err := decode(input, &a, "file_path"); err != nil {
		return Plan{}, err
	}
	p, err := t.w.resolve(a.Path)
	if err != nil {
		return Plan{}, err
	}
	if a.Offset < 0 || a.Limit < 0 {
		return Plan{}, errors.New("offset and limit count lines from 1")
	}
	a.Offset = max(a.Offset, 1)
	if a.Limit == 0 {
		a.Limit = readLines
	}
	return Plan{
		Title:  p.target,
		Access: p.access("read", event.ClassInfo),
		Run: func(ctx context.Context, _ func(string)) Result {
			r, err := t.run(ctx, p, a.Offset, a.Limit)
			if err != nil {
				return Result{Error: fmt.Sprintf("%s: %v", p.target, err)}
			}
			return r
		},
	}, nil
}

func (t read) run(ctx context.Context, p place, offset, limit int) (Result, error) {
	f, info, err := t.w.file(p)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, errors.New("there is no such file: look for it with glob")
	}
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(&patient{ctx, f}, 64<<10)
	head, err := in.Peek(sniffed)
	if err != nil && err != io.EOF {
		return Result{}, plain(err)
	}
	if mime := imageType(head); mime != "" {
		return image(in, info, p, mime)
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return Result{}, fmt.Errorf("it is a binary file of %d bytes: look at it with a command, if there is one for its kind", info.Size())
	}
	if len(head) == 0 {
		return Result{Output: "(the file is empty)"}, nil
	}
	return numbered(in, offset, limit)
}

// patient reads until ctx is over.
type patient struct {
	ctx context.Context
	f   *os.File
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.f.Read(b)
}

// numbered shows lines as cat -n does. Memory grows with what is shown, not with the file or its lines.
func numbered(in *bufio.Reader, offset, limit int) (Result, error) {
	var out strings.Builder
	var n, last int // lines so far, and the last one that is shown
	var read int    // bytes
	var buf []byte
	for {
		line, more, size, err := nextLine(in, buf)
		buf = line
		if err != nil && err != io.EOF {
			return Result{}, plain(err)
		}
		if size == 0 {
			break
		}
		n++
		read += size
		if n < offset {
			continue
		}
		full := n >= offset+limit || out.Len() > 0 && out.Len()+len(line) > readBytes
		if full || last != 0 && n > last+1 { // nothing is left out between two lines that are shown
			if read > countTo {
				return Result{Output: out.String() + fmt.Sprintf("\n(lines %d to %d; there are more: go on with offset %d)\n", offset, last, last+1)}, nil
			}
			continue
		}
		last = n
		fmt.Fprintf(&out, "%6d\t%s", n, strings.ToValidUTF8(string(line), "\uFFFD"))
		switch {
		case more:
			out.WriteString(ellipsis + "\n")
		case line[len(line)-1] != '\n':
			out.WriteByte('\n')
		}
	}
	switch {
	case last == 0:
		return Result{}, fmt.Errorf("it has only %d lines: there is no line %d", n, offset)
	case last < n:
		fmt.Fprintf(&out, "\n(lines %d to %d of %d; go on with offset %d)\n", offset, last, n, last+1)
	}
	return Result{Output: out.String()}, nil
}

// nextLine reads a line with its newline, into buf. If it is longer than anyone is shown, the rest is skipped. size is how long
// it was.
func nextLine(in *bufio.Reader, buf []byte) (line []byte, cut bool, size int, err error) {
	line = buf[:0]
	for {
		piece, err := in.ReadSlice('\n')
		size += len(piece)
		if room := lineBytes - len(line); len(piece) > room && !cut {
			line = append(line, piece[:room]...)
			line, cut = line[:wholeRunes(line)], true
		} else if !cut {
			line = append(line, piece...)
		}
		if err != bufio.ErrBufferFull {
			return line, cut, size, err
		}
	}
}

// imageType says which kind of image it is, if it is one that models can see.
func imageType(head []byte) string {
	starts := func(s string) bool { return bytes.HasPrefix(head, []byte(s)) }
	switch {
	case starts("\x89PNG\r\n\x1a\n"):
		return "image/png"
	case starts("\xff\xd8\xff"):
		return "image/jpeg"
	case starts("GIF87a"), starts("GIF89a"):
		return "image/gif"
	case starts("RIFF") && len(head) >= 12 && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

func image(in io.Reader, info fs.FileInfo, p place, mime string) (Result, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxImage+1))
	if err != nil {
		return Result{}, plain(err)
	}
	if len(data) > maxImage {
		return Result{}, fmt.Errorf("the image has %d bytes, more than the %d that a model can be shown: make it smaller", info.Size(), maxImage)
	}
	return Result{
		Type: "image", Output: base64.StdEncoding.EncodeToString(data),
		Metadata: metadata(map[string]string{"file_path": p.target, "mime": mime}),
	}, nil
}
