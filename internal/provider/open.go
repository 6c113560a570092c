package provider

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sluice-dev/sluice/internal/spell"
)

// Options say which model, and where it is.
type Options struct {
	Model     string              // provider/name
	BaseURL   string              // address of the server; empty: by the environment, else the vendor's
	Key       string              // empty: from the environment
	Env       func(string) string // nil: os.Getenv
	Endpoints map[string]Endpoint // further providers, by name, from the user's config; one may take a known one's place
	Client    *http.Client        // nil: one that all models share
	Idle      time.Duration       // how long a server may be silent; 0: as long as it likes
	Probe     Probe               // for [Choose]; nil: ask
}

// An Endpoint is a provider of the user's own.
type Endpoint struct {
	Type    string            // whose wire format it speaks: a known provider; empty: openai
	BaseURL string            // empty: the known provider's
	KeyEnv  string            // the variable that has the key; empty: it needs none
	Headers map[string]string // sent with every request
}

// A target is what [Open] found out for the file that speaks to the server.
type target struct {
	Provider string // before the slash
	Model    string // after it
	BaseURL  string // without a slash at its end; empty: the vendor's own
	Key      string
	KeyEnv   string // the variable that had the key
	Headers  map[string]string
	Env      func(string) string
	Client   *http.Client
	Idle     time.Duration
}

// formats open a model by the wire format that it speaks. One file each.
var formats = map[string]func(target) (Model, error){
	"anthropic": newAnthropic,
	"bedrock":   newBedrock,
	"vertex":    newVertex,
	"chat":      newChat,
	"responses": newResponses,
	"script":    newScript,
	"demo":      newDemo,
}

// A row is a provider that is known by name.
type row struct {
	name    string
	format  string   // of formats
	base    string   // its address
	baseEnv []string // variables that may say another
	keyEnv  []string // variables that may have the key; the first one counts
	free    bool     // it may be asked without a key
	model   string   // for [Choose], when its key is there and nobody chose
}

// rows are the known providers. Their order is the order in which [Choose] looks for keys.
var rows = []row{
	{name: "anthropic", format: "anthropic", base: "https://api.anthropic.com", baseEnv: []string{"ANTHROPIC_BASE_URL"}, keyEnv: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, model: "claude-sonnet-5-5"},
	{name: "openai", format: "chat", base: "https://api.openai.com/v1", baseEnv: []string{"OPENAI_BASE_URL"}, keyEnv: []string{"OPENAI_API_KEY"}, model: "gpt-6-sol"},
	{name: "openai-responses", format: "responses", base: "https://api.openai.com/v1", baseEnv: []string{"OPENAI_BASE_URL"}, keyEnv: []string{"OPENAI_API_KEY"}},
	{name: "gemini", format: "chat", base: "https://generativelanguage.googleapis.com/v1beta/openai", keyEnv: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, model: "gemini-3.8-flash"},
	{name: "openrouter", format: "chat", base: "https://openrouter.ai/api/v1", keyEnv: []string{"OPENROUTER_API_KEY"}, model: "anthropic/claude-sonnet-5.5"},
	{name: "mistral", format: "chat", base: "https://api.mistral.ai/v1", keyEnv: []string{"MISTRAL_API_KEY"}, model: "devstral-2512"},
	{name: "deepseek", format: "chat", base: "https://api.deepseek.com/v1", keyEnv: []string{"DEEPSEEK_API_KEY"}, model: "deepseek-v4-pro"},
	{name: "xai", format: "chat", base: "https://api.x.ai/v1", baseEnv: []string{"GROK_BASE_URL"}, keyEnv: []string{"GROK_API_KEY", "XAI_API_KEY"}, model: "grok-4.6"},
	{name: "groq", format: "chat", base: "https://api.groq.com/openai/v1", keyEnv: []string{"GROQ_API_KEY"}, model: "openai/gpt-oss-120b"},
	{name: "together", format: "chat", base: "https://api.together.xyz/v1", keyEnv: []string{"TOGETHER_API_KEY"}, model: "openai/gpt-oss-120b"},
	{name: "fireworks", format: "chat", base: "https://api.fireworks.ai/inference/v1", keyEnv: []string{"FIREWORKS_API_KEY"}, model: "accounts/fireworks/models/gpt-oss-120b"},
	{name: "cerebras", format: "chat", base: "https://api.cerebras.ai/v1", keyEnv: []string{"CEREBRAS_API_KEY"}, model: "gpt-oss-120b"},
	{name: "ollama", format: "chat", base: "http://127.0.0.1:11434/v1", baseEnv: []string{"OLLAMA_BASE_URL"}, keyEnv: []string{"OLLAMA_API_KEY"}, free: true},
	{name: "llamacpp", format: "chat", base: "http://127.0.0.1:8080/v1", baseEnv: []string{"LLAMACPP_BASE_URL"}, keyEnv: []string{"LLAMACPP_API_KEY"}, free: true},
	{name: "lmstudio", format: "chat", base: "http://127.0.0.1:1234/v1", baseEnv: []string{"LMSTUDIO_BASE_URL"}, keyEnv: []string{"LMSTUDIO_API_KEY"}, free: true},
	{name: "bedrock", format: "bedrock", baseEnv: []string{"AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "ANTHROPIC_BEDROCK_BASE_URL"}, keyEnv: []string{"AWS_BEARER_TOKEN_BEDROCK"}, free: true, model: "global.anthropic.claude-sonnet-5-5"},
	{name: "vertex", format: "vertex", baseEnv: []string{"ANTHROPIC_VERTEX_BASE_URL"}, free: true},
	{name: "script", format: "script", free: true},
	{name: "demo", format: "demo", free: true},
}

func known(name string) (row, bool) {
	i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}

// Split takes a model's name apart, and says what is wrong with it. It looks for no key. Names of further providers may
// be given.
func Split(name string, endpoints ...string) (provider, model string, err error) {
	provider, model, ok := strings.Cut(name, "/")
	switch {
	case name == "":
		return "", "", fmt.Errorf("no model: write provider/name, as in --model anthropic/%s", rows[0].model)
	case !ok || provider == "":
		return "", "", fmt.Errorf("the model %q names no provider: write provider/name, as in --model %s", name, guess(name))
	case model == "":
		return "", "", fmt.Errorf("the model %q has no name after the slash: write provider/name", name)
	}
	if _, ok := known(provider); ok || slices.Contains(endpoints, provider) {
		return provider, model, nil
	}
	names := slices.Clone(endpoints)
	for _, r := range rows {
		names = append(names, r.name)
	}
	slices.Sort(names)
	hint := ""
	if near := spell.Nearest(provider, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s/%s?", near, model)
	}
	return "", "", fmt.Errorf("there is no provider %q%s (there are: %s)", provider, hint, strings.Join(slices.Compact(names), ", "))
}

// guess is what somebody may have meant who gave no provider.
func guess(model string) string {
	for _, g := range []struct{ prefix, provider string }{
		{"claude", "anthropic"}, {"gpt", "openai"}, {"o1", "openai"}, {"o3", "openai"}, {"o4", "openai"}, {"gemini", "gemini"}, {"grok", "xai"},
		{"deepseek", "deepseek"}, {"mistral", "mistral"}, {"devstral", "mistral"}, {"codestral", "mistral"}, {"anthropic.", "bedrock"},
	} {
		if strings.HasPrefix(model, g.prefix) {
			return g.provider + "/" + model
		}
	}
	if r, ok := known(strings.TrimSuffix(model, "/")); ok && r.model != "" {
		return r.name + "/" + r.model
	}
	return "anthropic/" + rows[0].model
}

// Open opens a model: it looks for key and address, and sends nothing. The error of a name is as [Split] has it; what is
// missing in the environment is an [*Error] of class [NoKey].
func Open(o Options) (Model, error) {
	provider, model, err := Split(o.Model, slices.Collect(maps.Keys(o.Endpoints))...)
	if err != nil {
		return nil, err
	}
	env := o.Env
	if env == nil {
		env = os.Getenv
	}
	t := target{Provider: provider, Model: model, Key: o.Key, Env: env, Client: o.Client, Idle: o.Idle}
	if t.Client == nil {
		t.Client = sharedClient()
	}
	r, _ := known(provider)
	e, own := o.Endpoints[provider]
	if own {
		kind := cmp.Or(e.Type, "openai")
		as, ok := known(kind)
		if !ok {
			return nil, fmt.Errorf("the endpoint %s has the type %q, which is no provider's: openai, openai-responses and anthropic are", provider, kind)
		}
		r = row{name: provider, format: as.format, base: cmp.Or(e.BaseURL, as.base), free: e.KeyEnv == "", keyEnv: []string{e.KeyEnv}}
		t.Headers = e.Headers
	}
	t.BaseURL = o.BaseURL
	for _, v := range r.baseEnv {
		t.BaseURL = cmp.Or(t.BaseURL, env(v))
	}
	t.BaseURL = strings.TrimRight(cmp.Or(t.BaseURL, r.base), "/")
	for _, v := range r.keyEnv {
		if t.Key == "" && v != "" && env(v) != "" {
			t.Key, t.KeyEnv = strings.TrimSpace(env(v)), v
		}
	}
	if u, err := url.Parse(t.BaseURL); t.BaseURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return nil, fmt.Errorf("the base URL %q of %s is none: write one like https://host/v1", redact(t.BaseURL, []string{t.Key}), provider)
	}
	if t.Key == "" && !r.free {
		return nil, &Error{Class: NoKey, Message: fmt.Sprintf("no key for %s: set %s, or choose another model with --model", provider, strings.Join(r.keyEnv, " or "))}
	}
	if strings.ContainsFunc(t.Key, unicode.IsControl) { // it would be taken for a server that cannot be reached, and tried for minutes
		return nil, &Error{Class: NoKey, Message: fmt.Sprintf("the key for %s has a line break or the like in it: set %s to the key alone", provider, cmp.Or(t.KeyEnv, "it"))}
	}
	open := formats[r.format]
	if open == nil {
		return nil, fmt.Errorf("%s models cannot be opened", provider)
	}
	return open(t)
}

// sharedClient is the one client that all models of a process use, so that they share connections.
var sharedClient = sync.OnceValue(func() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   15 * time.Second,
			ResponseHeaderTimeout: 10 * time.Minute, // a local model may think that long before it begins
			ExpectContinueTimeout: time.Second,
			MaxIdleConns:          32,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
			DisableCompression:    true, // what is compressed comes in lumps
		},
		// A redirect would take the key along, or lose the body.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
})
