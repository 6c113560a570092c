package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// A Probe asks a local server for the name of a model that it has; empty: it has none, or it is not there.
type Probe func(ctx context.Context, baseURL string) string

// probeTime is how long a local server has to answer.
const probeTime = 150 * time.Millisecond

// Choose says which model to take when nobody chose one, and why: the first provider whose key is in the environment, in
// the order of the table; then a local server that answers, Ollama before llama.cpp before LM Studio; then demo/demo.
func Choose(o Options) (name, why string) {
	env := o.Env
	if env == nil {
		env = os.Getenv
	}
	for _, r := range rows {
		if r.model == "" {
			continue
		}
		for _, v := range r.keyEnv {
			if env(v) != "" {
				return r.name + "/" + r.model, v + " is set"
			}
		}
	}
	probe := o.Probe
	if probe == nil {
		probe = askModels
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	var locals []local
	for _, r := range rows {
		if r.format != "chat" || !r.free {
			continue
		}
		l := local{r, r.base, make(chan string, 1)}
		for _, v := range r.baseEnv {
			if at := env(v); at != "" {
				l.base = at
			}
		}
		locals = append(locals, l)
		go func() { l.model <- probe(ctx, l.base) }()
	}
	for _, l := range locals {
		if model := l.wait(ctx); model != "" {
			return l.name + "/" + model, fmt.Sprintf("%s answers at %s", l.name, l.base)
		}
	}
	return "demo/demo", "no key is set and no local server answers"
}

// A local is a local server that is being asked.
type local struct {
	row
	base  string
	model chan string
}

// wait is the model that the server has, if it says so in time.
func (l local) wait(ctx context.Context) string {
	select {
	case model := <-l.model:
		return model
	case <-ctx.Done():
	}
	select {
	case model := <-l.model: // it did while we waited for another
		return model
	default:
		return ""
	}
}

// askModels is the usual [Probe]: the first model that the server lists.
func askModels(ctx context.Context, baseURL string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, baseURL+"/models", nil)
	if err != nil {
		return ""
	}
	res, err := localClient.Do(r)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if res.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&list) != nil || len(list.Data) == 0 {
		return ""
	}
	return list.Data[0].ID
}

// localClient asks local servers only: by no proxy, and it leaves no connection behind.
var localClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
