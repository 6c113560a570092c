package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`
model = "lab/qwen"
allow = ["bash(git *)"]

[endpoints.lab]
type = "openai"
base_url = "http://127.0.0.1:9/v1"
headers = {X-Team = "a"}

[prices."lab/qwen"]
input = 0.5
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Model: "lab/qwen", Allow: []string{"bash(git *)"},
		Endpoints: map[string]Endpoint{"lab": {Type: "openai", BaseURL: "http://127.0.0.1:9/v1", Headers: map[string]string{"X-Team": "a"}}},
		Prices:    map[string]Price{"lab/qwen": {Input: 0.5}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for in, want := range map[string]string{
		"modell = \"x\"":                          `line 1: there is no key "modell"; is "model" meant?`,
		"\n[endpoints.a]\nbaseurl = \"x\"":        `line 3: there is no key "endpoints.a.baseurl"; is "base_url" meant?`,
		"colour = 1":                              `line 1: there is no key "colour"`,
		"[endpoints.a]\nkey = \"sk-very-secret\"": `line 2: there is no key "endpoints.a.key"`,
	} {
		if _, err := Parse([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
	if _, err := Parse([]byte("model = ")); err == nil {
		t.Error("half a line is taken")
	}
}

func TestReadWithoutFile(t *testing.T) {
	if c, err := Read(filepath.Join(t.TempDir(), "none.toml")); err != nil || c.Model != "" {
		t.Error(c, err)
	}
}

func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		env           map[string]string
		config, state string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.config/sluice/config.toml", "/h/.local/state/sluice"},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/sluice/config.toml", "/s/sluice"},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.config/sluice/config.toml", "/h/.local/state/sluice"},
		{nil, "", ""},
	} {
		env := func(k string) string { return tt.env[k] }
		c, cerr := Path(env)
		s, serr := State(env)
		if c != tt.config || s != tt.state || (cerr == nil) != (c != "") || (serr == nil) != (s != "") {
			t.Errorf("%v: %q %v, %q %v", tt.env, c, cerr, s, serr)
		}
	}
}
