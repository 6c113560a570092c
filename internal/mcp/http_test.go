package mcp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func handler(t *testing.T, s *sdk.Server) http.Handler {
	t.Cleanup(func() {
		for ss := range s.Sessions() {
			ss.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

// listen serves until the test is over, and returns the address.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

func TestHeadersGoHomeOnly(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var elsewhere []string
	other := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		elsewhere = append(elsewhere, r.Header.Get("Authorization"), r.Header.Get("X-Key"))
		w.WriteHeader(http.StatusTeapot)
	}))
	server := handler(t, good())
	home := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Method+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")] = true
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	away := listen(t, http.RedirectHandler(other, http.StatusTemporaryRedirect))
	headers := map[string]string{"Authorization": "Bearer t", "X-Key": "k"}
	b := connect(t, Options{}, Server{Name: "s", URL: home, Headers: headers}, Server{Name: "away", URL: away, Headers: headers})
	b.run("s_echo", "{}")
	b.Hub.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 3 || !seen["POST Bearer t k"] || !seen["GET Bearer t k"] || !seen["DELETE Bearer t k"] {
		t.Errorf("headers at home: %v", seen)
	}
	if len(elsewhere) == 0 || strings.Join(elsewhere, "") != "" {
		t.Errorf("headers elsewhere: %q", elsewhere)
	}
	if st := b.Status()[1]; st.State != Failed {
		t.Errorf("%+v", st)
	}
}

func TestAddressesThatFail(t *testing.T) {
	silent := make(chan struct{})
	handle := func(f http.HandlerFunc) string { return listen(t, f) }
	servers := []Server{
		{Name: "auth", URL: handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"who are you?"}}`)
		})},
		{Name: "html", URL: handle(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") })},
		{Name: "garbage", URL: handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{nonsense")
		})},
		{Name: "stream", URL: handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: nonsense\n\n")
		})},
		{Name: "cut", URL: handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": hello\n\n")
		})},
		{Name: "missing", URL: handle(http.NotFound)},
		{Name: "broken", URL: handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })},
		{Name: "endless", URL: handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for chunk := []byte(strings.Repeat(" ", 1<<20)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})},
		{Name: "silent", StartTimeout: 300 * time.Millisecond, URL: handle(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-silent:
			case <-r.Context().Done():
			}
		})},
	}
	want := map[string]string{
		"auth":    "it does not let us in (401 Unauthorized): set an Authorization header for it",
		"html":    `unsupported content type "text/html"`,
		"garbage": "failed to decode response", "stream": "failed to decode event", "cut": "request terminated without response",
		"missing": "Not Found", "broken": "Internal Server Error", "endless": "failed to read body: the answer has more than 16 MB",
		"silent": "it did not answer within 300ms",
	}
	t.Cleanup(func() { close(silent) })
	b := connect(t, Options{}, servers...)
	for _, s := range b.Status() {
		if s.State != Failed || !strings.HasPrefix(s.Err, want[s.Name]) || s.Took > 20*time.Second {
			t.Errorf("%+v, want %q", s, want[s.Name])
		}
		b.await("error mcp " + s.Name + ": MCP server " + s.Name + " is not there: ")
	}
}

// A server that forgot us is asked to know us again.
func TestSessionIsLost(t *testing.T) {
	var mu sync.Mutex
	current := handler(t, good())
	b := connect(t, Options{}, Server{Name: "s", URL: listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := current
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))})
	mu.Lock()
	current = handler(t, good())
	mu.Unlock()
	if r := b.run("s_echo", "{}"); !strings.Contains(r.Error, "session not found") {
		t.Errorf("%+v", r)
	}
	b.await("error mcp s: MCP server s is gone: ")
	if r := b.run("s_echo", "{}"); r.Error != "" {
		t.Errorf("the next call: %+v", r)
	}
}

// The side stream is optional: the server is there without it, when it does not begin, and when it ends.
func TestSideStream(t *testing.T) {
	t.Parallel()
	server := handler(t, good())
	for name, side := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"silent":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": hello\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 100)
			url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					asked <- struct{}{}
					side(w, r)
					return
				}
				server.ServeHTTP(w, r)
			}))
			b := connect(t, Options{}, Server{Name: "s", URL: url})
			if r := b.run("s_echo", "{}"); r.Error != "" {
				t.Errorf("%+v", r)
			}
			<-asked
			if name == "short" {
				<-asked // again
			}
			if r := b.run("s_echo", "{}"); r.Error != "" || len(b.told()) > 0 {
				t.Errorf("%+v %q", r, b.told())
			}
		})
	}
}

func TestAddressGoesAway(t *testing.T) {
	s := httptest.NewServer(handler(t, good()))
	b := connect(t, Options{}, Server{Name: "s", URL: s.URL + "/?key=secret"})
	s.CloseClientConnections()
	s.Close()
	b.run("s_echo", "{}") // it may find a connection that it takes for open
	if r := b.run("s_echo", "{}"); !strings.HasPrefix(r.Error, "MCP server s failed the call: dial tcp 127.0.0.1:") || strings.Contains(r.Error, "secret") {
		t.Errorf("%+v", r)
	}
}
