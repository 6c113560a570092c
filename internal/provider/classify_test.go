package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestStatusError(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		header map[string]string
		body   string
		class  string
		code   string
		says   string
		final  bool
	}{
		"bad":                   {status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: required"}}`, class: Invalid, code: "invalid_request_error", says: "max_tokens: required"},
		"an image too large":    {status: 400, body: `{"error":{"type":"invalid_request_error","message":"image exceeds 5 MB maximum: 6 MB > 5 MB"}}`, class: Invalid, code: "invalid_request_error"},
		"key":                   {status: 401, body: `{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}`, class: Auth, code: "invalid_api_key"},
		"may not":               {status: 403, body: `{"message":"not authorized"}`, header: map[string]string{"X-Amzn-Errortype": "AccessDeniedException:http://x"}, class: Auth, code: "AccessDeniedException", says: "not authorized"},
		"pay":                   {status: 402, body: `{"error":{"type":"billing_error","message":"no credit"}}`, class: Invalid, code: "billing_error", final: true},
		"no such model":         {status: 404, body: `{"error":"model 'x' not found"}`, class: Invalid, says: "model 'x' not found"},
		"timeout":               {status: 408, class: Server, says: "Request Timeout"},
		"conflict":              {status: 409, class: Server},
		"too large":             {status: 413, body: `{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, class: Overflow, code: "request_too_large"},
		"a schema":              {status: 422, body: `{"detail":[{"loc":["body"],"msg":"field required"}]}`, class: Invalid, says: `[{"loc":["body"],"msg":"field required"}]`},
		"often":                 {status: 429, body: `{"error":{"type":"rate_limit_error","message":"slow down"}}`, class: RateLimit, code: "rate_limit_error"},
		"quota":                 {status: 429, body: `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your quota"}}`, class: RateLimit, code: "insufficient_quota", final: true},
		"often, with a context": {status: 429, body: `{"error":{"message":"exceeds the limit for context length beta"}}`, class: RateLimit},
		"broken":                {status: 500, body: "<html><h1>oops</h1></html>", class: Server, says: "Internal Server Error"},
		"gateway":               {status: 502, class: Server},
		"full":                  {status: 503, class: Overloaded},
		"overloaded":            {status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, class: Overloaded, code: "overloaded_error"},
		"do not retry":          {status: 500, header: map[string]string{"X-Should-Retry": "false"}, class: Server, final: true},
		"do retry":              {status: 500, header: map[string]string{"X-Should-Retry": "true"}, class: Server},
		"elsewhere":             {status: 307, header: map[string]string{"Location": "https://other.example/v1"}, class: Invalid, says: "https://other.example/v1"},
		"google":                {status: 400, body: `[{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}]`, class: Invalid, code: "INVALID_ARGUMENT", says: "invalid argument"},

		"overflow: anthropic":        {status: 400, body: `{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, class: Overflow, code: "invalid_request_error"},
		"overflow: anthropic output": {status: 400, body: "{\"error\":{\"type\":\"x\",\"message\":\"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000\"}}", class: Overflow, code: "x"},
		"overflow: openai":           {status: 400, body: `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`, class: Overflow, code: "context_length_exceeded"},
		"overflow: responses":        {status: 400, body: `{"error":{"message":"Your input exceeds the context window of this model."}}`, class: Overflow},
		"overflow: bedrock":          {status: 400, body: `{"message":"Input is too long for requested model."}`, class: Overflow},
		"overflow: gemini":           {status: 400, body: `{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}`, class: Overflow},
		"overflow: llama.cpp":        {status: 400, body: `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, class: Overflow, code: "exceed_context_size_error"},
		"overflow: groq":             {status: 413, body: `{"error":{"message":"Please reduce the length of the messages or completion."}}`, class: Overflow},
		"overflow: xai":              {status: 400, body: `{"error":"This model's maximum prompt length is 131072 but the request contains 150000 tokens."}`, class: Overflow},
		"overflow: mistral":          {status: 400, body: `{"message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}`, class: Overflow},
		"overflow: lm studio":        {status: 500, body: `{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`, class: Overflow},
		"overflow: together":         {status: 422, body: "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097\"}}", class: Overflow},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range tt.header {
				h.Set(k, v)
			}
			e := statusError(tt.status, h, []byte(tt.body), nil)
			if e.Class != tt.class || e.Code != tt.code || e.Status != tt.status || e.Final != tt.final || !strings.Contains(e.Message, tt.says) || e.Message == "" {
				t.Errorf("%+v", e)
			}
			if e.Final && e.Retryable() {
				t.Error("it is final, and retryable")
			}
		})
	}
}

func TestStreamError(t *testing.T) {
	for code, class := range map[string]string{
		"overloaded_error": Overloaded, "rate_limit_error": RateLimit, "api_error": Server, "authentication_error": Auth, "permission_error": Auth,
		"invalid_request_error": Invalid, "not_found_error": Invalid, "timeout_error": Server, "request_too_large": Overflow, "": Server, "new_error": Server,
		"throttlingException": RateLimit, "serviceUnavailableException": Overloaded, "internalServerException": Server, "modelStreamErrorException": Server,
		"validationException": Invalid, "context_length_exceeded": Overflow, "server_error": Server, "rate_limit_exceeded": RateLimit,
	} {
		if e := streamError(code, "words"); e.Class != class || e.Code != code || e.Message != "words" {
			t.Errorf("%s: %+v, want %s", code, e, class)
		}
	}
	if e := streamError("validationException", "Input is too long for requested model"); e.Class != Overflow {
		t.Errorf("%+v", e)
	}
	if e := streamError("insufficient_quota", ""); e.Class != RateLimit || e.Retryable() || e.Message != "insufficient_quota" {
		t.Errorf("%+v", e)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"none":             {},
		"seconds":          {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"part of a second": {map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond},
		"a date":           {map[string]string{"Retry-After": "Sat, 22 Aug 2026 10:00:30 GMT"}, 30 * time.Second},
		"a date gone by":   {map[string]string{"Retry-After": "Sat, 22 Aug 2026 09:00:30 GMT"}, 0},
		"milliseconds":     {map[string]string{"retry-after-ms": "1500"}, 1500 * time.Millisecond},
		"both":             {map[string]string{"retry-after-ms": "20", "Retry-After": "1"}, 20 * time.Millisecond},
		"negative":         {map[string]string{"Retry-After": "-5"}, 0},
		"nonsense":         {map[string]string{"Retry-After": "soon"}, 0},
		"not a number":     {map[string]string{"Retry-After": "NaN"}, 0},
		"for ever":         {map[string]string{"Retry-After": "1e300"}, 30 * 24 * time.Hour},
	} {
		h := http.Header{}
		for k, v := range tt.header {
			h.Set(k, v)
		}
		if got := retryAfter(h, now); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	e := statusError(429, http.Header{"Retry-After": {"3"}}, nil, nil)
	if e.After != 3*time.Second {
		t.Errorf("%+v", e)
	}
}

// A message is one line, not long, and has no key in it, also where it is cut.
func TestMessagesAreClean(t *testing.T) {
	key := "sk-" + strings.Repeat("secret", 10)
	body := `{"error":{"code":"` + key + `","message":"a\nb\tc\u0007\u001b[31m ` + strings.Repeat("ä", 250) + " " + key + strings.Repeat("x", 400) + `"}}`
	e := statusError(400, nil, []byte(body), []string{"", "x", key})
	if strings.Contains(e.Message+e.Code, "secret") || strings.ContainsAny(e.Message, "\n\t\x07\x1b") {
		t.Errorf("%+v", e)
	}
	if n := utf8.RuneCountInString(e.Message); n != 300 || !strings.HasPrefix(e.Message, "a b c [31m ää") {
		t.Errorf("%d characters: %s", n, e.Message)
	}
}

// What breaks before there is an answer is a connection error, and says which host.
func TestSendErrors(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	shut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
	}))
	defer shut.Close()
	nowhere := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		},
	}}).DialContext}}
	slow := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded })}
	strict := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}
	defer strict.CloseIdleConnections()

	for name, tt := range map[string]struct {
		client *http.Client
		url    string
		says   string
	}{
		"refused":   {http.DefaultClient, gone.URL, "connection refused"},
		"TLS":       {strict, secure.URL, "certificate"},
		"closed":    {http.DefaultClient, shut.URL, "closed the connection"},
		"no host":   {nowhere, "http://nowhere.invalid/x", "cannot reach nowhere.invalid"},
		"in time":   {slow, "http://slow.example/", "cannot reach slow.example: it did not answer in time"},
		"no scheme": {http.DefaultClient, "example.com", "unsupported protocol"},
	} {
		x := begin(t.Context(), 0, "nothing")
		_, err := x.send(func(ctx context.Context) (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, tt.url, strings.NewReader("{}"))
			if err != nil {
				return nil, err
			}
			return tt.client.Do(r)
		})
		var e *Error
		if !errors.As(x.failure(err), &e) || e.Class != Connection || !strings.Contains(e.Message, tt.says) || !e.Retryable() {
			t.Errorf("%s: %+v", name, e)
		}
		x.end()
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The caller's own context is no error of the server's.
func TestContextPasses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := begin(ctx, time.Hour)
	defer x.end()
	cancel()
	if err := x.failure(io.ErrUnexpectedEOF); err != context.Canceled {
		t.Error(err)
	}
}
