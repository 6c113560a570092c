package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

func modelCommand(io IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "a scripted model behind real wire formats",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(modelServeCommand(io), modelCheckCommand(io))
	for _, sub := range cmd.Commands() {
		sub.Args = hintArgs(sub.Args)
	}
	return cmd
}

type serveFlags struct{ addr, key, requests string }

func modelServeCommand(io IO) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve SCRIPT",
		Short: "answer as a script says, as if one were Anthropic, OpenAI, Google or Amazon",
		Long: `Serve answers requests of the Anthropic, OpenAI (chat and responses), Gemini, Bedrock and Vertex wire formats with
what a script says, and fails as it says. Once it listens it prints the variables that point clients at it. Each request
is one line on stderr. It ends at SIGINT or SIGTERM.

Bedrock's signatures are checked with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. How to write a script: docs/scripts.md`,
		Example: `  sluice model serve examples/scripts/hello.yaml
  sluice model serve --addr 127.0.0.1:8080 --requests requests.ndjson script.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return serve(cmd.Context(), io, f, args[0])
		},
	}
	cmd.Flags().StringVar(&f.addr, "addr", "127.0.0.1:0", "where to listen; port 0 is one that is free")
	cmd.Flags().StringVar(&f.key, "key", "", "the key that clients must show (default: any will do)")
	cmd.Flags().StringVar(&f.requests, "requests", "", "write each request to this file, one line of JSON each; keys are left out")
	return cmd
}

func modelCheckCommand(s IO) *cobra.Command {
	return &cobra.Command{
		Use:     "check SCRIPT...",
		Short:   "say what is wrong with a script",
		Example: "  sluice model check examples/scripts/hello.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var bad error
			for _, file := range args {
				m, err := script.Read(file)
				if err != nil {
					s.complain(err)
					bad = errNo
					continue
				}
				if _, err := fmt.Fprintf(s.Out, "%s: %s\n", file, summary(m)); err != nil {
					return err
				}
			}
			return bad
		},
	}
}

// summary says in a few words what a script holds.
func summary(m *script.Script) string {
	counted := func(n int, what string) string {
		if n != 1 {
			what += "s"
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	text := counted(m.Answers(), "answer")
	if m.Loop {
		text += ", over and over"
	}
	if n := len(m.Conversations); n > 0 {
		text += ", " + counted(n, "conversation")
	}
	return text
}

func serve(ctx context.Context, s IO, f serveFlags, file string) error {
	m, err := script.Read(file)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return hinted{fmt.Errorf("--addr %q is not HOST:PORT", f.addr), "sluice model serve --addr 127.0.0.1:8080 " + file}
	}
	if f.key == "" && !loopback(host) {
		return hinted{fmt.Errorf("--addr %s can be reached from elsewhere, so it needs a key", f.addr), "sluice model serve --addr " + f.addr + " --key KEY " + file}
	}
	o := modelserver.Options{Key: f.key, Log: func(e modelserver.Entry) { fmt.Fprintf(s.Err, "sluice: %s\n", oneLine(requestLine(e))) }}
	if f.requests != "" {
		out, err := os.OpenFile(f.requests, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer out.Close()
		o.Record = recorder(out, s)
	}
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: modelserver.New(m, o), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	if _, err := s.Out.Write(exports(l.Addr())); err != nil {
		return either(err, l.Close())
	}
	over := context.AfterFunc(ctx, func() { _ = srv.Close() }) // also of those that hang
	defer over()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// loopback says whether a host can be reached from this machine only. A name may be anything, but for one.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// exports are the variables that point clients at an address, as a shell reads them.
func exports(addr net.Addr) []byte {
	tcp := *addr.(*net.TCPAddr)
	if tcp.IP.IsUnspecified() {
		tcp.IP = net.IPv4(127, 0, 0, 1)
	}
	base := "http://" + tcp.String()
	return fmt.Appendf(nil, `ANTHROPIC_BASE_URL=%[1]s
OPENAI_BASE_URL=%[1]s/v1
GOOGLE_GEMINI_BASE_URL=%[1]s
ANTHROPIC_BEDROCK_BASE_URL=%[1]s
ANTHROPIC_VERTEX_BASE_URL=%[1]s/v1
`, base)
}

// requestLine tells what became of a request.
func requestLine(e modelserver.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Method, e.Path)
	if e.Format != "" {
		fmt.Fprintf(&b, ": %s", e.Format)
	}
	if e.Answer > 0 {
		fmt.Fprintf(&b, " answer %d", e.Answer)
	}
	if e.Fault != "" {
		fmt.Fprintf(&b, ", %s", e.Fault)
	}
	fmt.Fprintf(&b, ": %d in %s", e.Status, e.Took.Round(time.Millisecond))
	if e.Refused != "" {
		fmt.Fprintf(&b, ": %s", e.Refused)
	}
	return b.String()
}

// A requestRecord is a line of the file of requests.
type requestRecord struct {
	At      time.Time         `json:"at"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"` // JSON as it came, or a string
}

// recorder writes requests to a file. It complains once if it cannot.
func recorder(out io.Writer, s IO) func(modelserver.Recorded) {
	var mu sync.Mutex
	var once sync.Once
	return func(r modelserver.Recorded) {
		line := requestRecord{At: r.At.UTC(), Method: r.Method, Path: withoutKey(r.Path), Headers: map[string]string{}, Body: string(r.Body)}
		for name, values := range r.Header {
			if line.Headers[strings.ToLower(name)] = strings.Join(values, ", "); secretHeaders[name] {
				line.Headers[strings.ToLower(name)] = "(left out)"
			}
		}
		if json.Valid(r.Body) {
			line.Body = json.RawMessage(r.Body)
		}
		data, err := json.Marshal(line)
		if err == nil {
			mu.Lock()
			_, err = out.Write(append(data, '\n'))
			mu.Unlock()
		}
		if err != nil {
			once.Do(func() { s.complain(fmt.Errorf("a request could not be written: %w", err)) })
		}
	}
}

// secretHeaders carry keys.
var secretHeaders = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "X-Api-Key": true, "X-Goog-Api-Key": true, "X-Amz-Security-Token": true,
}

// withoutKey leaves out the key that a path may carry.
func withoutKey(path string) string {
	u, err := url.ParseRequestURI(path)
	if err != nil || !u.Query().Has("key") {
		return path
	}
	q := u.Query()
	q.Set("key", "(left out)")
	u.RawQuery = q.Encode()
	return u.RequestURI()
}
