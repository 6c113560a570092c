package modelserver

import (
	"encoding/json"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func anthropicClient(url string) sdk.Client {
	return sdk.NewClient(option.WithBaseURL(url), option.WithAPIKey("k"), option.WithMaxRetries(0))
}

func TestAnthropicStream(t *testing.T) {
	srv := serve(t, story, Options{})
	c := anthropicClient(srv.URL)
	p := sdk.MessageNewParams{Model: "m", MaxTokens: 100, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("go"))}}
	st := c.Messages.NewStreaming(soon(t), p)
	var m sdk.Message
	for st.Next() {
		if err := m.Accumulate(st.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if st.Err() != nil {
		t.Fatal(st.Err())
	}
	b, _ := json.MarshalIndent(m, "", " ")
	t.Logf("%s", b)
	p.Messages = append(p.Messages, m.ToParam(), sdk.NewUserMessage(sdk.NewToolResultBlock("call_1_1", "a", false), sdk.NewToolResultBlock("call_1_2", "b", false)))
	m2, err := c.Messages.New(soon(t), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", m2.RawJSON())
}
