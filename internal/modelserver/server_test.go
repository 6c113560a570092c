package modelserver

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server of its own for a script.
func serve(t *testing.T, text string, o Options) *httptest.Server {
	t.Helper()
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(New(s, o))
	t.Cleanup(srv.Close)
	return srv
}

// soon is a context that ends long after any of these tests should.
func soon(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(stop)
	return ctx
}

// story is a script with all that an answer can have.
const story = `
model: scripted-1
chunk: 3
steps:
  - content:
      - thinking: Let me see — 日本.
      - text: "I will <look> & see.\n"
      - call: {tool: bash, input: {command: "ls -l | wc"}}
      - call: {tool: read, input: {path: a.txt}}
    usage: {input: 100, output: 20, reasoning: 7, cache_read: 40, cache_write: 5}
  - text: Done.
    usage: {input: 11, output: 2}
`
