package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// This file is what real clients want beyond the document: another model, another effort, further MCP servers. Each command is
// answered by a line that the document does not have, or by an error.

// configure changes the model, and how much it thinks, from the next message on.
func (d *aionrsDoor) configure(c event.SetConfig) {
	name := d.flagged + "/" + c.Model
	if c.Model != "" {
		if _, err := d.open(name); err != nil {
			d.talk.Protest("set_config: " + err.Error())
			return
		}
	}
	d.talk.Change(func(cfg *agent.Config) {
		if c.Thinking != "" {
			cfg.Thinking = c.Thinking
		}
		if c.Model != "" {
			cfg.Open = func(context.Context) (provider.Model, error) { return d.open(name) }
			cfg.Model, cfg.Price = c.Model, d.price(name, cfg.Provider, c.Model)
		}
	})
	d.told("aionrs.config_changed", map[string]any{"capabilities": d.capabilities()})
}

// capabilities are those that ready tells, and what can be chosen.
func (d *aionrsDoor) capabilities() any {
	return struct {
		event.Capabilities
		Effort  bool     `json:"effort"`
		Efforts []string `json:"effort_levels"`
		Modes   []string `json:"modes"`
		Mode    string   `json:"current_mode"`
	}{
		event.Capabilities{ToolApproval: true, Thinking: true, MCP: len(d.gear.tools()) > 0}, true, []string{"low", "medium", "high"},
		[]string{gate.ModeDefault, gate.ModeAutoEdit, gate.ModeYolo}, first(d.gate.Policy().Mode, gate.ModeDefault),
	}
}

// told tells a line that only this dialect has.
func (d *aionrsDoor) told(name string, fields any) {
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // they are ours
	}
	d.emit(event.Custom{Name: name, Fields: data})
}

// An addedServer is one that was started, or was not: then there are no tools.
type addedServer struct {
	name  string
	tools []tool.Tool
	err   error // if nobody has said why
}

// add starts a server, beside all else.
func (d *aionrsDoor) add(c event.AddServer) {
	d.adding++
	go func() {
		a := addedServer{name: c.Name}
		if c.Transport == "sse" {
			a.err = fmt.Errorf("MCP server %s: sse is not spoken here, streamable-http and stdio are", c.Name)
		} else {
			a.tools, a.err = d.addServer(d.ctx, mcp.Server{
				Name: c.Name, Command: c.Command, Env: c.Env, URL: c.URL, Headers: c.Headers, StartTimeout: mcpStart,
			})
		}
		select {
		case d.added <- a:
		case <-d.ctx.Done():
		}
	}()
}

// connected gives the session the tools of a server, and lets the messages in that waited for it.
func (d *aionrsDoor) connected(a addedServer) {
	d.adding--
	switch {
	case a.err != nil:
		d.emit(event.Error{Class: "mcp", Name: "MCPError", Source: a.name, Message: a.err.Error(), Retryable: new(false)})
	case a.tools != nil:
		names := []string{}
		for _, t := range a.tools {
			names = append(names, t.Spec().Name)
		}
		d.talk.Change(func(cfg *agent.Config) { cfg.Tools = slices.Concat(cfg.Tools, a.tools) })
		d.told("aionrs.mcp_ready", map[string]any{"name": a.name, "tools": names})
	}
	if d.adding > 0 {
		return
	}
	for _, m := range d.held {
		d.send(m)
	}
	d.held = nil
}
