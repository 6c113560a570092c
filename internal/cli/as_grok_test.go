package cli

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// Which model a name means, by what else is said: the table of docs/as-grok.md.
func TestGrokModel(t *testing.T) {
	const closed = "http://127.0.0.1:1/v1"
	for name, c := range map[string]struct {
		env     string // name=value, separated by blanks
		model   string // -m
		flagged bool   // -k or -u is given
		want    string
	}{
		"provider and name":       {model: "anthropic/claude", want: "anthropic/claude"},
		"by SLUICE_MODEL":         {env: "SLUICE_MODEL=openai/gpt GROK_API_KEY=k", model: "grok-4", want: "openai/grok-4"},
		"a script has one":        {env: "SLUICE_MODEL=script/./a.yaml", model: "grok-4", want: "script/./a.yaml"},
		"the demo has one":        {env: "SLUICE_MODEL=demo/demo", model: "grok-4", want: "demo/demo"},
		"by flag":                 {env: "ANTHROPIC_API_KEY=k", model: "grok-4", flagged: true, want: "xai/grok-4"},
		"by GROK_API_KEY":         {env: "ANTHROPIC_API_KEY=k GROK_API_KEY=k", model: "grok-4", want: "xai/grok-4"},
		"by GROK_BASE_URL":        {env: "ANTHROPIC_API_KEY=k GROK_BASE_URL=http://h/v1", model: "grok-4", want: "xai/grok-4"},
		"by XAI_API_KEY":          {env: "ANTHROPIC_API_KEY=k XAI_API_KEY=k", model: "grok-4", want: "xai/grok-4"},
		"by the first key":        {env: "OPENAI_API_KEY=k ANTHROPIC_API_KEY=k", model: "claude", want: "anthropic/claude"},
		"by nothing":              {model: "grok-4", want: "xai/grok-4"},
		"GROK_MODEL":              {env: "GROK_MODEL=grok-4 GROK_API_KEY=k", want: "xai/grok-4"},
		"SLUICE_MODEL goes first": {env: "GROK_MODEL=grok-4 SLUICE_MODEL=openai/gpt", want: ""},
		"the flag goes before":    {env: "GROK_MODEL=grok-4 GROK_API_KEY=k", model: "grok-3", want: "xai/grok-3"},
		"nobody named one":        {env: "GROK_API_KEY=k", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{"SLUICE_MODEL", "GROK_MODEL", "GROK_API_KEY", "GROK_BASE_URL", "XAI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"} {
				t.Setenv(v, "")
			}
			for _, v := range []string{"OLLAMA_BASE_URL", "LLAMACPP_BASE_URL", "LMSTUDIO_BASE_URL"} {
				t.Setenv(v, closed)
			}
			for kv := range strings.FieldsSeq(c.env) {
				k, v, _ := strings.Cut(kv, "=")
				t.Setenv(k, v)
			}
			if got := grokModel(c.model, c.flagged); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// Every outcome has a code of its table; signals have their own.
func TestGrokExit(t *testing.T) {
	want := map[event.Outcome]int{
		event.Done: 0, event.Misuse: 1, event.Unavailable: 2, event.Stalled: 2, event.Failed: 3, event.Denied: 3, event.Budget: 3,
		event.Unverified: 3, event.Timeout: 3, event.Internal: 4, event.Cancelled: 143,
	}
	for o := range exits {
		if got := grokExit(event.RunEnd{Outcome: o, Code: "143"}, outcome.Verdict{}); got != want[o] {
			t.Errorf("%s is %d, want %d", o, got, want[o])
		}
	}
}
