package provider

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// deltas is an answer of n deltas of four bytes.
func deltas(n int) []byte {
	var b bytes.Buffer
	b.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	for i := range n {
		fmt.Fprintf(&b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%04d\"}}\n\n", i%10000)
	}
	b.WriteString("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	return b.Bytes()
}

// played is a model that always gives the same answer, without a network.
func played(body []byte) *messagesModel {
	return &messagesModel{
		target: target{Model: "m"}, frames: sseFrames,
		post: func(context.Context, *exchange, []byte) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
		},
	}
}

func answerLength(tb testing.TB, m Model) (n int) {
	for e, err := range m.Answer(tb.Context(), Request{History: []event.Event{past(event.Prompt{Text: "go"})}}) {
		if err != nil {
			tb.Fatal(err)
		}
		if b, ok := e.Body.(event.Text); ok {
			n = len(b.Text)
		}
	}
	return n
}

// A delta costs its text and its event, and no more.
func TestMessagesDeltasAreCheap(t *testing.T) {
	const n = 5000
	m := played(deltas(n))
	if got := answerLength(t, m); got != 4*n {
		t.Fatalf("%d bytes", got)
	}
	if per := testing.AllocsPerRun(3, func() { answerLength(t, m) }) / n; per > 6 { // two; the race detector adds some
		t.Errorf("%.1f allocations a delta", per)
	}
}

func BenchmarkMessagesDeltas(b *testing.B) {
	body := deltas(50000)
	m := played(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		answerLength(b, m)
	}
}

// A long history, as the fiftieth turn of a real one.
func BenchmarkMessagesRequest(b *testing.B) {
	m := messagesModel{target: target{Model: "claude-sonnet-5-5"}}
	r := Request{System: strings.Repeat("Be brief. ", 500), Tools: twoTools, History: []event.Event{past(event.Prompt{Text: "go"})}}
	for i := range 50 {
		call := fmt.Sprintf("toolu_%d", i)
		r.History = append(r.History, past(event.Text{Text: "I look at it."}), pastOn(call, event.ToolCalled{Name: "read", Input: event.Raw(`{"path":"a.go"}`)}),
			pastOn(call, event.ToolDone{Name: "read", Output: strings.Repeat("\tif err != nil {\n\t\treturn err\n\t}\n", 200)}))
	}
	b.SetBytes(int64(len(m.request(r))))
	b.ReportAllocs()
	for b.Loop() {
		m.request(r)
	}
}
