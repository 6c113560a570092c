package mcp

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

//lint:file-ignore SA1019 see client.go

// This file is the servers of the tests. The test binary is one when its first argument is "serve"; the second says which.

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3:])
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // servers that leave at once
	goleak.VerifyTestMain(m)
}

func serve(kind string, args []string) {
	switch kind {
	case "good":
		good().Run(context.Background(), &sdk.StdioTransport{})
	case "noisy":
		fmt.Println("Welcome to the \x1b[31mnoisy\x1b[0m server!")
		fmt.Println(`{"level":"info","msg":"listening"}`)
		fmt.Fprintln(os.Stderr, "a line for stderr")
		good().Run(context.Background(), &sdk.StdioTransport{})
	case "exits":
		fmt.Fprintln(os.Stderr, "no token: set TOKEN")
		os.Exit(7)
	case "hangs":
		io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Hour) // also when it is asked to leave
	case "deaf":
		answer := bufio.NewReader(os.Stdin)
		for range 3 { // initialize, initialized, tools/list
			line, _ := answer.ReadString('\n')
			reply(line, nil)
		}
		time.Sleep(time.Hour)
	case "garbage":
		os.Stdout.Write([]byte{0, 1, 2, 0xff, '\n'})
		fmt.Println("this is not what you want")
		io.Copy(io.Discard, os.Stdin)
	case "flood":
		for chunk := []byte(strings.Repeat("x", 1<<16)); ; {
			if _, err := os.Stdout.Write(chunk); err != nil {
				return
			}
		}
	case "raw":
		raw(func(string) {}, args...)
	case "once": // ends after the first call
		raw(func(string) { os.Exit(3) }, "tool")
	case "double": // leaves somebody behind
		exec.Command("sleep", "600").Start()
		good().Run(context.Background(), &sdk.StdioTransport{})
	case "asks":
		asks()
	case "modern":
		modern()
	}
}

// png is the smallest there is.
var png, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

// good is a server as it should be.
func good() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "good", Version: "1.2.3"}, nil)
	anything := json.RawMessage(`{"type":"object"}`)
	add := func(name string, f func(ctx context.Context, r *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: anything}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args map[string]any
			json.Unmarshal(r.Params.Arguments, &args)
			return f(ctx, r, args)
		})
	}
	text := func(list ...string) (*sdk.CallToolResult, error) {
		r := &sdk.CallToolResult{}
		for _, t := range list {
			r.Content = append(r.Content, &sdk.TextContent{Text: t})
		}
		return r, nil
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments), "second part")
	})
	add("fail", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		r, _ := text("\nno such issue\nlook again")
		r.IsError = true
		return r, nil
	})
	add("refuse", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return nil, fmt.Errorf("not today")
	})
	add("image", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: png, MIMEType: "image/jpeg"}}}, nil // it lies
	})
	add("mixed", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{
			Content: []sdk.Content{
				&sdk.TextContent{Text: "look:"},
				&sdk.ImageContent{Data: png, MIMEType: "image/png"},
				&sdk.ResourceLink{URI: "file:///a", Name: "a", Description: "the file"},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:1", Text: "inside"}},
				&sdk.AudioContent{Data: []byte("la"), MIMEType: "audio/wav"},
			},
			StructuredContent: map[string]any{"n": 1},
		}, nil
	})
	add("structured", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: []int{1, 2}}, nil
	})
	add("huge", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return text("begin " + strings.Repeat("é line\n", 300_000) + "end")
	})
	add("slow", func(ctx context.Context, _ *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error) {
		touch(args["begun"])
		<-ctx.Done()
		touch(args["cancelled"])
		return nil, ctx.Err()
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		for i := range 3 {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3, Message: "step\x1b[31m"})
		}
		await(ctx, args["file"])
		return text("done")
	})
	add("die", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
		return nil, nil
	})
	add("env", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		dir, _ := os.Getwd()
		return text(append([]string{"DIR=" + dir}, os.Environ()...)...)
	})
	add("roots", func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		list, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, err
		}
		return text(list.Roots[0].URI)
	})
	add("change", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		add("new", nil)
		return text("changed")
	})
	add("child", func(_ context.Context, _ *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error) {
		c := exec.Command("sleep", "600")
		err := c.Start()
		return text(fmt.Sprint(c.Process.Pid, err))
	})
	return s
}

func touch(file any) {
	if name, ok := file.(string); ok {
		os.WriteFile(name, nil, 0o600)
	}
}

// await waits until there is a file.
func await(ctx context.Context, file any) {
	name, _ := file.(string)
	for ctx.Err() == nil {
		if _, err := os.Stat(name); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A message is JSON-RPC, as little as is needed.
type message struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// reply answers a line by hand: with a list of tools of these names, and calls with what call does.
func reply(line string, call func(string), names ...string) {
	var m message
	if json.Unmarshal([]byte(line), &m) != nil || m.ID == nil || m.Method == "" {
		return
	}
	say := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%v,"result":%s}`+"\n", m.ID, result) }
	switch m.Method {
	case "initialize":
		say(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"0"}}`)
	case "tools/list":
		var tools []string
		for _, n := range names {
			if strings.HasPrefix(n, "{") {
				tools = append(tools, n)
				continue
			}
			quoted, _ := json.Marshal(n)
			tools = append(tools, fmt.Sprintf(`{"name":%s,"description":"d","inputSchema":{"type":"object"}}`, quoted))
		}
		say(`{"tools":[` + strings.Join(tools, ",") + `]}`)
	case "tools/call":
		call(string(m.Params))
		say(`{"content":[{"type":"text","text":"called"}]}`)
	default:
		fmt.Printf(`{"jsonrpc":"2.0","id":%v,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
	}
}

// raw is a server by hand.
func raw(call func(string), names ...string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		reply(in.Text(), call, names...)
	}
}

// asks is a server whose tool asks a person and a model, and says what they answered.
func asks() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m message
		json.Unmarshal(in.Bytes(), &m)
		if m.Method != "tools/call" {
			reply(in.Text(), nil, "ask")
			continue
		}
		fmt.Println(`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"your name?","requestedSchema":{"type":"object","properties":{}}}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
		var got []string
		for len(got) < 2 && in.Scan() {
			var a message
			json.Unmarshal(in.Bytes(), &a)
			got = append(got, fmt.Sprintf("%v=%s%s", a.ID, a.Result, a.Error))
		}
		slices.Sort(got)
		text, _ := json.Marshal(strings.Join(got, " "))
		fmt.Printf(`{"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":%s}]}}`+"\n", m.ID, text)
	}
}

// modern is a server that knows only the newest handshake.
func modern() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m message
		json.Unmarshal(in.Bytes(), &m)
		switch m.Method {
		case "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%v,"error":{"code":-32022,"message":"no such version","data":{"supported":["2026-07-28"]}}}`+"\n", m.ID)
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%v,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`+"\n", m.ID)
		default:
			reply(in.Text(), func(string) {}, "new")
		}
	}
}
