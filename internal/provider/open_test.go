package provider

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// env is an environment.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestSplit(t *testing.T) {
	for name, want := range map[string][2]string{
		"anthropic/claude-sonnet-5-5":        {"anthropic", "claude-sonnet-5-5"},
		"openrouter/anthropic/claude-opus-5": {"openrouter", "anthropic/claude-opus-5"},
		"script/./a/b.yaml":                  {"script", "./a/b.yaml"},
		"script//tmp/b.yaml":                 {"script", "/tmp/b.yaml"},
		"demo/demo":                          {"demo", "demo"},
		"mine/x":                             {"mine", "x"},
	} {
		if p, m, err := Split(name, "mine"); p != want[0] || m != want[1] || err != nil {
			t.Errorf("%s: %s, %s, %v", name, p, m, err)
		}
	}
	for name, says := range map[string]string{
		"":                 "write provider/name, as in --model anthropic/",
		"claude-opus-5":    "--model anthropic/claude-opus-5",
		"gpt-6":            "--model openai/gpt-6",
		"groq":             "--model groq/",
		"llama":            "write provider/name",
		"/x":               "names no provider",
		"openai/":          "no name after the slash",
		"anthopic/x":       "did you mean anthropic/x? (there are: anthropic, bedrock, ",
		"Anthropic/x":      "did you mean anthropic/x?",
		"opnai/x":          "did you mean openai/x?",
		"watson/x":         `there is no provider "watson" (there are: `,
		"mini/x":           "did you mean mine/x?",
		"completely/other": "openai-responses, openrouter, script, together, vertex, xai)",
	} {
		_, _, err := Split(name, "mine")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", name, err, says)
		}
	}
}

// opened is what Open gave to a wire format.
func opened(t *testing.T, o Options) (target, error) {
	t.Helper()
	var got target
	for _, f := range []string{"anthropic", "chat"} {
		old := formats[f]
		formats[f] = func(t target) (Model, error) { got = t; return nil, nil }
		defer func() { formats[f] = old }()
	}
	_, err := Open(o)
	return got, err
}

func TestOpen(t *testing.T) {
	mine := map[string]Endpoint{
		"mine":   {Type: "anthropic", BaseURL: "https://mine.example/api/", KeyEnv: "MINE_KEY", Headers: map[string]string{"X-Team": "a"}},
		"bare":   {BaseURL: "http://127.0.0.1:9/v1"},
		"openai": {KeyEnv: "OTHER_KEY"},
		"wrong":  {Type: "soap"},
	}
	for name, tt := range map[string]struct {
		o                  Options
		base, key, keyName string
		class, says        string // of the error
	}{
		"key":                         {o: Options{Model: "anthropic/x", Env: env("ANTHROPIC_API_KEY", "k1\n")}, base: "https://api.anthropic.com", key: "k1", keyName: "ANTHROPIC_API_KEY"},
		"token":                       {o: Options{Model: "anthropic/x", Env: env("ANTHROPIC_AUTH_TOKEN", "k2")}, base: "https://api.anthropic.com", key: "k2", keyName: "ANTHROPIC_AUTH_TOKEN"},
		"the first counts":            {o: Options{Model: "anthropic/x", Env: env("ANTHROPIC_AUTH_TOKEN", "k2", "ANTHROPIC_API_KEY", "k1")}, base: "https://api.anthropic.com", key: "k1", keyName: "ANTHROPIC_API_KEY"},
		"given":                       {o: Options{Model: "anthropic/x", Key: "k3", Env: env("ANTHROPIC_API_KEY", "k1")}, base: "https://api.anthropic.com", key: "k3"},
		"address by environment":      {o: Options{Model: "anthropic/x", Key: "k", Env: env("ANTHROPIC_BASE_URL", "http://a.example/")}, base: "http://a.example", key: "k"},
		"address given":               {o: Options{Model: "anthropic/x", Key: "k", BaseURL: "http://b.example", Env: env("ANTHROPIC_BASE_URL", "http://a.example")}, base: "http://b.example", key: "k"},
		"no key":                      {o: Options{Model: "anthropic/x", Env: env()}, class: NoKey, says: "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"},
		"no key, but an address":      {o: Options{Model: "anthropic/x", BaseURL: "http://127.0.0.1:1", Env: env()}, class: NoKey, says: "ANTHROPIC_API_KEY"},
		"no key of openai":            {o: Options{Model: "openai/x", Env: env()}, class: NoKey, says: "set OPENAI_API_KEY"},
		"no key of a compatible":      {o: Options{Model: "groq/x", Env: env()}, class: NoKey, says: "set GROQ_API_KEY"},
		"local needs none":            {o: Options{Model: "ollama/x", Env: env()}, base: "http://127.0.0.1:11434/v1"},
		"local may have one":          {o: Options{Model: "ollama/x", Env: env("OLLAMA_API_KEY", "k", "OLLAMA_BASE_URL", "http://o.example/v1")}, base: "http://o.example/v1", key: "k", keyName: "OLLAMA_API_KEY"},
		"compatible":                  {o: Options{Model: "openrouter/a/b", Env: env("OPENROUTER_API_KEY", "k")}, base: "https://openrouter.ai/api/v1", key: "k", keyName: "OPENROUTER_API_KEY"},
		"an endpoint":                 {o: Options{Model: "mine/x", Endpoints: mine, Env: env("MINE_KEY", "k", "ANTHROPIC_BASE_URL", "http://a.example")}, base: "https://mine.example/api", key: "k", keyName: "MINE_KEY"},
		"its key is not there":        {o: Options{Model: "mine/x", Endpoints: mine, Env: env("ANTHROPIC_API_KEY", "k")}, class: NoKey, says: "set MINE_KEY"},
		"one without a key":           {o: Options{Model: "bare/x", Endpoints: mine, Env: env("OPENAI_API_KEY", "k")}, base: "http://127.0.0.1:9/v1"},
		"one for a known one":         {o: Options{Model: "openai/x", Endpoints: mine, Env: env("OTHER_KEY", "k", "OPENAI_API_KEY", "no")}, base: "https://api.openai.com/v1", key: "k", keyName: "OTHER_KEY"},
		"one of no type":              {o: Options{Model: "wrong/x", Endpoints: mine, Env: env()}, says: "soap"},
		"a name that is none":         {o: Options{Model: "x"}, says: "write provider/name"},
		"a key of two lines":          {o: Options{Model: "anthropic/x", Env: env("ANTHROPIC_API_KEY", "k1\nk2")}, class: NoKey, says: "set ANTHROPIC_API_KEY to the key alone"},
		"an address without http":     {o: Options{Model: "anthropic/x", BaseURL: "localhost:8080", Env: env("ANTHROPIC_API_KEY", "k")}, says: "write one like https://host/v1"},
		"one by environment":          {o: Options{Model: "openai/x", Env: env("OPENAI_API_KEY", "k", "OPENAI_BASE_URL", "/v1")}, says: "write one like https://host/v1"},
		"no region":                   {o: Options{Model: "bedrock/x", Env: env("AWS_ACCESS_KEY_ID", "a", "AWS_SECRET_ACCESS_KEY", "b")}, class: NoKey, says: "set AWS_REGION"},
		"no credentials":              {o: Options{Model: "bedrock/x", Env: env("AWS_REGION", "r", "AWS_EC2_METADATA_DISABLED", "true")}, class: NoKey, says: "set AWS_ACCESS_KEY_ID"},
		"no project":                  {o: Options{Model: "vertex/x", Key: "token", Env: env()}, class: NoKey, says: "set VERTEX_PROJECT_ID"},
		"no file":                     {o: Options{Model: "vertex/x", Env: env("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/x.json")}, class: NoKey, says: "check GOOGLE_APPLICATION_CREDENTIALS"},
		"no machine of Google's":      {o: Options{Model: "vertex/x", Env: env("GCE_METADATA_HOST", "127.0.0.1:1")}, class: NoKey, says: "gcloud auth application-default login"},
		"no machine of Amazon's":      {o: Options{Model: "bedrock/x", Env: env("AWS_REGION", "r", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")}, class: NoKey, says: "AWS_BEARER_TOKEN_BEDROCK"},
		"a profile that is not there": {o: Options{Model: "bedrock/x", Env: env("AWS_REGION", "r", "AWS_PROFILE", "p", "HOME", "/nowhere")}, class: NoKey, says: "check AWS_PROFILE"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := opened(t, tt.o)
			if tt.says != "" {
				var e *Error
				if err == nil || !strings.Contains(err.Error(), tt.says) || errors.As(err, &e) != (tt.class != "") || e != nil && e.Class != tt.class {
					t.Errorf("%+v", err)
				}
				return
			}
			if err != nil || got.BaseURL != tt.base || got.Key != tt.key || got.KeyEnv != tt.keyName || got.Provider+"/"+got.Model != tt.o.Model || got.Client == nil {
				t.Errorf("%v, %+v", err, got)
			}
		})
	}
	got, err := opened(t, Options{Model: "mine/x", Endpoints: mine, Env: env("MINE_KEY", "k"), Idle: time.Second, Client: http.DefaultClient})
	if err != nil || got.Headers["X-Team"] != "a" || got.Idle != time.Second || got.Client != http.DefaultClient {
		t.Errorf("%v, %+v", err, got)
	}
}

// Each row can be opened, and no two have a name.
func TestRows(t *testing.T) {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
		if formats[r.format] == nil {
			t.Errorf("%s speaks %s, which nobody does", r.name, r.format)
		}
		if !r.free && len(r.keyEnv) == 0 {
			t.Errorf("%s needs a key, and has no variable for it", r.name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(rows) {
		t.Errorf("a name stands twice in %v", names)
	}
}

func TestChoose(t *testing.T) {
	const ollama, llamacpp, lmstudio = "http://127.0.0.1:11434/v1", "http://127.0.0.1:8080/v1", "http://127.0.0.1:1234/v1"
	for name, tt := range map[string]struct {
		env    func(string) string
		local  map[string]string
		want   string
		reason string
	}{
		"nothing":         {env: env(), want: "demo/demo", reason: "no local server"},
		"anthropic":       {env: env("OPENAI_API_KEY", "k", "ANTHROPIC_API_KEY", "k"), local: map[string]string{ollama: "l"}, want: "anthropic/claude-sonnet-5-5", reason: "ANTHROPIC_API_KEY is set"},
		"openai":          {env: env("GROQ_API_KEY", "k", "OPENAI_API_KEY", "k"), want: "openai/gpt-6-sol", reason: "OPENAI_API_KEY"},
		"groq":            {env: env("GROQ_API_KEY", "k"), want: "groq/openai/gpt-oss-120b", reason: "GROQ_API_KEY"},
		"bedrock":         {env: env("AWS_BEARER_TOKEN_BEDROCK", "k", "AWS_ACCESS_KEY_ID", "k"), want: "bedrock/global.anthropic.claude-sonnet-5-5", reason: "AWS_BEARER_TOKEN_BEDROCK"},
		"not bedrock":     {env: env("AWS_ACCESS_KEY_ID", "k", "AWS_SECRET_ACCESS_KEY", "k"), want: "demo/demo"},
		"local":           {env: env(), local: map[string]string{lmstudio: "c", llamacpp: "b"}, want: "llamacpp/b", reason: llamacpp},
		"ollama first":    {env: env(), local: map[string]string{lmstudio: "c", ollama: "a:7b"}, want: "ollama/a:7b", reason: "ollama answers"},
		"local elsewhere": {env: env("LMSTUDIO_BASE_URL", "http://l.example/v1"), local: map[string]string{"http://l.example/v1": "m"}, want: "lmstudio/m"},
	} {
		got, why := Choose(Options{Env: tt.env, Probe: func(_ context.Context, base string) string { return tt.local[base] }})
		if got != tt.want || !strings.Contains(why, tt.reason) {
			t.Errorf("%s: %s, %s", name, got, why)
		}
		if _, _, err := Split(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A local server that does not answer costs the patience of all together, not of each; one that answers is taken all the same.
func TestChooseDoesNotWait(t *testing.T) {
	hang := func(ctx context.Context, base string) string {
		if strings.Contains(base, "1234") {
			return "m"
		}
		<-ctx.Done()
		return ""
	}
	began := time.Now()
	if got, _ := Choose(Options{Env: env(), Probe: hang}); got != "lmstudio/m" {
		t.Error(got)
	}
	if took := time.Since(began); took > 10*probeTime {
		t.Errorf("it took %v", took)
	}
}

func TestAskModels(t *testing.T) {
	for body, want := range map[string]string{
		`{"object":"list","data":[{"id":"qwen3:8b"},{"id":"other"}]}`: "qwen3:8b",
		`{"data":[]}`: "", `<html>`: "", `{"data":null}`: "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(body))
		}))
		if got := askModels(t.Context(), s.URL+"/v1"); got != want {
			t.Errorf("%s: %q", body, got)
		}
		if got := askModels(t.Context(), s.URL+"/other"); got != "" {
			t.Errorf("a page that is not there has the model %q", got)
		}
		s.Close()
		if got := askModels(t.Context(), s.URL+"/v1"); got != "" {
			t.Errorf("a server that is gone has the model %q", got)
		}
	}
}

// The document has every provider as it is.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| provider ") {
			table = append(table, line)
		}
	}
	if len(table) != len(rows) {
		t.Fatalf("%d providers in the document, %d in the program", len(table), len(rows))
	}
	for i, r := range rows {
		want := append([]string{"| " + r.name + " |", r.base, r.model + " |"}, append(r.keyEnv, r.baseEnv...)...)
		for _, w := range want {
			if !strings.Contains(table[i], w) {
				t.Errorf("%s: %q is not in %s", r.name, w, table[i])
			}
		}
	}
}
