package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// A prompt cache keeps what stands before each mark of a request, and serves a later one that begins with the same bytes. Every
// request after the first is served all that the one before it had marked, which is nearly all of it.
func TestPromptCacheHits(t *testing.T) {
	s, err := script.Parse([]byte("steps: [{text: Next., call: {tool: bash, input: {command: 'echo $RANDOM$RANDOM'}}, repeat: 12}, {text: Done.}]"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var bodies [][]byte
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Record: func(r modelserver.Recorded) {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, r.Body)
	}}))
	defer server.Close()
	cmd := exec.Command("sluice", "run", "--ephemeral", "--mode", "yolo", "--model", "anthropic/m", "--format", "native", "-C", t.TempDir(), strings.Repeat("Go on. ", 200))
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Clean(t.TempDir()), "ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=k", "GORACE=" + os.Getenv("GORACE")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(bodies) != 13 {
		t.Fatalf("%d requests", len(bodies))
	}
	var kept [][]byte
	for i, body := range bodies {
		prompt, marks := marked(t, body)
		best := 0
		for _, k := range kept {
			if bytes.HasPrefix(prompt, k) {
				best = max(best, len(k))
			}
		}
		if i > 0 {
			last, _ := marked(t, bodies[i-1])
			if best < len(last)*9/10 {
				t.Errorf("request %d: the cache serves %d bytes; the one before had %d", i, best, len(last))
			}
		}
		if len(marks) == 0 || len(marks) > 4 {
			t.Errorf("request %d has %d marks: one to four are allowed", i, len(marks))
		}
		for _, at := range marks {
			kept = append(kept, prompt[:at])
		}
	}
}

// marked is a request in the order in which it is cached (tools, system, messages), without its marks, and where these stood.
func marked(t *testing.T, body []byte) (prompt []byte, marks []int) {
	var q struct {
		Tools    []map[string]json.RawMessage `json:"tools"`
		System   []map[string]json.RawMessage `json:"system"`
		Messages []struct {
			Role    string                       `json:"role"`
			Content []map[string]json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	add := func(block map[string]json.RawMessage) {
		_, mark := block["cache_control"]
		delete(block, "cache_control")
		text, err := json.Marshal(block)
		if err != nil {
			t.Fatal(err)
		}
		prompt = append(prompt, text...)
		if mark {
			marks = append(marks, len(prompt))
		}
	}
	for _, b := range append(q.Tools, q.System...) {
		add(b)
	}
	for _, m := range q.Messages {
		prompt = append(prompt, m.Role...)
		for _, b := range m.Content {
			add(b)
		}
	}
	return prompt, marks
}
