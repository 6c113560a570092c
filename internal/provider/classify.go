package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-dev/sluice/internal/wire"
)

// This file says what went wrong: a status, the body that came with it, an error within the stream, a connection that broke.
// The rules: one line for a person, at most 300 characters, in the server's words where it has some; never a key, also
// not one that the server says back to us.

// statusError is what an HTTP status that is not 2xx means.
func statusError(status int, h http.Header, body []byte, secrets []string) *Error {
	code, message := errorBody(body)
	if name, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":"); name != "" {
		code = name
	}
	if status/100 == 3 {
		message = "the server sends us elsewhere, to " + h.Get("Location") + ": set the base URL to that"
	}
	if message == "" {
		message = http.StatusText(status)
	}
	e := &Error{Class: statusClass(status, code, message), Status: status, Code: code, Message: message, After: retryAfter(h, time.Now())}
	e.Final = h.Get("X-Should-Retry") == "false" || spent(code)
	return e.clean(secrets)
}

// spent says whether a code means that somebody has to pay first: no waiting helps.
func spent(code string) bool {
	switch code {
	case "insufficient_quota", "billing_error", "billing_hard_limit_reached", "insufficient_balance":
		return true
	}
	return false
}

func statusClass(status int, code, message string) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case status == http.StatusTooManyRequests:
		return RateLimit
	case status == http.StatusServiceUnavailable, status == 529:
		return Overloaded
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		if overflows(code, message) { // some local servers say it so
			return Overflow
		}
		return Server
	case status == http.StatusRequestEntityTooLarge, overflows(code, message):
		return Overflow
	}
	return Invalid
}

// codeClass is what an error within the stream means, by the server's word for it.
func codeClass(code, message string) string {
	switch strings.ToLower(code) {
	case "overloaded_error", "overloaded", "server_overloaded", "serviceunavailableexception", "unavailable":
		return Overloaded
	case "rate_limit_error", "rate_limit_exceeded", "insufficient_quota", "throttlingexception", "resource_exhausted":
		return RateLimit
	case "authentication_error", "permission_error", "invalid_api_key", "accessdeniedexception", "unauthenticated", "permission_denied":
		return Auth
	}
	if overflows(code, message) {
		return Overflow
	}
	switch strings.ToLower(code) {
	case "invalid_request_error", "not_found_error", "billing_error", "invalid_prompt", "invalid_value", "model_not_found",
		"validationexception", "resourcenotfoundexception", "invalid_argument", "not_found":
		return Invalid
	}
	return Server
}

// streamError is an error that the server told within its answer.
func streamError(code, message string) *Error {
	if message == "" {
		message = code
	}
	return &Error{Class: codeClass(code, message), Code: code, Message: message, Final: spent(code)}
}

// overflows says whether the server means that the request does not fit the model's window. Each has its own words for it.
func overflows(code, message string) bool {
	switch code {
	case "context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded", "request_too_large":
		return true
	}
	message = strings.ToLower(message)
next:
	for _, words := range tooLong {
		for _, w := range words {
			if !strings.Contains(message, w) {
				continue next
			}
		}
		return true
	}
	return false
}

// tooLong is how servers say that a prompt is too long: all words of one row.
var tooLong = [][]string{
	{"prompt is too long"},                               // Anthropic, Vertex
	{"exceed", "context limit"},                          // Anthropic, with max_tokens
	{"input is too long"},                                // Bedrock
	{"too many input tokens"},                            // Bedrock
	{"exceed", "context window"},                         // OpenAI responses
	{"maximum context length"},                           // OpenAI chat, vLLM, DeepSeek, OpenRouter, Mistral
	{"context_length_exceeded"},                          // OpenAI's code inside another's message
	{"input tokens exceed"},                              // OpenAI
	{"exceed", "context size"},                           // llama.cpp
	{"exceed", "context length"},                         // Ollama
	{"greater than the context length"},                  // LM Studio
	{"maximum prompt length"},                            // xAI
	{"reduce the length of the messages"},                // Groq
	{"token count", "exceeds"},                           // Gemini
	{"prompt", "tokens", "too large", "maximum context"}, // Mistral
	{"tokens", "max_new_tokens", "must be"},              // Together, TGI
	{"too large for model", "context"},
}

// errorBody finds the code and the message in an error's body. Every vendor has a shape of its own; what is no JSON has none.
func errorBody(body []byte) (code, message string) {
	var d wire.Doc
	if d.Parse(bytes.TrimSpace(body)) != nil {
		return "", ""
	}
	n := d.Root()
	if n.Kind() == wire.Array { // Google, when it streams
		for _, first := range n.All() {
			n = first
			break
		}
	}
	in := n.Get("error")
	if in.Kind() != wire.Object {
		message = first(in.Text(), n.Get("message").Text(), n.Get("Message").Text(), n.Get("detail").Text())
		if message == "" && n.Get("detail").Kind() > wire.String {
			message = string(n.Get("detail").Raw())
		}
		return first(n.Get("code").Text(), n.Get("__type").Text()), message
	}
	// OpenAI's code says more than its type; Google's code is the status again, its word is in status.
	return first(in.Get("code").Text(), in.Get("status").Text(), in.Get("type").Text()), in.Get("message").Text()
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// retryAfter is how long the server asks us to wait; 0 if it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return span(ms, time.Millisecond)
	}
	after := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil {
		return span(s, time.Second)
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

func span(n float64, unit time.Duration) time.Duration {
	if math.IsNaN(n) || n <= 0 {
		return 0
	}
	const most = 30 * 24 * time.Hour
	return time.Duration(min(n*float64(unit), float64(most)))
}

// sendError is why a request never got an answer.
func sendError(err error) *Error {
	message := "cannot reach the server"
	cause := err
	var u *url.Error
	if errors.As(err, &u) {
		if at, perr := url.Parse(u.URL); perr == nil && at.Host != "" {
			message = "cannot reach " + at.Host
		}
		cause = u.Err
	}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(cause, &dns) && dns.IsNotFound:
		message += ": no such host"
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF):
		message += ": it closed the connection without an answer"
	case errors.Is(cause, context.DeadlineExceeded), errors.As(cause, &timeout) && timeout.Timeout():
		message += ": it did not answer in time"
	default:
		message = fmt.Sprintf("%s: %v", message, cause)
	}
	return &Error{Class: Connection, Message: message, Err: err}
}

// cutError is why an answer ended before its end.
func cutError(err error) *Error {
	message := "the answer was cut off"
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		message = fmt.Sprintf("%s: %v", message, err)
	}
	return &Error{Class: Cut, Message: message, Err: err}
}

// nonsense is an answer that cannot be read.
func nonsense(err error) *Error {
	return &Error{Class: Server, Message: fmt.Sprintf("the answer makes no sense: %v", err), Err: err}
}

// clean makes the error fit to be shown: one line, not too long, nothing secret.
func (e *Error) clean(secrets []string) *Error {
	f := *e
	f.Message = oneLine(redact(e.Message, secrets), 300)
	f.Code = oneLine(redact(e.Code, secrets), 80)
	return &f
}

// redact takes secrets out of a text.
func redact(s string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= 4 { // a shorter one would be found everywhere
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	return s
}

// oneLine is a text on one line of at most so many characters.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
