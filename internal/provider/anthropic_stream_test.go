package provider_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/provider"
)

// sayStream serves an answer as it stands, and opens a model that gets it.
func sayStream(t *testing.T, contentType, body string) provider.Model {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(h.Close)
	return openModel(t, provider.Options{Model: "anthropic/x", BaseURL: h.URL, Key: "k"})
}

// stream makes a stream of events.
func stream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

func ending(stop string) string {
	return stream(`{"type":"message_delta","delta":{"stop_reason":`+stop+`,"stop_sequence":null},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`)
}

// What no script says.
func TestMessagesStream(t *testing.T) {
	const start = `data: {"type":"message_start","message":{"model":"m-1","content":[],"usage":{"input_tokens":5,"cache_creation_input_tokens":null,"output_tokens":1}}}` + "\n\n"
	for name, tt := range map[string]struct {
		in   string
		want []string
	}{
		"pause": {start + ending(`"pause_turn"`), []string{"end other pause_turn 5/3/-/-/-"}},
		"full":  {start + ending(`"model_context_window_exceeded"`), []string{"end length model_context_window_exceeded 5/3/-/-/-"}},
		"new":   {start + ending(`"tomorrow"`), []string{"end other tomorrow 5/3/-/-/-"}},
		"null":  {start + ending(`null`), []string{"end stop  5/3/-/-/-"}},
		"no start, CRLF, names, comments": {
			strings.ReplaceAll(": hi\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\ndata: \"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"+ending(`"end_turn"`), "\n", "\r\n"),
			[]string{`text "a"`, "end stop end_turn -/3/-/-/-"},
		},
		"texts that follow each other": {
			stream(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`, `{"type":"content_block_stop","index":0}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"c"}}`, `{"type":"content_block_stop","index":1}`) + ending(`"end_turn"`),
			[]string{`text "ab"`, `text "c"`, "end stop end_turn -/3/-/-/-"},
		},
		"what is hidden, and what is shown": {
			stream(`{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"xyz"}}`, `{"type":"content_block_stop"}`,
				`{"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}`, `{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"si"}}`,
				`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"g"}}`, `{"type":"content_block_stop"}`) + ending(`"end_turn"`),
			[]string{`thought "" anthropic-redacted:xyz`, `thought "" anthropic:sig`, "end stop end_turn -/3/-/-/-"},
		},
		"arguments at once": {
			stream(`{"type":"content_block_start","content_block":{"type":"tool_use","id":"a","name":"x","input":{"a":1}}}`, `{"type":"content_block_stop"}`) + ending(`null`),
			[]string{`call a x {"a":1}`, "end tool_calls  -/3/-/-/-"},
		},
		"what is not known": {
			stream(`{"type":"ping"}`, `{"type":"tomorrow","delta":"text","error":[]}`, `{"type":"content_block_start","content_block":{"type":"web_search","name":"x","content":[]}}`,
				`{"type":"content_block_delta","delta":{"type":"citations_delta","citation":{}}}`, `{"type":"content_block_stop"}`, `{"type":"message_delta","delta":{}}`) + ending(`"end_turn"`) + stream(`{"type":"error","error":{}}`),
			[]string{"end stop end_turn -/3/-/-/-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collect(t, t.Context(), sayStream(t, "text/event-stream; charset=utf-8", tt.in), provider.Request{History: prompt("go")})
			lines := brief(got)
			for i, e := range got {
				if b, ok := e.Body.(event.Thought); ok {
					lines[i] += " " + b.Signature
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A stream that ends anywhere before its end is cut, and has told all that was whole.
func TestMessagesCutAnywhere(t *testing.T) {
	whole := stream(
		`{"type":"message_start","message":{"model":"m-1"}}`,
		`{"type":"content_block_start","content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"}}`, `{"type":"content_block_stop"}`,
		`{"type":"content_block_start","content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"yes"}}`, `{"type":"content_block_stop"}`,
		`{"type":"content_block_start","content_block":{"type":"tool_use","id":"a","name":"x","input":{}}}`, `{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop"}`,
	) + ending(`"tool_use"`)
	var prefix []byte
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(prefix)
	}))
	defer h.Close()
	m := openModel(t, provider.Options{Model: "anthropic/x", BaseURL: h.URL, Key: "k"})
	last := strings.LastIndex(whole, `{"type":"message_stop"}`) + len(`{"type":"message_stop"}`) + 1
	partials := 0
	for n := 0; n <= len(whole); n += 7 {
		prefix = append([]byte("event: x\n"), whole[:n]...)
		got, err := collect(t, t.Context(), m, provider.Request{History: prompt("go")})
		if n >= last {
			if err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		var e *provider.Error
		if !errors.As(err, &e) || e.Class != provider.Cut {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for i, line := range brief(got) {
			if strings.HasSuffix(line, " partial") {
				if partials++; i != len(got)-1 {
					t.Errorf("%d bytes: a partial block is not the last: %v", n, brief(got))
				}
			}
			if strings.HasPrefix(line, "end") {
				t.Errorf("%d bytes: it ended", n)
			}
		}
	}
	if partials == 0 {
		t.Error("no block was partial")
	}
}

// What is no answer is an error of the server's, in its own words where it has some.
func TestMessagesNonsense(t *testing.T) {
	for name, tt := range map[string]struct{ kind, body, says string }{
		"a page":       {"text/html", "<html>oops</html>", "text/html"},
		"JSON":         {"application/json", `{"id":"msg_1","type":"message","content":[]}`, "not with a stream of events"},
		"an error":     {"application/json", `{"type":"error","error":{"type":"api_error","message":"so\nsorry"}}`, "so sorry"},
		"no type":      {"", "<html>\n", "not a stream of events"},
		"a wrong type": {"text/event-stream", stream(`{"type":"content_block_delta","delta":{"text":5}}`), "makes no sense"},
		"a string":     {"text/event-stream", stream(`"hello"`), "makes no sense"},
		"not JSON":     {"text/event-stream", stream(`hello`), "makes no sense"},
	} {
		_, err := collect(t, t.Context(), sayStream(t, tt.kind, tt.body), provider.Request{History: prompt("go")})
		var e *provider.Error
		if !errors.As(err, &e) || e.Class != provider.Server || !strings.Contains(e.Message, tt.says) || !e.Retryable() {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// A server that sends us elsewhere does not get our key there.
func TestMessagesRedirect(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the key %s went along", r.Header.Get("X-Api-Key"))
	}))
	defer thief.Close()
	h := httptest.NewServer(http.RedirectHandler(thief.URL+"/v1/messages", http.StatusTemporaryRedirect))
	defer h.Close()
	m, err := provider.Open(provider.Options{Model: "anthropic/x", BaseURL: h.URL, Key: "k"}) // with the client that people get
	if err != nil {
		t.Fatal(err)
	}
	_, err = collect(t, t.Context(), m, provider.Request{History: prompt("go")})
	var e *provider.Error
	if !errors.As(err, &e) || e.Class != provider.Invalid || !strings.Contains(e.Message, thief.URL) {
		t.Errorf("%+v", err)
	}
}
