package mcp

//lint:file-ignore SA1019 the newest protocol is about to drop roots and logging; the servers there are still use them

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// client is what we are to a server.
func (l *link) client(p *peer) *sdk.Client {
	c := sdk.NewClient(&sdk.Implementation{Name: "sluice", Version: l.hub.opt.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			l.sayOnce("has other tools now: this run keeps those that it began with")
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			l.notes.line(fmt.Sprintf("%s: %v", r.Params.Level, r.Params.Data))
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { p.progress(r.Params) },
	})
	root := url.URL{Scheme: "file", Path: filepath.ToSlash(l.hub.opt.Workspace)}
	c.AddRoots(&sdk.Root{URI: root.String(), Name: filepath.Base(l.hub.opt.Workspace)})
	c.AddReceivingMiddleware(l.decline)
	return c
}

// decline answers what only a person or a model could. It was never offered, but a server may ask all the same, and wait.
func (l *link) decline(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch method {
		case "elicitation/create":
			l.sayOnce("asked for a person's answer: nobody is there, it was declined")
			return &sdk.ElicitResult{Action: "decline"}, nil
		case "sampling/createMessage":
			l.sayOnce("asked for a model's answer: it was declined")
			return nil, &jsonrpc.Error{Code: -1, Message: "this client does not lend its model"}
		}
		return next(ctx, method, req)
	}
}
