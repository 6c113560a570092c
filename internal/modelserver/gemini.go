package modelserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/script"
)

// gemini is Google's Gemini API.
type gemini struct {
	model  string
	method string // generateContent, streamGenerateContent, countTokens
}

type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	System   geminiContent   `json:"systemInstruction"`
	Snake    geminiContent   `json:"system_instruction"` // both ways of writing are good
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      *string         `json:"text,omitempty"`
	Thought   bool            `json:"thought,omitempty"`
	Signature string          `json:"thoughtSignature,omitempty"`
	Call      *geminiCall     `json:"functionCall,omitempty"`
	Response  *geminiResponse `json:"functionResponse,omitempty"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type geminiResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

func (c geminiContent) text() string {
	var b strings.Builder
	for _, p := range c.Parts {
		if p.Text != nil && !p.Thought {
			b.WriteString(*p.Text)
		}
	}
	return b.String()
}

var geminiPath = pattern.Lazy(`^/v1(?:beta|alpha)?/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)$`)

func geminiAt(path string) (gemini, bool) {
	m := geminiPath().FindStringSubmatch(path)
	if m == nil {
		return gemini{}, false
	}
	return gemini{model: m[1], method: m[2]}, true
}

func (gemini) name() string { return "gemini" }

func (gemini) admit(r *request) error {
	key := r.server.options.Key
	if key == "" || r.Header.Get("X-Goog-Api-Key") == key || r.URL.Query().Get("key") == key || r.bearer() == key {
		return nil
	}
	return refusal{status: http.StatusUnauthorized, message: "API key not valid"}
}

func (gemini) refuse(r refusal) (http.Header, []byte) { return nil, encode(googleError(r)) }

func (g gemini) read(r *request) (ask, error) {
	var q geminiRequest
	if err := r.decode(&q); err != nil {
		return ask{}, err
	}
	if g.method == "countTokens" {
		return ask{whole: encode(map[string]int{"totalTokens": r.tokens()})}, nil
	}
	if err := q.check(); err != nil {
		return ask{}, err
	}
	return ask{seen: q.seen(g.model), stream: g.method == "streamGenerateContent", voice: func(t script.Turn, s *stage) voice {
		return &geminiVoice{turn: t, stage: s, id: r.id("resp-"), events: r.URL.Query().Get("alt") == "sse"}
	}}, nil
}

func (q *geminiRequest) seen(model string) script.Seen {
	g := glance{Seen: script.Seen{Model: model, System: q.System.text() + q.Snake.text()}}
	for _, c := range q.Contents {
		if c.Role == "model" {
			g.answer()
		} else {
			g.message(c.text(), c.last())
		}
	}
	return g.Seen
}

// last returns the last text, or what the last tool said.
func (c geminiContent) last() string {
	for i := len(c.Parts) - 1; i >= 0; i-- {
		if p := c.Parts[i]; p.Text != nil {
			return *p.Text
		} else if p.Response != nil {
			return geminiOutput(p.Response.Response)
		}
	}
	return ""
}

// geminiOutput is the text of a function's response: one of the names it usually goes by, or all of it.
func geminiOutput(data json.RawMessage) string {
	var named map[string]json.RawMessage
	if json.Unmarshal(data, &named) == nil {
		for _, name := range []string{"output", "result", "content", "error"} {
			var text string
			if json.Unmarshal(named[name], &text) == nil {
				return text
			}
		}
	}
	return string(data)
}

// check says what Gemini would refuse. Neighbours of one role are one turn.
func (q *geminiRequest) check() error {
	if len(q.Contents) == 0 {
		return refused("* GenerateContentRequest.contents: contents is not specified")
	}
	var turns []geminiContent
	for i, c := range q.Contents {
		switch c.Role {
		case "user", "model":
		case "", "function":
			c.Role = "user"
		default:
			return refused("please use a valid role: user, model; contents[%d] has %q", i, c.Role)
		}
		if len(c.Parts) == 0 {
			return refused("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty", i)
		}
		for j, p := range c.Parts {
			if err := checkGeminiPart(i, j, c.Role, p); err != nil {
				return err
			}
		}
		if n := len(turns); n > 0 && turns[n-1].Role == c.Role {
			turns[n-1].Parts = append(turns[n-1].Parts[:len(turns[n-1].Parts):len(turns[n-1].Parts)], c.Parts...)
			continue
		}
		turns = append(turns, c)
	}
	if turns[0].Role != "user" || turns[len(turns)-1].Role != "user" {
		return refused("please ensure that the conversation begins and ends with a user turn or a function response")
	}
	var open []string // names of the functions that the turn before called
	for _, t := range turns {
		var called, answered []string
		for _, p := range t.Parts {
			switch {
			case p.Call != nil:
				called = append(called, p.Call.Name)
			case p.Response != nil:
				answered = append(answered, p.Response.Name)
			}
		}
		if len(answered) != len(open) {
			return refused("please ensure that the number of function response parts (%d) is equal to the number of function call parts (%d) of the function call turn", len(answered), len(open))
		}
		for i, name := range answered {
			if open[i] != name {
				return refused("a function response is for %s, and the call was of %s", name, open[i])
			}
		}
		open = called
	}
	return nil
}

func checkGeminiPart(i, j int, role string, p geminiPart) error {
	switch {
	case p.Call != nil && role != "model":
		return refused("contents[%d].parts[%d]: a function call is the model's", i, j)
	case p.Call != nil && p.Call.Name == "":
		return refused("contents[%d].parts[%d].function_call.name: must not be empty", i, j)
	case p.Call != nil && len(p.Call.Args) > 0 && !bytes.HasPrefix(p.Call.Args, []byte("{")):
		return refused("contents[%d].parts[%d].function_call.args: must be an object", i, j)
	case p.Call != nil && p.Signature != "" && p.Signature != geminiSeal(p.Call):
		return refused("contents[%d].parts[%d]: thought signature is not valid", i, j)
	case p.Response != nil && role != "user":
		return refused("contents[%d].parts[%d]: a function response is not the model's", i, j)
	case p.Response != nil && !bytes.HasPrefix(p.Response.Response, []byte("{")):
		return refused("contents[%d].parts[%d].function_response.response: must be an object", i, j)
	}
	return nil
}

// geminiSeal is the signature of a call. Clients write arguments anew, so it goes by what they mean.
func geminiSeal(c *geminiCall) string {
	var args any
	if json.Unmarshal(c.Args, &args) != nil {
		args = string(c.Args)
	}
	return seal(c.Name + string(encode(args)))
}
