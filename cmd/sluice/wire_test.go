package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
	"github.com/sluice-dev/sluice/journal"
)

// One script behind every wire format: the same events, but for names, ids, times and what a format has no word for.
func TestWireFormatsSayTheSame(t *testing.T) {
	s, err := script.Parse([]byte(`
chunk: 6
usage: {input: 120, output: 20}
steps:
  - thinking: Let me see what there is.
    text: I will look.
    calls:
      - {tool: read, input: {file_path: note.txt}}
      - {tool: nope, input: {}}
      - {tool: bash, raw: 'not JSON'}
  - text: It says hello.
`))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{AccessKey: "AKID", SecretKey: "SECRET"}))
	defer server.Close()
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "note.txt"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, tt := range []struct {
		model string
		env   []string
	}{
		{"anthropic/m", []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=k"}},
		{"openai/m", []string{"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=k"}},
		{"openai-responses/m", []string{"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=k"}},
		{"bedrock/m", []string{"ANTHROPIC_BEDROCK_BASE_URL=" + server.URL, "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=AKID", "AWS_SECRET_ACCESS_KEY=SECRET"}},
		{"vertex/m", []string{"ANTHROPIC_VERTEX_BASE_URL=" + server.URL, "VERTEX_PROJECT_ID=p", "VERTEX_REGION=r", "GOOGLE_APPLICATION_CREDENTIALS=" + account(t, server.URL)}},
	} {
		t.Run(tt.model, func(t *testing.T) {
			home := t.TempDir()
			cmd := exec.Command("sluice", "run", "--format", "native", "-C", work, "--model", tt.model, "--thinking", "low", "What does the note say?")
			cmd.Env = append(tt.env, "HOME="+home, "PATH="+os.Getenv("PATH"), "GORACE="+os.Getenv("GORACE"))
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, stderr.String(), stdout.String())
			}
			got := plain(t, stdout.Bytes())
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// plain tells a stream without names, ids and times, its deltas and what not every format can say left out.
func plain(t *testing.T, stream []byte) (lines []string) {
	calls := map[string]string{}
	for l, err := range journal.Scan(bytes.NewReader(stream), nil) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := l.Event()
		if err != nil {
			t.Fatal(err)
		}
		line := string(e.Kind)
		if e.Call != "" {
			if calls[e.Call] == "" {
				calls[e.Call] = fmt.Sprintf("call %d", len(calls)+1)
			}
			line += " " + calls[e.Call]
		}
		switch b := e.Body.(type) {
		case event.TextDelta, event.ThoughtDelta:
			continue // how many there are is the format's choice
		case event.Text:
			line += " " + b.Text
		case event.Thought:
			line += " " + b.Text
		case event.ToolCalled:
			line += " " + b.Name + " " + string(b.Input)
		case event.TurnEnded:
			in, _ := b.Usage.InputAll()
			out, _ := b.Usage.OutputAll()
			line += fmt.Sprintf(" %s %d %d", b.Finish, in, out)
		}
		if end, ok := event.AsToolEnd(e.Body); ok {
			line += " " + end.Output + end.Error
		}
		if end, ok := event.AsRunEnd(e.Body); ok {
			line += " " + string(end.Outcome)
		}
		lines = append(lines, line)
	}
	return lines
}

// account writes the key file of a service account whose tokens come from the server.
func account(t *testing.T, url string) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "client_email": "a@p.example", "token_uri": url + "/token", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
