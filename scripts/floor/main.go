// Floor is the least that an agent can do: it posts the request, copies the model's stream to stdout, one line per event,
// runs the commands that the model asks for, and posts again. `make bench` measures `sluice run` against it. It has no
// journal, no gate and no promises.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
)

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type streamed struct {
	Type  string `json:"type"`
	Block block  `json:"content_block"`
	Delta struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Partial string `json:"partial_json"`
	} `json:"delta"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(prompt string) error {
	history := []message{{"user", []block{{Type: "text", Text: prompt}}}}
	for {
		answer, err := ask(history)
		if err != nil {
			return err
		}
		history = append(history, message{"assistant", answer})
		var results []block
		for _, b := range answer {
			if b.Type == "tool_use" {
				var in struct {
					Command string `json:"command"`
				}
				json.Unmarshal(b.Input, &in)
				out, _ := exec.Command("bash", "-c", in.Command).CombinedOutput()
				results = append(results, block{Type: "tool_result", ToolUseID: b.ID, Content: string(out)})
			}
		}
		if results == nil {
			return nil
		}
		history = append(history, message{"user", results})
	}
}

// ask posts the history and copies what comes.
func ask(history []message) (answer []block, err error) {
	body, err := json.Marshal(map[string]any{"model": "m", "max_tokens": 8192, "stream": true, "messages": history})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest("POST", os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var text []byte // of the open block
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		os.Stdout.Write(append(data, '\n'))
		var e streamed
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		switch e.Type {
		case "content_block_start":
			e.Block.Input = nil
			answer, text = append(answer, e.Block), nil
		case "content_block_delta":
			text = append(append(text, e.Delta.Text...), e.Delta.Partial...)
		case "content_block_stop":
			if last := &answer[len(answer)-1]; last.Type == "tool_use" {
				last.Input = text
			} else {
				last.Text = string(text)
			}
		}
	}
	return answer, lines.Err()
}
