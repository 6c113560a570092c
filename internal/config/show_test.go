package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What may be a secret is shown nowhere; all else is.
func TestValuesHideSecrets(t *testing.T) {
	w := newWorld(t)
	w.write(w.user, `
model = "a/b"
deny = ["bash(curl https://x.test/?a=b)", "read(\"x\")"]
[endpoints.e]
base_url = "https://me:hunter2@e.test/v1?key=hunter2"
key_env = "E_KEY"
headers = {X-Api-Key = "hunter2", "a b" = "hunter2"}
[mcp.s]
command = ["run", "--api-key", "hunter2", "--token=hunter2", "PASSWORD=hunter2", "plain"]
args = ["-H", "Authorization: Bearer hunter2", "https://u:hunter2@x.test/y", "--verbose", "on"]
env = {TOKEN = "hunter2"}
timeout = "5s"
[mcp.u]
url = "https://u.test/mcp?token=hunter2"
headers.Authorization = "Bearer hunter2"
[hooks]
end = [["notify", "--secret", "hunter2"]]
[prices."a/b"]
input = 1.5
`)
	l := w.mustLoad(Flags{})
	var lines []string
	for _, v := range l.Values() {
		if v.From == w.user {
			lines = append(lines, v.Key+" = "+v.Text())
		}
	}
	want := []string{
		`model = "a/b"`,
		`deny = "bash(curl https://x.test/?a=b)"`,
		`deny = "read(\"x\")"`,
		`hooks.end = ["notify", "--secret", "(hidden)"]`,
		`mcp.s.command = ["run", "--api-key", "(hidden)", "--token=(hidden)", "PASSWORD=(hidden)", "plain"]`,
		`mcp.s.args = ["-H", "Authorization:(hidden)", "https://(hidden)@x.test/y", "--verbose", "on"]`,
		`mcp.s.env = { TOKEN = "(hidden)" }`,
		`mcp.s.timeout = "5s"`,
		`mcp.u.url = "https://u.test/mcp?(hidden)"`,
		`mcp.u.headers = { Authorization = "(hidden)" }`,
		`endpoints.e.base_url = "https://(hidden)@e.test/v1?(hidden)"`,
		`endpoints.e.key_env = "E_KEY"`,
		`endpoints.e.headers = { X-Api-Key = "(hidden)", "a b" = "(hidden)" }`,
		`prices."a/b".input = 1.5`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	data, err := json.Marshal(l.Values())
	if err != nil || strings.Contains(string(data), "hunter2") {
		t.Errorf("%s %v", data, err)
	}
}

// The document names every key with what a file that is not trusted may do with it, and every variable; its examples are good.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	powers := map[power]string{never: "no", fill: "if you have not", tighten: "only stricter", add: "adds"}
	var rows []string
	for _, k := range keys {
		variable := ""
		if k.variable() != "" {
			variable = "`" + k.variable() + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", k.name, variable, powers[k.may]))
	}
	row := regexp.MustCompile("(?m)^\\| (`[a-z_.]+`) \\|[^|]*\\|[^|]*\\|([^|]*)\\|([^|]*)\\|$")
	var got []string
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		got = append(got, fmt.Sprintf("| %s | %s | %s |", m[1], strings.TrimSpace(m[2]), strings.TrimSpace(m[3])))
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	if len(blocks) == 0 {
		t.Error("there are no examples")
	}
	for _, b := range blocks {
		if _, err := Parse([]byte(b[1])); err != nil {
			t.Errorf("%s\n%v", b[1], err)
		}
	}
}
