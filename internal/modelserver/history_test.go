package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/packages/param"
	oairesponses "github.com/openai/openai-go/v3/responses"
)

// TestBadHistories sends what an agent gets wrong. Each must be refused, with status 400 in the format's own form, and the
// good one beside it must not.
func TestBadHistories(t *testing.T) {
	const endless = "loop: true\nsteps: [{text: fine}]"
	srv := serve(t, endless, signed)
	send := func(t *testing.T, path, body string) error {
		t.Helper()
		if !json.Valid([]byte(body)) && !strings.HasPrefix(body, "not JSON") {
			t.Fatalf("the test's body is no JSON: %s", body)
		}
		res, err := post(soon(t), srv.URL+path, []byte(body), "Anthropic-Version", "2023-06-01", "Authorization", "Bearer k")
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	const (
		user     = `{"role":"user","content":"hi"}`
		asked    = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":{}}]}`
		answered = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}`
		thought  = `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":%q},{"type":"text","text":"ok"}]}`
	)
	anthropicBody := func(messages ...string) string {
		return `{"model":"m","max_tokens":9,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	sealed := strings.ReplaceAll(thought, "%q", `"`+seal("hm")+`"`)

	chatUser := `{"role":"user","content":"hi"}`
	chatAsked := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{}"}}]}`
	chatAnswered := `{"role":"tool","tool_call_id":"a","content":"x"}`
	chatBody := func(messages ...string) string {
		return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
	}

	item := `{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`
	itemCall := `{"type":"function_call","id":"fc_1","call_id":"a","name":"bash","arguments":"{}"}`
	itemOutput := `{"type":"function_call_output","call_id":"a","output":"x"}`
	itemThought := `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"` + seal("hm") + `"}`
	responsesBody := func(items ...string) string {
		return `{"model":"m","store":false,"input":[` + strings.Join(items, ",") + `]}`
	}

	geminiUser := `{"role":"user","parts":[{"text":"hi"}]}`
	geminiAsked := `{"role":"model","parts":[{"functionCall":{"name":"bash","args":{"b":1,"a":2}}}]}`
	geminiAnswered := `{"role":"user","parts":[{"functionResponse":{"name":"bash","response":{"output":"x"}}}]}`
	geminiBody := func(contents ...string) string { return `{"contents":[` + strings.Join(contents, ",") + `]}` }
	sign := func(s string) string {
		return strings.ReplaceAll(geminiAsked, `{"functionCall"`, `{"thoughtSignature":"`+s+`","functionCall"`)
	}

	const good = "" // no complaint
	for path, cases := range map[string][]struct{ body, complaint string }{
		"/v1/messages": {
			{anthropicBody(user), good},
			{anthropicBody(user, asked, answered), good},
			{anthropicBody(user, user), good}, // neighbours of one role are one message
			{anthropicBody(user, sealed, user), good},
			{anthropicBody(user, asked, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"and?"}]}`), good},
			{`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[` + user + `],"tools":[{"name":"t","input_schema":{"type":"object"}}]}`, good},
			{`not JSON`, "not valid JSON"},
			{`{"model":"m","max_tokens":9,"messages":{}}`, "not valid JSON"},
			{anthropicBody(), "at least one message"},
			{`{"max_tokens":9,"messages":[` + user + `]}`, "model"},
			{`{"model":"m","messages":[` + user + `]}`, "max_tokens"},
			{anthropicBody(asked, answered), "first message"},
			{anthropicBody(user, `{"role":"assistant","content":"and so"}`), "last message"},
			{anthropicBody(user, asked, user), "a tool_use without its tool_result"},
			{anthropicBody(user, asked), "last message"},
			{anthropicBody(user, answered), "a tool_result without its tool_use"},
			{anthropicBody(answered), "a tool_result without its tool_use"},
			{anthropicBody(user, asked, answered, `{"role":"assistant","content":"ok"}`, answered), "a tool_result without its tool_use"},
			{anthropicBody(user, asked, `{"role":"user","content":[{"type":"text","text":"wait"},{"type":"tool_result","tool_use_id":"a"}]}`), "come first"},
			{anthropicBody(user, asked, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}`), "more than one tool_result"},
			{anthropicBody(user, asked, answered, asked, answered), "ids must be unique"},
			{anthropicBody(user, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":"ls"}]}`, answered), "must be an object"},
			{anthropicBody(user, `{"role":"assistant","content":[{"type":"tool_use","id":"a.b","name":"bash","input":{}}]}`, answered), "letters, digits"},
			{anthropicBody(user, `{"role":"assistant","content":[{"type":"tool_use","id":"a","input":{}}]}`, answered), "name: field required"},
			{anthropicBody(`{"role":"user","content":[{"type":"tool_use","id":"a","name":"bash","input":{}}]}`), "for the assistant"},
			{anthropicBody(user, `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}`, user), "for the user"},
			{anthropicBody(user, asked, `{"role":"user","content":[{"type":"tool_result"}]}`), "tool_use_id"},
			{anthropicBody(user, strings.ReplaceAll(thought, `,"signature":%q`, ""), user), "signature: field required"},
			{anthropicBody(user, strings.ReplaceAll(thought, "%q", `"forged"`), user), "invalid signature"},
			{anthropicBody(user, strings.ReplaceAll(sealed, "hm", "hmm"), user), "invalid signature"},
			{anthropicBody(`{"role":"user","content":[{"type":"thinking","thinking":"hm","signature":"x"}]}`), "for the assistant"},
			{anthropicBody(user, `{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}`, user), "redacted_thinking"},
			{anthropicBody(`{"role":"user","content":" "}`), "white space"},
			{anthropicBody(`{"role":"user","content":""}`), "must not be empty"},
			{anthropicBody(user, `{"role":"assistant","content":[]}`, user), "must not be empty"},
			{anthropicBody(`{"role":"robot","content":"hi"}`), "role"},
			{anthropicBody(`{"role":"user","content":[{"text":"hi"}]}`), "type: field required"},
			{`{"model":"m","max_tokens":9,"messages":[` + user + `],"tools":[{"name":"a b","input_schema":{"type":"object"}}]}`, "letters, digits"},
			{`{"model":"m","max_tokens":9,"messages":[` + user + `],"tools":[{"name":"t","input_schema":{"type":"object"}},{"name":"t","input_schema":{"type":"object"}}]}`, "unique"},
			{`{"model":"m","max_tokens":9,"messages":[` + user + `],"tools":[{"name":"t","input_schema":{}}]}`, "must be object"},
			{`{"model":"m","max_tokens":9,"messages":[` + user + `],"thinking":{"type":"enabled","budget_tokens":9}}`, "at least 1024"},
			{`{"model":"m","max_tokens":2000,"messages":[` + user + `],"thinking":{"type":"enabled","budget_tokens":2000}}`, "greater than"},
			{`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"a","cache_control":{}},`, 4) + `{"type":"text","text":"a","cache_control":{}}]}]}`, "at most 4"},
		},
		"/v1/chat/completions": {
			{chatBody(chatUser), good},
			{chatBody(`{"role":"system","content":"s"}`, chatUser, chatAsked, chatAnswered), good},
			{chatBody(chatUser, chatAsked, chatAnswered, chatUser, chatAsked, chatAnswered), good}, // an id may come again later
			{`not JSON`, "not valid JSON"},
			{chatBody(), "empty array"},
			{`{"messages":[` + chatUser + `]}`, "model"},
			{chatBody(chatUser, chatAsked), "must be followed by a tool message"},
			{chatBody(chatUser, chatAsked, chatUser), "must be followed by a tool message"},
			{chatBody(chatUser, chatAnswered), "answers one of 'tool_calls'"},
			{chatBody(chatUser, chatAsked, chatAnswered, chatAnswered), "answers one of 'tool_calls'"},
			{chatBody(chatUser, `{"role":"assistant","content":null}`), "content or tool_calls"},
			{chatBody(`{"role":"user","content":null}`), "got null"},
			{chatBody(`{"role":"robot","content":"x"}`), "role"},
			{chatBody(chatUser, strings.ReplaceAll(chatAsked, `"id":"a",`, ""), chatAnswered), "id"},
			{chatBody(chatUser, strings.ReplaceAll(chatAsked, `"name":"bash",`, ""), chatAnswered), "name"},
			{chatBody(chatUser, strings.ReplaceAll(chatAsked, `"type":"function",`, ""), chatAnswered), "type"},
			{chatBody(chatUser, `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"b"}},{"id":"a","type":"function","function":{"name":"b"}}]}`), "duplicate"},
			{`{"model":"m","messages":[` + chatUser + `],"tools":[{"type":"function","function":{"name":"a b"}}]}`, "letters, digits"},
		},
		"/v1/responses": {
			{`{"model":"m","input":"hi"}`, good},
			{responsesBody(item, itemThought, itemCall, itemOutput), good},
			{responsesBody(item, `{"role":"assistant","content":"yes"}`, item), good},
			{`not JSON`, "not valid JSON"},
			{`{"model":"m"}`, "input"},
			{`{"input":"hi"}`, "model"},
			{`{"model":"m","input":"hi","previous_response_id":"resp_x"}`, "not found"},
			{responsesBody(item, itemCall), "no tool output found for function call a"},
			{responsesBody(item, itemOutput), "no tool call found"},
			{responsesBody(item, itemCall, itemOutput, itemOutput), "no tool call found"},
			{responsesBody(item, itemCall, itemCall, itemOutput), "duplicate"},
			{responsesBody(item, strings.ReplaceAll(itemCall, `"call_id":"a",`, ""), itemOutput), "call_id"},
			{responsesBody(item, strings.ReplaceAll(itemCall, `"name":"bash",`, ""), itemOutput), "name"},
			{responsesBody(item, strings.ReplaceAll(itemCall, "fc_1", "call_1"), itemOutput), "does not begin with 'fc'"},
			{responsesBody(item, itemCall, `{"type":"function_call_output","call_id":"a"}`), "output"},
			{responsesBody(item, itemThought), "required following item"},
			{responsesBody(item, itemThought, item), "required following item"},
			{responsesBody(item, strings.ReplaceAll(itemThought, `"hm"`, `"hmm"`), itemCall, itemOutput), "could not be verified"},
			{responsesBody(item, strings.ReplaceAll(itemThought, `,"encrypted_content":"`+seal("hm")+`"`, ""), itemCall, itemOutput), "items are not kept"},
			{responsesBody(`{"role":"robot","content":"x"}`), "role"},
			{responsesBody(`{"role":"user"}`), "content"},
			{`{"model":"m","input":"hi","tools":[{"type":"function","name":"a b"}]}`, "letters, digits"},
		},
		"/v1beta/models/m:generateContent": {
			{geminiBody(geminiUser), good},
			{geminiBody(`{"parts":[{"text":"hi"}]}`), good},
			{geminiBody(geminiUser, geminiAsked, geminiAnswered), good},
			{geminiBody(geminiUser, sign(geminiSeal(&geminiCall{Name: "bash", Args: []byte(`{"a": 2, "b": 1}`)})), geminiAnswered), good},
			{`not JSON`, "not valid JSON"},
			{geminiBody(), "contents is not specified"},
			{geminiBody(`{"role":"user","parts":[]}`), "must not be empty"},
			{geminiBody(`{"role":"assistant","parts":[{"text":"hi"}]}`), "valid role"},
			{geminiBody(geminiUser, geminiAsked), "begins and ends"},
			{geminiBody(geminiAsked, geminiAnswered), "begins and ends"},
			{geminiBody(geminiUser, geminiAsked, geminiUser), "number of function response parts"},
			{geminiBody(geminiUser, geminiAsked, geminiAnswered, geminiAnswered), "number of function response parts"},
			{geminiBody(geminiAnswered), "number of function response parts"},
			{geminiBody(geminiUser, geminiAsked, strings.ReplaceAll(geminiAnswered, "bash", "read")), "the call was of bash"},
			{geminiBody(geminiUser, strings.ReplaceAll(geminiAsked, `{"b":1,"a":2}`, `"ls"`), geminiAnswered), "must be an object"},
			{geminiBody(geminiUser, strings.ReplaceAll(geminiAsked, `"name":"bash",`, ""), geminiAnswered), "name"},
			{geminiBody(geminiUser, geminiAsked, strings.ReplaceAll(geminiAnswered, `{"output":"x"}`, `"x"`)), "must be an object"},
			{geminiBody(strings.ReplaceAll(geminiAsked, "model", "user")), "the model's"},
			{geminiBody(geminiUser, strings.ReplaceAll(geminiAnswered, "user", "model"), geminiUser), "not the model's"},
			{geminiBody(geminiUser, sign("forged"), geminiAnswered), "signature"},
		},
		"/model/m/invoke": {
			{`{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[` + user + `]}`, good},
			{`{"max_tokens":9,"messages":[` + user + `]}`, "anthropic_version"},
			{`{"anthropic_version":"bedrock-2023-05-31","model":"m","max_tokens":9,"messages":[` + user + `]}`, "extraneous key [model]"},
			{`{"anthropic_version":"bedrock-2023-05-31","stream":true,"max_tokens":9,"messages":[` + user + `]}`, "extraneous key [stream]"},
			{`{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[` + answered + `]}`, "a tool_result without its tool_use"},
		},
		"/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict": {
			{`{"anthropic_version":"vertex-2023-10-16","max_tokens":9,"messages":[` + user + `]}`, good},
			{`{"max_tokens":9,"messages":[` + user + `]}`, "anthropic_version"},
			{`{"anthropic_version":"vertex-2023-10-16","model":"m","max_tokens":9,"messages":[` + user + `]}`, "model"},
			{`{"anthropic_version":"vertex-2023-10-16","max_tokens":9,"messages":[` + answered + `]}`, "a tool_result without its tool_use"},
		},
	} {
		t.Run(path, func(t *testing.T) {
			for _, c := range cases {
				err := send(t, path, c.body)
				if c.complaint == good {
					if err != nil {
						t.Errorf("%s\nis refused: %v", c.body, err)
					}
					continue
				}
				status, kind, message := refusalOf(err)
				if status != http.StatusBadRequest || !strings.Contains(message, c.complaint) || kind == "" {
					t.Errorf("%s\ngot %d %s: %s\nwant a complaint about %q", c.body, status, kind, message, c.complaint)
				}
			}
		})
	}
	if _, err := post(soon(t), srv.URL+"/v1/messages", []byte(anthropicBody(user))); err == nil || !strings.Contains(err.Error(), "anthropic-version") {
		t.Errorf("without its version: %v", err)
	}
}

// A response that is kept need not be sent again.
func TestPreviousResponse(t *testing.T) {
	srv := serve(t, story+"  - text: Bye.\n", Options{})
	k := &responsesTalker{client: openAIClient(srv.URL), stored: true}
	k.tell("go")
	first, err := k.ask(soon(t), true)
	if err != nil || len(first.Calls) != 2 {
		t.Fatalf("%+v, %v", first, err)
	}
	// Its calls want their results all the same.
	bad := *k
	bad.history = nil
	bad.tell("forget it")
	if _, err := bad.ask(soon(t), true); err == nil {
		t.Error("calls without results are taken")
	}
	k.results("one", "two")
	if got, err := k.ask(soon(t), false); err != nil || got.Text != "Done." {
		t.Fatalf("%+v, %v", got, err)
	}
	k.tell("and now?")
	if got, err := k.ask(soon(t), true); err != nil || got.Text != "Bye." {
		t.Fatalf("%+v, %v", got, err)
	}
	// What was not to be kept is not there.
	other := &responsesTalker{client: openAIClient(srv.URL)}
	other.tell("go")
	if _, err := other.ask(soon(t), true); err != nil {
		t.Fatal(err)
	}
	other.stored = true
	other.history = oairesponses.ResponseInputParam{param.Override[oairesponses.ResponseInputItemUnionParam](map[string]string{"role": "user", "content": "x"})}
	if _, err := other.ask(soon(t), true); err == nil {
		t.Error("a response that was not kept is known")
	}
}

func TestThreadsAreBounded(t *testing.T) {
	var th threads
	for i := range remembered + 10 {
		th.keep(string(rune('a'+i)), thread{open: []string{"x"}})
	}
	if len(th.known) != remembered || len(th.order) != remembered {
		t.Errorf("%d and %d are kept", len(th.known), len(th.order))
	}
	if _, ok := th.find("a"); ok {
		t.Error("the oldest is still there")
	}
}
