package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	sdkbedrock "github.com/anthropics/anthropic-sdk-go/bedrock"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/openai/openai-go/v3"
	oaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	oairesponses "github.com/openai/openai-go/v3/responses"
)

// heard is an answer as a client understood it, in words that all formats share.
type heard struct {
	Model, Thinking, Text, Refusal string
	Calls                          []heardCall
	Finish                         string
	Usage                          heardUsage
}

type heardCall struct{ ID, Tool, Input string }

type heardUsage struct{ Input, Output, Reasoning, CacheRead, CacheWrite int64 }

// A talker is a client with its conversation: the vendor's own where there is one for Go.
type talker interface {
	// ask asks for the next answer and keeps it in the conversation. What was heard before an error is returned with it.
	ask(ctx context.Context, stream bool) (heard, error)
	// results answers the calls of the last answer.
	results(outputs ...string)
	// tell adds a user's message.
	tell(text string)
}

const (
	testAccessKey = "AKIDEXAMPLE"
	testSecretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// talkers has a talker for each wire format, with a first message.
var talkers = []struct {
	name string
	talk func(url string) talker
}{
	{"anthropic", func(url string) talker {
		return &anthropicTalker{client: sdk.NewClient(option.WithBaseURL(url), option.WithAPIKey("k"), option.WithMaxRetries(0))}
	}},
	{"bedrock", func(url string) talker {
		cfg := aws.Config{Region: "eu-test-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: testAccessKey, SecretAccessKey: testSecretKey, SessionToken: "session"}, nil
		})}
		return &anthropicTalker{client: sdk.NewClient(sdkbedrock.WithConfig(cfg), option.WithBaseURL(url), option.WithMaxRetries(0))}
	}},
	{"vertex", func(url string) talker { return &anthropicTalker{url: url} }},
	{"chat", func(url string) talker { return &chatTalker{client: openAIClient(url)} }},
	{"responses", func(url string) talker { return &responsesTalker{client: openAIClient(url)} }},
	{"gemini", func(url string) talker { return &geminiTalker{url: url, events: true} }},
	{"gemini array", func(url string) talker { return &geminiTalker{url: url} }},
}

func openAIClient(url string) openai.Client {
	return openai.NewClient(oaioption.WithBaseURL(url+"/v1"), oaioption.WithAPIKey("k"), oaioption.WithMaxRetries(0))
}

// each runs a test for every wire format, streamed and not.
func each(t *testing.T, test func(t *testing.T, format string, talk func(url string) talker, stream bool)) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "")
	for _, f := range talkers {
		for _, stream := range []bool{true, false} {
			if f.name == "gemini array" && !stream {
				continue
			}
			name := f.name
			if !stream {
				name += " whole"
			}
			t.Run(name, func(t *testing.T) {
				test(t, f.name, func(url string) talker {
					k := f.talk(url)
					k.tell("go")
					return k
				}, stream)
			})
		}
	}
}

// anthropicTalker speaks through Anthropic's client, or, given an address, by hand to Vertex.
type anthropicTalker struct {
	client  sdk.Client
	url     string
	history []sdk.MessageParam
	calls   []heardCall
	pieces  map[int64]string // of the arguments, by block
}

func (k *anthropicTalker) tell(text string) {
	k.history = append(k.history, sdk.NewUserMessage(sdk.NewTextBlock(text)))
}

func (k *anthropicTalker) results(outputs ...string) {
	var blocks []sdk.ContentBlockParamUnion
	for i, o := range outputs {
		blocks = append(blocks, sdk.NewToolResultBlock(k.calls[i].ID, o, false))
	}
	k.history = append(k.history, sdk.NewUserMessage(blocks...))
}

func (k *anthropicTalker) ask(ctx context.Context, stream bool) (heard, error) {
	p := sdk.MessageNewParams{
		Model: "asked:0", MaxTokens: 100, Messages: k.history, StopSequences: []string{"HALT"},
		System: []sdk.TextBlockParam{{Text: "be good"}},
	}
	k.pieces = map[int64]string{}
	m, err := k.message(ctx, p, stream)
	h := heard{Model: string(m.Model), Finish: string(m.StopReason)}
	for i, b := range m.Content {
		switch b.Type {
		case "text":
			h.Text += b.Text
		case "thinking":
			h.Thinking += b.Thinking
		case "tool_use":
			input := string(b.Input)
			if stream {
				input = k.pieces[int64(i)] // the client itself makes {} of what is no JSON
			}
			h.Calls = append(h.Calls, heardCall{b.ID, b.Name, input})
		}
	}
	if h.Finish == "stop_sequence" && m.StopSequence != "HALT" {
		err = fmt.Errorf("the stop sequence is %q", m.StopSequence)
	}
	h.Finish = map[string]string{"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}[h.Finish]
	if h.Finish == "" {
		h.Finish = string(m.StopReason)
	}
	u := m.Usage
	h.Usage = heardUsage{u.InputTokens, u.OutputTokens - u.OutputTokensDetails.ThinkingTokens, u.OutputTokensDetails.ThinkingTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens}
	k.calls = h.Calls
	if err == nil {
		k.history = append(k.history, m.ToParam())
	}
	return h, err
}

func (k *anthropicTalker) message(ctx context.Context, p sdk.MessageNewParams, stream bool) (m sdk.Message, err error) {
	if k.url != "" {
		return k.vertex(ctx, p, stream)
	}
	if !stream {
		got, err := k.client.Messages.New(ctx, p)
		if err != nil {
			return m, err
		}
		return *got, nil
	}
	return k.gather(k.client.Messages.NewStreaming(ctx, p))
}

func (k *anthropicTalker) gather(s *ssestream.Stream[sdk.MessageStreamEventUnion]) (m sdk.Message, err error) {
	ended := false
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			return m, err
		}
		k.pieces[s.Current().Index] += s.Current().Delta.PartialJSON
		ended = s.Current().Type == "message_stop"
	}
	if s.Err() == nil && !ended {
		return m, io.ErrUnexpectedEOF
	}
	return m, s.Err()
}

func (k *anthropicTalker) vertex(ctx context.Context, p sdk.MessageNewParams, stream bool) (m sdk.Message, err error) {
	var fields map[string]any
	if data, err := json.Marshal(p); err != nil || json.Unmarshal(data, &fields) != nil {
		return m, fmt.Errorf("no request: %v", err)
	}
	delete(fields, "model")
	fields["anthropic_version"] = "vertex-2023-10-16"
	method := "rawPredict"
	if stream {
		method = "streamRawPredict"
		fields["stream"] = true
	}
	res, err := post(ctx, k.url+"/v1/projects/p/locations/eu/publishers/anthropic/models/asked@0:"+method, fields, "Authorization", "Bearer k")
	if err != nil {
		return m, err
	}
	defer res.Body.Close()
	if stream {
		return k.gather(ssestream.NewStream[sdk.MessageStreamEventUnion](ssestream.NewDecoder(res), nil))
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(data, &m)
}

// refusalOf returns the status, word and message of an error, whichever client it comes from.
func refusalOf(err error) (status int, kind, message string) {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return byHand(&statusError{e.StatusCode, e.Response.Header, e.RawJSON()})
	}
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.StatusCode, e.Type, e.Message
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return byHand(e)
	}
	return 0, "", fmt.Sprint(err)
}

// headerOf returns the headers that an error came with.
func headerOf(err error) http.Header {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return e.Response.Header
	}
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.Response.Header
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.header
	}
	return nil
}

// byHand reads a refusal of Anthropic's, Google's or Amazon's form.
func byHand(e *statusError) (status int, kind, message string) {
	var body struct {
		Message string
		Error   struct{ Type, Message, Status string }
	}
	if err := json.Unmarshal([]byte(e.body), &body); err != nil {
		return e.status, "", e.body
	}
	return e.status, body.Error.Type + body.Error.Status + e.header.Get("X-Amzn-Errortype"), body.Error.Message + body.Message
}

// statusError is a refusal that was read by hand.
type statusError struct {
	status int
	header http.Header
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d %s", e.status, e.body) }

// post sends JSON. A status that is none of success is an error.
func post(ctx context.Context, url string, body any, headers ...string) (*http.Response, error) {
	data, ok := body.([]byte)
	if !ok {
		data = encode(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		return nil, &statusError{res.StatusCode, res.Header, string(text)}
	}
	return res, nil
}

// chatTalker speaks through OpenAI's client, Chat Completions.
type chatTalker struct {
	client  openai.Client
	history []openai.ChatCompletionMessageParamUnion
	calls   []heardCall
}

func (k *chatTalker) tell(text string) { k.history = append(k.history, openai.UserMessage(text)) }

func (k *chatTalker) results(outputs ...string) {
	for i, o := range outputs {
		k.history = append(k.history, openai.ToolMessage(o, k.calls[i].ID))
	}
}

func (k *chatTalker) ask(ctx context.Context, stream bool) (h heard, err error) {
	p := openai.ChatCompletionNewParams{Model: "asked", Messages: append([]openai.ChatCompletionMessageParamUnion{openai.SystemMessage("be good")}, k.history...)}
	var c openai.ChatCompletion
	if stream {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		var acc openai.ChatCompletionAccumulator
		var usage openai.CompletionUsage
		s := k.client.Chat.Completions.NewStreaming(ctx, p)
		for s.Next() {
			if !acc.AddChunk(s.Current()) {
				return h, fmt.Errorf("the chunk does not fit: %s", s.Current().RawJSON())
			}
			if len(s.Current().Choices) == 0 {
				usage = s.Current().Usage
			}
			for _, choice := range s.Current().Choices {
				var more struct {
					Thought string `json:"reasoning_content"`
				}
				if err := json.Unmarshal([]byte(choice.Delta.RawJSON()), &more); err != nil {
					return h, err
				}
				h.Thinking += more.Thought
			}
		}
		if err = s.Err(); err == nil && (len(acc.Choices) == 0 || acc.Choices[0].FinishReason == "") {
			err = io.ErrUnexpectedEOF
		}
		c = acc.ChatCompletion
		c.Usage = usage // the client's own sum knows no tokens that the cache took
	} else {
		got, err := k.client.Chat.Completions.New(ctx, p)
		if err != nil {
			return h, err
		}
		c = *got
		var more struct {
			Thought string `json:"reasoning_content"`
		}
		if err := json.Unmarshal([]byte(c.Choices[0].Message.RawJSON()), &more); err != nil {
			return h, err
		}
		h.Thinking = more.Thought
	}
	h.Model = c.Model
	if len(c.Choices) > 0 {
		m := c.Choices[0].Message
		h.Text, h.Refusal, h.Finish = m.Content, m.Refusal, c.Choices[0].FinishReason
		for _, call := range m.ToolCalls {
			h.Calls = append(h.Calls, heardCall{call.ID, call.Function.Name, call.Function.Arguments})
		}
		k.history = append(k.history, m.ToParam())
	}
	u := c.Usage
	h.Usage = heardUsage{
		u.PromptTokens - u.PromptTokensDetails.CachedTokens - u.PromptTokensDetails.CacheWriteTokens, u.CompletionTokens - u.CompletionTokensDetails.ReasoningTokens,
		u.CompletionTokensDetails.ReasoningTokens, u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens,
	}
	if err == nil && u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		err = fmt.Errorf("the total is %d", u.TotalTokens)
	}
	k.calls = h.Calls
	return h, err
}

// responsesTalker speaks through OpenAI's client, Responses. With stored it refers to the last response instead of sending it.
type responsesTalker struct {
	client  openai.Client
	stored  bool
	last    string
	history oairesponses.ResponseInputParam
	calls   []heardCall
}

func (k *responsesTalker) tell(text string) {
	k.history = append(k.history, oairesponses.ResponseInputItemParamOfMessage(text, "user"))
}

func (k *responsesTalker) results(outputs ...string) {
	for i, o := range outputs {
		k.history = append(k.history, param.Override[oairesponses.ResponseInputItemUnionParam](map[string]string{
			"type": "function_call_output", "call_id": k.calls[i].ID, "output": o,
		}))
	}
}

func (k *responsesTalker) ask(ctx context.Context, stream bool) (h heard, err error) {
	p := oairesponses.ResponseNewParams{
		Model: "asked", Instructions: openai.String("be good"), Store: openai.Bool(k.stored),
		Input: oairesponses.ResponseNewParamsInputUnion{OfInputItemList: k.history},
	}
	if k.stored && k.last != "" {
		p.PreviousResponseID = openai.String(k.last)
	}
	if !k.stored {
		p.Include = []oairesponses.ResponseIncludable{"reasoning.encrypted_content"}
	}
	var r oairesponses.Response
	if stream {
		r, h, err = gatherResponse(k.client.Responses.NewStreaming(ctx, p))
	} else {
		got, err := k.client.Responses.New(ctx, p)
		if err != nil {
			return h, err
		}
		r = *got
	}
	if err != nil {
		return h, err
	}
	streamed := h
	h = heard{Model: r.Model, Finish: string(r.Status)}
	if r.IncompleteDetails.Reason != "" {
		h.Finish = r.IncompleteDetails.Reason
	}
	for _, item := range r.Output {
		switch item.Type {
		case "reasoning":
			h.Thinking += item.Summary[0].Text
		case "message":
			h.Text += item.Content[0].Text
			h.Refusal += item.Content[0].Refusal
		case "function_call":
			h.Calls = append(h.Calls, heardCall{item.CallID, item.Name, item.Arguments.OfString})
		}
		if !k.stored {
			k.history = append(k.history, param.Override[oairesponses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
		}
	}
	if k.last = r.ID; k.stored {
		k.history = nil
	}
	if stream && (streamed.Text != h.Text || streamed.Thinking != h.Thinking || streamed.Refusal != h.Refusal) {
		err = fmt.Errorf("the deltas are %+v and the answer %+v", streamed, h)
	}
	u := r.Usage
	h.Usage = heardUsage{
		u.InputTokens - u.InputTokensDetails.CachedTokens - u.InputTokensDetails.CacheWriteTokens, u.OutputTokens - u.OutputTokensDetails.ReasoningTokens,
		u.OutputTokensDetails.ReasoningTokens, u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens,
	}
	k.calls = h.Calls
	return h, err
}

type responsesStream interface {
	Next() bool
	Current() oairesponses.ResponseStreamEventUnion
	Err() error
}

// gatherResponse reads a stream and sees to it that its numbers have no gaps and that deltas are what their blocks say.
func gatherResponse(s responsesStream) (r oairesponses.Response, h heard, err error) {
	ended := false
	block := ""
	for n := int64(0); s.Next(); n++ {
		e := s.Current()
		if e.SequenceNumber != n {
			return r, h, fmt.Errorf("event %d has the number %d", n, e.SequenceNumber)
		}
		whole, isWhole := "", true
		switch e.Type {
		case "response.output_text.delta":
			h.Text += e.Delta
		case "response.refusal.delta":
			h.Refusal += e.Delta
		case "response.reasoning_summary_text.delta":
			h.Thinking += e.Delta
		case "error":
			return r, h, fmt.Errorf("error event: %s: %s", e.Code, e.Message)
		case "response.completed", "response.incomplete", "response.failed":
			r, ended = e.Response, true
		}
		switch e.Type {
		case "response.output_text.done", "response.reasoning_summary_text.done":
			whole = e.Text
		case "response.refusal.done":
			whole = e.Refusal
		case "response.function_call_arguments.done":
			whole = e.Arguments
		default:
			isWhole = false
			block += e.Delta
		}
		if isWhole {
			if whole != block {
				return r, h, fmt.Errorf("%s: the deltas are %q and the whole %q", e.Type, block, whole)
			}
			block = ""
		}
	}
	if err = s.Err(); err == nil && !ended {
		err = io.ErrUnexpectedEOF
	}
	return r, h, err
}

// geminiTalker speaks Gemini by hand.
type geminiTalker struct {
	url     string
	events  bool
	history []geminiContent
	calls   []geminiCall
}

func (k *geminiTalker) tell(text string) {
	k.history = append(k.history, geminiContent{Role: "user", Parts: []geminiPart{{Text: &text}}})
}

func (k *geminiTalker) results(outputs ...string) {
	c := geminiContent{Role: "user"}
	for i, o := range outputs {
		c.Parts = append(c.Parts, geminiPart{Response: &geminiResponse{ID: k.calls[i].ID, Name: k.calls[i].Name, Response: encode(map[string]string{"output": o})}})
	}
	k.history = append(k.history, c)
}

func (k *geminiTalker) ask(ctx context.Context, stream bool) (h heard, err error) {
	body := map[string]any{"contents": k.history, "systemInstruction": map[string]any{"parts": []any{map[string]string{"text": "be good"}}}}
	path := "/v1beta/models/asked:generateContent"
	switch {
	case stream && k.events:
		path = "/v1beta/models/asked:streamGenerateContent?alt=sse"
	case stream:
		path = "/v1beta/models/asked:streamGenerateContent"
	}
	res, err := post(ctx, k.url+path, body)
	if err != nil {
		return h, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	answer := geminiContent{Role: "model"}
	k.calls = nil
	elements, bad := geminiElements(string(data), stream, k.events)
	if err == nil {
		err = bad
	}
	for _, element := range elements {
		var a geminiAnswer
		var failure googleFailure
		if json.Unmarshal([]byte(element), &failure) == nil && failure.Error.Code != 0 {
			return h, fmt.Errorf("error in the stream: %s", element)
		}
		if bad := json.Unmarshal([]byte(element), &a); bad != nil {
			return h, bad
		}
		h.Model = a.Model
		for _, p := range a.Candidates[0].Content.Parts {
			answer.Parts = append(answer.Parts, p)
			switch {
			case p.Call != nil:
				h.Calls = append(h.Calls, heardCall{p.Call.ID, p.Call.Name, string(p.Call.Args)})
				k.calls = append(k.calls, *p.Call)
			case p.Thought:
				h.Thinking += *p.Text
			default:
				h.Text += *p.Text
			}
		}
		if h.Finish = a.Candidates[0].Finish; a.Usage != nil {
			h.Usage = heardUsage{a.Usage.Prompt - a.Usage.Cached, a.Usage.Candidate, a.Usage.Thoughts, a.Usage.Cached, 0}
		}
	}
	if err == nil && h.Finish == "" {
		err = io.ErrUnexpectedEOF
	}
	k.history = append(k.history, answer)
	return h, err
}

// geminiElements takes a stream apart.
func geminiElements(data string, stream, events bool) (list []string, err error) {
	switch {
	case !stream:
		return []string{data}, nil
	case events:
		for e := range strings.SplitSeq(strings.TrimSuffix(data, "\n\n"), "\n\n") {
			line, ok := strings.CutPrefix(e, "data: ")
			if !ok {
				return list, fmt.Errorf("not an event: %q", e)
			}
			list = append(list, line)
		}
		return list, nil
	}
	dec := json.NewDecoder(strings.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		var e json.RawMessage
		if err := dec.Decode(&e); err != nil {
			return list, err
		}
		list = append(list, string(e))
	}
	_, err = dec.Token()
	return list, err
}
