package mcp

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/tool"
)

const (
	keepLimit  = 2 << 20   // bytes of text that are kept as they are
	excerpt    = 20_000    // bytes of head and of tail, of what is not
	imageLimit = 3_750_000 // bytes: 5 MB of base64
	partLimit  = 4 << 20   // bytes of what is not text
	treeLimit  = 256 << 10 // bytes of structured content: most servers say the same in the text
)

// A part is content that is not text, kept beside it.
type part struct {
	Type string `json:"type"` // image, audio, resource
	Mime string `json:"mime,omitempty"`
	URI  string `json:"uri,omitempty"`
	Data string `json:"data"` // base64
}

// meta is what is kept of a result beside its text.
type meta struct {
	Mime       string          `json:"mime,omitempty"`              // of the one image that it is
	Parts      []part          `json:"parts,omitempty"`             // what is not text
	Structured json.RawMessage `json:"structuredContent,omitempty"` // as the server has it
	Spill      string          `json:"spill,omitempty"`             // file with the whole text
}

// translate makes a result of a server's. What is too long for a model goes to a file.
func translate(r *sdk.CallToolResult, o Options) tool.Result {
	var (
		texts []string
		m     meta
		out   tool.Result
	)
	if r.StructuredContent != nil {
		m.Structured, _ = json.Marshal(r.StructuredContent)
	}
	whole := m.Structured
	if len(whole) > treeLimit {
		m.Structured = nil
	}
	room := partLimit
	keep := func(p part, data []byte) {
		note := fmt.Sprintf("[%s %s, %d bytes]", p.Type, oneLine(cmp.Or(p.Mime, p.URI), 80), len(data))
		if room -= len(data) * 4 / 3; room < 0 {
			texts = append(texts, note+" (too large to be kept)")
			return
		}
		p.Data = base64.StdEncoding.EncodeToString(data)
		m.Parts = append(m.Parts, p)
		texts = append(texts, note)
	}
	for _, content := range r.Content {
		switch c := content.(type) {
		case *sdk.TextContent:
			texts = append(texts, c.Text)
		case *sdk.ImageContent:
			if mime := picture(c.Data); mime != "" && len(r.Content) == 1 && !r.IsError {
				m.Mime = mime
				out.Type, out.Output = "image", base64.StdEncoding.EncodeToString(c.Data)
				out.Metadata = m.raw()
				return out
			}
			keep(part{Type: "image", Mime: c.MIMEType}, c.Data)
		case *sdk.AudioContent:
			keep(part{Type: "audio", Mime: c.MIMEType}, c.Data)
		case *sdk.ResourceLink:
			texts = append(texts, strings.TrimSpace(fmt.Sprintf("[%s](%s) %s", cmp.Or(c.Title, c.Name), c.URI, c.Description)))
		case *sdk.EmbeddedResource:
			switch res := c.Resource; {
			case res == nil:
			case res.Blob != nil:
				keep(part{Type: "resource", Mime: res.MIMEType, URI: res.URI}, res.Blob)
			default:
				texts = append(texts, res.Text)
			}
		}
	}
	text := strings.Join(texts, "\n")
	if len(r.Content) == 0 {
		text = string(whole)
	}
	if o.Clean != nil {
		text = o.Clean(text) // before it is cut: half a secret would not be found
	}
	out.Output, out.Truncated = text, len(text) > keepLimit
	if out.Truncated {
		m.Spill = save(text, o.Spill)
		out.Output = shorten(text, m.Spill)
	}
	if r.IsError {
		out.Error = cmp.Or(firstLine(text, lineLimit), "the tool says that it failed, and not why")
	}
	out.Metadata = m.raw()
	return out
}

func (m meta) raw() event.Raw {
	data, err := json.Marshal(m)
	if err != nil || string(data) == "{}" {
		return nil
	}
	return data
}

// picture says which kind of image it is, if it is one that models can see. What the server says of it does not count: a
// provider looks too, and refuses the whole request.
func picture(data []byte) string {
	if len(data) > imageLimit {
		return ""
	}
	switch mime := http.DetectContentType(data); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return mime
	}
	return ""
}

// save puts a text into a file of its own, and returns its name; empty if it cannot.
func save(text, dir string) string {
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	path := filepath.Join(dir, "output-"+strings.ToLower(rand.Text()[:12])+".txt")
	if os.WriteFile(path, []byte(text), 0o600) != nil {
		return ""
	}
	return path
}

// shorten keeps the beginning and the end of a text, and says between them where the whole is, in the words that tool.Cut
// knows.
func shorten(text, file string) string {
	head := cut(text, excerpt)
	tail := strings.ToValidUTF8(text[len(text)-excerpt:], "")
	note := fmt.Sprintf("[… %d bytes left out]", len(text)-2*excerpt)
	if file != "" {
		note = fmt.Sprintf("[… %d bytes left out; all of it is in %s]", len(text)-2*excerpt, file)
	}
	return head + "\n" + note + "\n" + tail
}
