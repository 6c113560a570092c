//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
)

func init() { programs["vault"] = vault }

// vault is an MCP server that has a text, and tells it to everybody: as it is, as an error, and at length. With a second
// argument its one tool has that name.
func vault() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		os.Exit(1)
	}
	tools := []string{"tell", "fail", "long"}
	if len(os.Args) > 2 {
		tools = os.Args[2:]
	}
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(line, &q) != nil || q.ID == nil {
			continue
		}
		var result any
		switch q.Method {
		case "initialize":
			result = map[string]any{
				"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "vault", "version": "1"},
			}
		case "tools/list":
			var list []any
			for _, name := range tools {
				list = append(list, map[string]any{"name": name, "description": "tells", "inputSchema": map[string]any{"type": "object"}})
			}
			result = map[string]any{"tools": list}
		case "tools/call":
			said := string(text)
			if q.Params.Name == "long" {
				said += "control-long\n" + strings.Repeat(strings.Repeat(".", 99)+"\n", 30_000) + said
			}
			result = map[string]any{
				"content": []any{map[string]any{"type": "text", "text": said}}, "structuredContent": map[string]any{"text": string(text)}, "isError": q.Params.Name == "fail",
			}
		}
		answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
		os.Stdout.Write(append(answer, '\n'))
	}
}
