package provider

import (
	"bytes"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file has what every wire format says of a history in the same words.

// seal marks a signature with the format that made it, so that it is sent back only to where it came from: a session may
// go on with another model.
func seal(format, signature string) string {
	if signature == "" {
		return ""
	}
	return format + ":" + signature
}

// unseal returns a signature as the format made it, if it did.
func unseal(format, signature string) (string, bool) {
	return strings.CutPrefix(signature, format+":")
}

// summary is what a model is told of the history that a compaction took away.
func summary(c event.Compacted) string {
	return "This is a summary of the conversation so far:\n\n" + c.Summary
}

// attachment is what a model is told of a file that it can read as text, or cannot see at all.
func attachment(a event.Attachment) string {
	if a.Data != "" && a.Text == "" {
		return "The file " + a.Path + " (" + a.Type + ") was attached, and cannot be shown."
	}
	return "The file " + a.Path + " was attached:\n\n" + a.Text
}

// result is what a model is told of a call's end. It is never empty: not every server takes an empty one.
func result(e event.ToolEnd) string {
	switch {
	case e.Type == "image":
		return "(an image, which cannot be shown)"
	case e.Output != "" && e.Error != "":
		return e.Output + "\n\n" + e.Error
	case e.Output+e.Error != "":
		return e.Output + e.Error
	}
	return "(no output)"
}

// picture is the image that a call ended with, base64, and its MIME type.
func picture(e event.ToolEnd) (mime, data string, ok bool) {
	if e.Type != "image" || e.Output == "" {
		return "", "", false
	}
	var meta struct {
		Mime string `json:"mime"`
	}
	_ = wire.Unmarshal(e.Metadata, &meta)
	return meta.Mime, e.Output, seen(meta.Mime)
}

// seen says whether models can see images of the type.
func seen(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// arguments are a call's arguments as an object, which is what servers take. What is none is kept inside one.
func arguments(input event.Raw) []byte {
	text := bytes.TrimSpace(input)
	switch {
	case len(text) == 0 || string(text) == "null":
		return []byte("{}")
	case text[0] == '{' && wire.Valid(text):
		return text
	}
	return append(wire.AppendRaw([]byte(`{"_raw":`), text), '}')
}
