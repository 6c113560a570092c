package modelserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// small is a script with one of everything.
const small = `
model: scripted-1
steps:
  - thinking: Hm.
    text: "So: <b>."
    calls: [{tool: bash, input: {command: ls}}, {tool: read}]
    chunk: 5
    usage: {input: 100, output: 20, reasoning: 7, cache_read: 40, cache_write: 5}
`

// What goes over the wire is in testdata, byte for byte but for times and frames.
func TestWire(t *testing.T) {
	const (
		messages = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
		vertexIn = "/v1/projects/p/locations/l/publishers/anthropic/models/m:"
	)
	for _, c := range []struct{ name, path, body string }{
		{"anthropic", "/v1/messages?beta=true", `{"model":"m",` + messages + `}`},
		{"anthropic_stream", "/v1/messages", `{"model":"m","stream":true,` + messages + `}`},
		{"chat", "/v1/chat/completions", `{"model":"m",` + messages + `}`},
		{"chat_stream", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + messages + `}`},
		{"chat_stream_unasked", "/v1/chat/completions", `{"model":"m","stream":true,` + messages + `}`},
		{"responses", "/v1/responses", `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":"hi"}`},
		{"responses_stream", "/v1/responses", `{"model":"m","stream":true,"input":"hi"}`},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
		{"gemini_stream", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
		{"gemini_array", "/v1beta/models/m:streamGenerateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
		{"bedrock", "/model/m/invoke", `{"anthropic_version":"v",` + messages + `}`},
		{"bedrock_stream", "/model/m/invoke-with-response-stream", `{"anthropic_version":"v",` + messages + `}`},
		{"vertex", vertexIn + "rawPredict", `{"anthropic_version":"v",` + messages + `}`},
		{"vertex_stream", vertexIn + "streamRawPredict", `{"anthropic_version":"v",` + messages + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, small, Options{})
			res, err := post(soon(t), srv.URL+c.path, []byte(c.body), "Anthropic-Version", "2023-06-01", "Authorization", "Bearer k")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if c.name == "bedrock_stream" {
				data = unframed(t, data)
			}
			got := "Content-Type: " + res.Header.Get("Content-Type") + "\nRequest-Id: " + res.Header.Get("Request-Id") + "\n\n" + string(times.ReplaceAll(data, []byte(`${1}0`)))
			if !strings.HasSuffix(got, "\n") {
				got += "\n"
			}
			file := filepath.Join("testdata", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("not what %s says (-file, +server); go test -update writes it anew\n%s", file, diff)
			}
		})
	}
}

var times = regexp.MustCompile(`("created(?:_at)?":)\d+`)

// unframed makes frames readable, with Amazon's own decoder.
func unframed(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r := bytes.NewReader(data)
	for {
		m, err := eventstream.NewDecoder().Decode(r, nil)
		if errors.Is(err, io.EOF) {
			return out.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range m.Headers {
			fmt.Fprintf(&out, "%s: %s\n", h.Name, h.Value)
		}
		var chunk struct{ Bytes string }
		if err := json.Unmarshal(m.Payload, &chunk); err != nil {
			t.Fatal(err)
		}
		text, err := base64.StdEncoding.DecodeString(chunk.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n\n", text)
	}
}
