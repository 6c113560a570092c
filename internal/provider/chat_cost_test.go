package provider

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// pieces is an answer of n deltas of four bytes, as OpenAI's servers write them.
func pieces(model string, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		if strings.HasPrefix(model, "openai/") {
			fmt.Fprintf(&b, "data: {\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"gpt-6-sol\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%04d\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"abc\"}\n\n", i%10000)
			continue
		}
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_68\",\"output_index\":0,\"content_index\":0,\"delta\":\"%04d\",\"logprobs\":[],\"obfuscation\":\"abc\",\"sequence_number\":%d}\n\n", i%10000, i)
	}
	b.WriteString("data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"},\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

// recorded is a model that always gives the same answer, without a network.
func recorded(tb testing.TB, model string, body []byte) Model {
	m, err := Open(Options{Model: model, Key: "k", Env: env(), Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
	})}})
	if err != nil {
		tb.Fatal(err)
	}
	return Retrying(m, Policy{})
}

// A delta costs its text, its event and what its JSON needs, and no more.
func TestOpenAIDeltasAreCheap(t *testing.T) {
	for model, most := range map[string]float64{"openai/m": 8, "openai-responses/m": 6} { // half of it; the race detector adds some
		const n = 2000
		m := recorded(t, model, pieces(model, n))
		if got := answerLength(t, m); got != 4*n {
			t.Fatalf("%d bytes", got)
		}
		if per := testing.AllocsPerRun(3, func() { answerLength(t, m) }) / n; per > most {
			t.Errorf("%s: %.1f allocations a delta", model, per)
		}
	}
}

func BenchmarkOpenAIDeltas(b *testing.B) {
	for _, model := range []string{"openai/m", "openai-responses/m"} {
		b.Run(model, func(b *testing.B) {
			body := pieces(model, 50000)
			m := recorded(b, model, body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				answerLength(b, m)
			}
		})
	}
}

// A long history, as the fiftieth turn of a real one.
func BenchmarkOpenAIRequest(b *testing.B) {
	r := Request{System: strings.Repeat("Be brief. ", 500), Tools: twoTools, History: []event.Event{past(event.Prompt{Text: "go"})}}
	for i := range 50 {
		call := fmt.Sprintf("call_%d", i)
		r.History = append(r.History, past(event.Text{Text: "I look at it."}), pastOn(call, event.ToolCalled{Name: "read", Input: event.Raw(`{"path":"a.go"}`)}),
			pastOn(call, event.ToolDone{Name: "read", Output: strings.Repeat("\tif err != nil {\n\t\treturn err\n\t}\n", 200)}))
	}
	m := &chatModel{&openAI{target: target{Model: "gpt-6-sol"}}}
	size := len(m.request(r))
	m.size.Store(int64(size))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		m.request(r)
	}
}
