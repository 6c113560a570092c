package provider

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sluice-dev/sluice/event"
)

// serve answers every request with a body of a type, or breaks off after it if the type is "cut".
func serve(t *testing.T, kind, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind != "cut" {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, body)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// open opens a model.
func open(t *testing.T, o Options) Model {
	if o.Env == nil {
		o.Env = env()
	}
	if o.Key == "" {
		o.Key = "sk-secret"
	}
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// blocks is what a model said without its deltas, after a check that they add up. Calls are written as name(arguments)#id.
func blocks(t *testing.T, m Model, r Request) (list []any) {
	text, thought := "", ""
	sum := func(deltas *string, block string) {
		if *deltas != block {
			t.Errorf("the deltas add up to %q, the block is %q", *deltas, block)
		}
		*deltas = ""
	}
	for e, err := range m.Answer(t.Context(), r) {
		if err != nil {
			list = append(list, err)
			continue
		}
		switch b := e.Body.(type) {
		case event.TextDelta:
			text += b.Text
			continue
		case event.ThoughtDelta:
			thought += b.Text
			continue
		case event.Text:
			sum(&text, b.Text)
		case event.Thought:
			sum(&thought, b.Text)
		case event.ToolCalled:
			list = append(list, fmt.Sprintf("%s(%s)#%s", b.Name, b.Input, e.Call))
			continue
		}
		list = append(list, e.Body)
	}
	sum(&text, "")
	sum(&thought, "")
	return list
}

var madeID = regexp.MustCompile(`#call_[a-z2-7]{16}$`)

// same compares what was said. Errors are compared without their causes, and ids that were made only by being different.
func same(t *testing.T, want, got []any) {
	t.Helper()
	ids := map[string]bool{}
	for i, x := range got {
		s, _ := x.(string)
		if id := madeID.FindString(s); id != "" {
			if ids[id] {
				t.Errorf("the id %s was made twice", id)
			}
			ids[id] = true
			got[i] = madeID.ReplaceAllString(s, "#call_?")
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Error{}, "Err")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// chunk is a piece of a stream: what one choice says.
func chunk(choice string) string {
	return "data: " + `{"choices":[{"index":0,` + choice + `}]}` + "\n\n"
}

func delta(said string) string { return chunk(`"delta":{` + said + `},"finish_reason":null`) }

func finish(word string) string { return chunk(`"delta":{},"finish_reason":"` + word + `"`) }

const doneLine = "data: [DONE]\n\n"

func TestChatStream(t *testing.T) {
	type list = []any
	stop := func(u event.Usage) event.TurnEnded {
		return event.TurnEnded{Provider: "groq", Model: "m", Finish: event.FinishStop, Usage: u}
	}
	ended := func(f event.Finish, said string) event.TurnEnded {
		return event.TurnEnded{Provider: "groq", Model: "m", Finish: f, Said: said}
	}
	hello := delta(`"role":"assistant","content":""`) + delta(`"content":"Hel"`) + delta(`"content":"lo"`)
	cut := &Error{Class: Cut, Message: "the answer was cut off"}
	for name, tt := range map[string]struct {
		body string
		want list
	}{
		"plain":              {hello + finish("stop") + doneLine, list{event.Text{Text: "Hello"}, stop(event.Usage{})}},
		"no [DONE]":          {hello + finish("stop"), list{event.Text{Text: "Hello"}, stop(event.Usage{})}},
		"no reason":          {hello + doneLine, list{event.Text{Text: "Hello"}, stop(event.Usage{})}},
		"neither":            {hello, list{event.Text{Text: "Hello", Partial: true}, cut}},
		"nothing":            {"", list{cut}},
		"an empty answer":    {finish("stop") + doneLine, list{stop(event.Usage{})}},
		"no space, comments": {": PROCESSING\n\ndata:" + `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata:[DONE]\n\n", list{event.Text{Text: "a"}, stop(event.Usage{})}},
		"the server's name for the model": {"data: " + `{"model":"m-2","choices":[]}` + "\n\n" + finish("stop") + doneLine,
			list{event.TurnEnded{Provider: "groq", Model: "m-2", Finish: event.FinishStop}}},

		"length":         {hello + finish("length") + doneLine, list{event.Text{Text: "Hello"}, ended(event.FinishLength, "")}},
		"content_filter": {hello + finish("content_filter") + doneLine, list{event.Text{Text: "Hello"}, ended(event.FinishRefusal, "content_filter")}},
		"eos":            {hello + finish("eos") + doneLine, list{event.Text{Text: "Hello"}, ended(event.FinishStop, "eos")}},
		"another reason": {hello + finish("bored") + doneLine, list{event.Text{Text: "Hello"}, ended(event.FinishOther, "bored")}},
		"a refusal": {delta(`"refusal":"I will "`) + delta(`"refusal":"not."`) + finish("stop") + doneLine,
			list{event.Text{Text: "I will not."}, ended(event.FinishRefusal, "stop")}},
		"calls promised and not made": {finish("tool_calls") + doneLine, list{ended(event.FinishStop, "tool_calls")}},
		"too busy": {hello + finish("insufficient_system_resource") + doneLine,
			list{event.Text{Text: "Hello", Partial: true}, &Error{Class: Overloaded, Code: "insufficient_system_resource", Message: "the server was too busy to finish the answer"}}},

		"reasoning_content": {delta(`"content":null,"reasoning_content":"Hm"`) + delta(`"reasoning_content":"m."`) + hello + finish("stop") + doneLine,
			list{event.Thought{Text: "Hmm."}, event.Text{Text: "Hello"}, stop(event.Usage{})}},
		"reasoning": {delta(`"reasoning":"Hm"`) + delta(`"reasoning":"m."`) + hello + finish("stop") + doneLine,
			list{event.Thought{Text: "Hmm."}, event.Text{Text: "Hello"}, stop(event.Usage{})}},
		"both": {delta(`"reasoning":"Hm","reasoning_content":"Hm"`) + finish("stop") + doneLine,
			list{event.Thought{Text: "Hm"}, stop(event.Usage{})}},
		"think": {delta(`"content":"\n<thi"`) + delta(`"content":"nk>\nHm<"`) + delta(`"content":"b></"`) + delta(`"content":"think>\n"`) + delta(`"content":"\n<think>Hi"`) + finish("stop") + doneLine,
			list{event.Thought{Text: "Hm<b>"}, event.Text{Text: "<think>Hi"}, stop(event.Usage{})}},
		"no thought":   {delta(`"content":"<think>\n\n</think>\n\nHi"`) + finish("stop") + doneLine, list{event.Text{Text: "Hi"}, stop(event.Usage{})}},
		"never closed": {delta(`"content":"<think>Hm </t"`) + finish("length") + doneLine, list{event.Thought{Text: "Hm </t"}, ended(event.FinishLength, "")}},
		"not quite a tag, and cut": {delta(`"content":"<thin"`),
			list{event.Text{Text: "<thin", Partial: true}, cut}},
		"parts": {delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]`) + delta(`"content":[{"type":"text","text":"Hi"}]`) + finish("stop") + doneLine,
			list{event.Thought{Text: "Hm"}, event.Text{Text: "Hi"}, stop(event.Usage{})}},

		"calls in pieces": {
			hello + delta(`"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]`) +
				delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"path\""}}]`) +
				delta(`"tool_calls":[{"index":1,"id":"c2","function":{"name":"bash","arguments":"{"}},{"index":0,"function":{"arguments":":\"a\"}"}}]`) +
				delta(`"tool_calls":[{"index":1,"function":{"arguments":"}"}}]`) + finish("tool_calls") + doneLine,
			list{event.Text{Text: "Hello"}, `read({"path":"a"})#c1`, `bash({})#c2`, ended(event.FinishToolCalls, "")},
		},
		"a stop that is none": {delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{}"}}]`) + finish("stop") + doneLine,
			list{`read({})#c1`, ended(event.FinishToolCalls, "stop")}},
		"the name with every piece": {
			delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"a\""}}]`) +
				delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":":1}"}}]`) + doneLine,
			list{`read({"a":1})#c1`, ended(event.FinishToolCalls, "")},
		},
		"a name in pieces": {
			delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"re"}}]`) + delta(`"tool_calls":[{"index":0,"function":{"name":"ad","arguments":"{}"}}]`) + doneLine,
			list{`read({})#c1`, ended(event.FinishToolCalls, "")},
		},
		"no index": {
			delta(`"tool_calls":[{"id":"c1","function":{"name":"read","arguments":"{\"a\""}}]`) + delta(`"tool_calls":[{"function":{"arguments":":1}"}}]`) +
				delta(`"tool_calls":[{"id":"c2","function":{"name":"read","arguments":"{}"}}]`) + doneLine,
			list{`read({"a":1})#c1`, `read({})#c2`, ended(event.FinishToolCalls, "")},
		},
		"always the same index": {
			delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{}"}}]`) + delta(`"tool_calls":[{"index":0,"id":"c2","function":{"name":"read","arguments":"{}"}}]`) + doneLine,
			list{`read({})#c1`, `read({})#c2`, ended(event.FinishToolCalls, "")},
		},
		"an object for arguments, and one call for another": {
			delta(`"tool_calls":[{"index":0,"id":"old","function":{"name":"read","arguments":{"path":"a"}}}]`) + doneLine,
			list{`read({"path":"a"})#call_?`, ended(event.FinishToolCalls, "")}, // the history has a call "old"
		},
		"arguments that are not JSON": {delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"a"}}]`) + finish("tool_calls") + doneLine,
			list{`read("{\"a")#c1`, ended(event.FinishToolCalls, "")}},
		"neither index nor ids": {
			delta(`"tool_calls":[{"function":{"name":"read","arguments":"{}"}},{"function":{"name":"bash","arguments":"{}"}}]`) + doneLine,
			list{`read({})#call_?`, `bash({})#call_?`, ended(event.FinishToolCalls, "")},
		},
		"the old way": {delta(`"function_call":{"name":"read","arguments":"{\"a\""}`) + delta(`"function_call":{"arguments":":1}"}`) + finish("function_call") + doneLine,
			list{`read({"a":1})#call_?`, ended(event.FinishToolCalls, "function_call")}},
		"a cut call is no call": {hello + delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{}"}}]`),
			list{event.Text{Text: "Hello", Partial: true}, cut}},

		"usage at the end": {hello + finish("stop") + "data: " + `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":80,"cache_write_tokens":5},"completion_tokens_details":{"reasoning_tokens":30}}}` + "\n\n" + doneLine,
			list{event.Text{Text: "Hello"}, stop(event.Usage{Input: new(int64(15)), Output: new(int64(20)), Reasoning: new(int64(30)), CacheRead: new(int64(80)), CacheWrite: new(int64(5))})}},
		"usage with every piece": {
			"data: " + `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" +
				"data: " + `{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n" +
				"data: " + `{"choices":[],"usage":null}` + "\n\n" + doneLine,
			list{event.Text{Text: "ab"}, stop(event.Usage{Input: new(int64(7)), Output: new(int64(2))})},
		},
		"reasoning that was never in the output": {finish("stop") + "data: " + `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":150,"completion_tokens_details":{"reasoning_tokens":30}}}` + "\n\n" + doneLine,
			list{stop(event.Usage{Input: new(int64(100)), Output: new(int64(20)), Reasoning: new(int64(30))})}},
		"usage in other places": {
			"data: " + `{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":4}}]}` + "\n\n" + doneLine,
			list{stop(event.Usage{Input: new(int64(5)), Output: new(int64(1)), CacheRead: new(int64(4))})},
		},
		"Groq's": {"data: " + `{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":1}}}` + "\n\n" + doneLine,
			list{stop(event.Usage{Input: new(int64(9)), Output: new(int64(1))})}},
		"DeepSeek's": {finish("stop") + "data: " + `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":10}}` + "\n\n" + doneLine,
			list{stop(event.Usage{Input: new(int64(0)), Output: new(int64(1)), CacheRead: new(int64(10))})}},

		"an error in the stream": {hello + "data: " + `{"error":{"message":"busy","type":"overloaded_error"}}` + "\n\n",
			list{event.Text{Text: "Hello", Partial: true}, &Error{Class: Overloaded, Code: "overloaded_error", Message: "busy"}}},
		"one with a status": {"data: " + `{"error":{"code":429,"message":"slow sk-secret down"},"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n",
			list{&Error{Class: RateLimit, Status: 429, Message: "slow *** down"}}},
		"one that is a word": {"data: " + `{"error":"out of memory"}` + "\n\n", list{&Error{Class: Server, Message: "out of memory"}}},
		"one as a reason":    {finish("error") + doneLine, list{&Error{Class: Server, Code: "error", Message: "the server ended the answer with an error"}}},
		"no JSON": {hello + "data: {\"choices\n\n",
			list{event.Text{Text: "Hello", Partial: true}, &Error{Class: Server, Message: "the answer makes no sense: invalid JSON at byte 9: unexpected end"}}},
		"fields of another type": {"data: " + `{"model":7,"choices":[{"index":0,"delta":{"content":5,"reasoning":{},"tool_calls":null},"finish_reason":"stop"}]}` + "\n\n" + doneLine,
			list{event.Text{Text: "5"}, stop(event.Usage{})}},
		"a second answer that nobody wants": {hello + "data: " + `{"choices":[{"index":1,"delta":{"content":"no"}}]}` + "\n\n" + finish("stop") + doneLine,
			list{event.Text{Text: "Hello"}, stop(event.Usage{})}},
		"HTML": {"<html>\n<body>502</body>\n", list{&Error{Class: Server, Message: "the answer is not a stream of events"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Options{Model: "groq/m", BaseURL: serve(t, "text/event-stream", tt.body)})
			got := blocks(t, m, Request{History: []event.Event{past(event.Prompt{Text: "hi"}), pastOn("old", event.ToolCalled{Name: "x"}), pastOn("old", event.ToolDone{Name: "x"})}})
			same(t, tt.want, got)
		})
	}
}

func TestChatCutByTheConnection(t *testing.T) {
	for name, body := range map[string]string{"in a text": delta(`"content":"Hello"`), "after the reason": delta(`"content":"Hello"`) + finish("stop")} {
		m := open(t, Options{Model: "groq/m", BaseURL: serve(t, "cut", body)})
		got := blocks(t, m, Request{})
		if len(got) != 2 || got[0] != (event.Text{Text: "Hello", Partial: true}) || got[1].(*Error).Class != Cut {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Some servers do not stream, whatever they are asked.
func TestChatDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, body string
		want       []any
	}{
		"whole": {
			"application/json; charset=utf-8",
			`{"model":"m","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"Hm","content":"Hi","tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
			[]any{event.Thought{Text: "Hm"}, event.Text{Text: "Hi"}, "a({})#c1", "b({})#c2", event.TurnEnded{Provider: "groq", Model: "m", Finish: event.FinishToolCalls, Usage: event.Usage{Input: new(int64(3)), Output: new(int64(2))}}},
		},
		"an error":   {"application/json", `{"error":{"message":"no such model","code":"model_not_found"}}`, []any{&Error{Class: Invalid, Code: "model_not_found", Message: "no such model"}}},
		"no answer":  {"application/json", `{}`, []any{&Error{Class: Server, Message: "the answer makes no sense: there are no choices in it"}}},
		"no JSON":    {"application/json", `{"choices"`, []any{&Error{Class: Server, Message: "the answer makes no sense: invalid JSON at byte 10: unexpected end"}}},
		"a web page": {"text/html", `<html>`, []any{&Error{Class: Server, Message: "the server answered with text/html, not with a stream of events"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Options{Model: "groq/m", BaseURL: serve(t, tt.kind, tt.body)})
			same(t, tt.want, blocks(t, m, Request{}))
		})
	}
}

// A text is the same however its deltas are cut.
func TestThinkTag(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                                {"", ""},
		"plain":                           {"", "plain"},
		" \n lead":                        {"", " \n lead"},
		"<think>a b</think>c":             {"a b", "c"},
		" <think>\n a\n\n</think>\n\nc\n": {"a", "c\n"},
		"<think>a</thin></think>c":        {"a</thin>", "c"},
		"<think>a\n\nb":                   {"a\n\nb", ""},
		"<think>a</think":                 {"a</think", ""},
		"<think></think>":                 {"", ""},
		"<think>  </think>  ":             {"", ""},
		"<thinking>x":                     {"", "<thinking>x"},
		"a<think>b</think>":               {"", "a<think>b</think>"},
		"<think>ä→</think>ö<think>":       {"ä→", "ö<think>"},
	} {
		for size := 1; size <= len(text)+1; size++ {
			for first := range min(size, len(text)+1) {
				var tag thinkTag
				var got [2]string
				say := func(thought, text string) { got[0], got[1] = got[0]+thought, got[1]+text }
				say(tag.take(text[:first]))
				for rest := text[first:]; rest != ""; rest = rest[min(size, len(rest)):] {
					say(tag.take(rest[:min(size, len(rest))]))
				}
				say(tag.rest())
				if got != want {
					t.Errorf("%q in pieces of %d after %d: %q, want %q", text, size, first, got, want)
				}
			}
		}
	}
}
