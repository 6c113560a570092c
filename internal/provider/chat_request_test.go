package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-dev/sluice/event"
)

// richer is the rich history with thoughts that the Responses API sealed: before a text, before a call, and before nothing.
func richer() []event.Event {
	list := rich()
	return append(list[:len(list):len(list)],
		past(event.Thought{Text: "first", Signature: "openai-responses:rs_1:c2Vh:bA=="}), past(event.Thought{Signature: "openai-responses:rs_2:hidden"}),
		past(event.Thought{Text: "broken", Signature: "openai-responses:rs_x"}), past(event.Text{Text: "So."}),
		past(event.Thought{Text: "then", Signature: "openai-responses:rs_3:x"}), past(event.Text{Text: "And."}),
		pastOn("toolu_5"+strings.Repeat("x", 50), event.ToolCalled{Name: "bash", Input: event.Raw(`{"command":"ls"}`)}),
		pastOn("toolu_5"+strings.Repeat("x", 50), event.ToolDone{Name: "bash", Output: "a.go"}),
		past(event.Thought{Text: "cut off", Signature: "openai-responses:rs_4:x"}), past(event.Prompt{Text: "Go on."}),
		past(event.Thought{Text: "cut off", Signature: "openai-responses:rs_5:x"}),
	)
}

// body is the request that a model would be sent.
func body(t *testing.T, o Options, r Request) []byte {
	o.Key = "k"
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	switch m := m.(type) {
	case *chatModel:
		return m.request(r)
	case *responsesModel:
		return m.request(r)
	}
	t.Fatalf("%s is a %T", o.Model, m)
	return nil
}

// The request, byte for byte. In the file it is broken into lines before every object of a list, to be read.
func TestOpenAIRequest(t *testing.T) {
	all := Request{System: "Be brief.", History: richer(), Tools: twoTools, Thinking: "low", MaxTokens: 100}
	for name, tt := range map[string]struct {
		o Options
		r Request
	}{
		"chat":            {Options{Model: "openai/gpt-6-sol"}, all},
		"chat_compatible": {Options{Model: "groq/llama", BaseURL: "http://127.0.0.1:1/v1"}, Request{System: " ", History: all.History[:2], MaxTokens: 100, Thinking: "high"}},
		"chat_plain":      {Options{Model: "openrouter/a/b"}, Request{History: all.History[:1], Thinking: "medium"}},
		"responses":       {Options{Model: "openai-responses/gpt-6-sol"}, all},
		"responses_plain": {Options{Model: "openai-responses/gpt-4.1"}, Request{System: " ", History: all.History[:1], Thinking: "off"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := body(t, tt.o, tt.r)
			if !json.Valid(got) {
				t.Fatalf("not JSON: %s", got)
			}
			if !bytes.Equal(got, body(t, tt.o, tt.r)) {
				t.Error("the second time it is another")
			}
			lines := append(bytes.ReplaceAll(got, []byte(`,{`), []byte(",\n{")), '\n')
			lines = bytes.ReplaceAll(lines, []byte(`[{`), []byte("[\n{"))
			file := "testdata/openai_" + name + ".txt"
			if *update {
				if err := os.WriteFile(file, lines, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(lines)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A request goes on where the one before it ended.
func TestOpenAIPrefix(t *testing.T) {
	for _, model := range []string{"openai/gpt-6-sol", "openai-responses/gpt-6-sol"} {
		history := richer()
		before := ""
		for n := 1; n <= len(history); n++ {
			switch history[n-1].Body.(type) {
			case event.Text, event.Thought, event.ToolCalled:
				continue // nobody asks in the middle of an answer
			}
			if n < len(history) {
				if _, more := event.AsToolEnd(history[n].Body); more {
					continue // … nor before all its calls have ended
				}
			}
			got := string(body(t, Options{Model: model}, Request{System: "Be brief.", History: history[:n], Tools: twoTools}))
			got = strings.TrimSuffix(got, "]}")
			if !strings.HasPrefix(got, before) {
				t.Errorf("%s, %d entries: the request does not go on with the one before:\n%s\n%s", model, n, before, got)
			}
			before = got
		}
		if len(before) < 1000 {
			t.Error("nothing was compared")
		}
	}
}

func TestBaseURL(t *testing.T) {
	for base, want := range map[string]string{
		"":                                "https://api.openai.com/v1/chat/completions",
		"http://127.0.0.1:8080":           "http://127.0.0.1:8080/chat/completions",
		"http://h/v1/":                    "http://h/v1/chat/completions",
		"https://h/a%20b?api-version=1&x": "https://h/a%20b/chat/completions?api-version=1&x",
	} {
		m, err := Open(Options{Model: "openai/x", BaseURL: base, Key: "k", Env: env()})
		if err != nil || m.(*chatModel).url != want {
			t.Errorf("%s: %v, %v, want %s", base, m, err, want)
		}
	}
	for _, bad := range []string{"h/v1", "ftp://h", "http://", ":", "http://h:x"} {
		for _, model := range []string{"openai/x", "openai-responses/x"} {
			if _, err := Open(Options{Model: model, BaseURL: bad, Key: "k"}); err == nil || !strings.Contains(err.Error(), "write one like https://host/v1") {
				t.Errorf("%s: %v", bad, err)
			}
		}
	}
}

// The key goes out as a bearer's, and what the environment says of OpenAI only to those who stand for it.
func TestOpenAIHeaders(t *testing.T) {
	environment := env("OPENAI_ORG_ID", "org-1", "OPENAI_PROJECT_ID", "proj-1", "OPENAI_API_KEY", " k1\n", "MY_KEY", "k2")
	own := map[string]Endpoint{"mine": {KeyEnv: "MY_KEY", Headers: map[string]string{"X-Team": "a", "Authorization": "Basic b"}}, "free": {}}
	for model, want := range map[string]map[string]string{
		"openai/m":           {"Authorization": "Bearer k1", "OpenAI-Organization": "org-1", "OpenAI-Project": "proj-1"},
		"openai-responses/m": {"Authorization": "Bearer k1", "OpenAI-Organization": "org-1", "OpenAI-Project": "proj-1"},
		"mine/m":             {"Authorization": "Basic b", "X-Team": "a", "OpenAI-Organization": ""},
		"free/m":             {"Authorization": "", "OpenAI-Project": "", "Content-Type": "application/json", "Accept": "text/event-stream"},
	} {
		var got http.Header
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}))
		m, err := Open(Options{Model: model, BaseURL: s.URL, Env: environment, Endpoints: own})
		if err != nil {
			t.Fatal(err)
		}
		said := blocks(t, m, Request{})
		s.Close()
		for name, value := range want {
			if got.Get(name) != value {
				t.Errorf("%s: %s is %q, want %q", model, name, got.Get(name), value)
			}
		}
		if e, ok := said[0].(*Error); !ok || e.Status != http.StatusTemporaryRedirect || e.Retryable() || !strings.Contains(e.Message, "/elsewhere") {
			t.Errorf("%s: a redirect gave %v", model, said)
		}
	}
}
