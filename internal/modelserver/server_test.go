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
