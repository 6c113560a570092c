package provider

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// A canned server answers every request with the same bytes.
type canned string

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(c))),
	}, nil
}

// Whatever a server says: an answer ends once, in turn.ended or in an error; deltas add up to their block; calls have ids.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"bash\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\"}}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"<think>a</think>b\",\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"x\",\"arguments\":\"{}\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n",
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
		"data: {\"error\":{\"message\":\"no\"}}\n\n", "event: error\ndata: {}\n\n", "data: [1\n\n", ":\n\n", "\x00\xff\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, name := range []string{"anthropic/m", "openai/m", "openai-responses/m"} {
			m, err := Open(Options{Model: name, Key: "k", BaseURL: "http://model.invalid", Client: &http.Client{Transport: canned(body)}})
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			ends := 0
			for e, err := range m.Answer(context.Background(), Request{History: []event.Event{event.Event{Body: event.Prompt{Text: "hi"}}.Stamp()}}) {
				if ends > 0 {
					t.Fatalf("%s: something follows the end", name)
				}
				if err != nil {
					ends++
					continue
				}
				switch b := e.Body.(type) {
				case event.TextDelta:
					said.WriteString(b.Text)
				case event.ThoughtDelta:
					said.WriteString(b.Text)
				case event.Text:
					if said.Len() > 0 && said.String() != b.Text {
						t.Fatalf("%s: deltas %q, block %q", name, said.String(), b.Text)
					}
					said.Reset()
				case event.Thought:
					if said.Len() > 0 && said.String() != b.Text {
						t.Fatalf("%s: deltas %q, block %q", name, said.String(), b.Text)
					}
					said.Reset()
				case event.ToolCalled:
					if e.Call == "" {
						t.Fatalf("%s: a call without an id", name)
					}
				case event.TurnEnded:
					ends++
				}
			}
			if ends != 1 || said.Len() > 0 {
				t.Fatalf("%s: %d ends, %q in the air", name, ends, said.String())
			}
		}
	})
}
