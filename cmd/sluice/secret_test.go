//go:build unix

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/dialect"
)

// A plant is a secret that is planted everywhere, and must come up nowhere.
type plant struct{ name, text string }

// plants makes secrets in the alphabets that keys are made of, under names that say so.
func plants(t *testing.T, n int) (list []plant) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	alphabets := []string{
		letters, letters + "+/", letters + "-_", "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
		letters + `!"#$%&'()*,-./:;<=>?@[\]^_{|}~` + "`", letters + "äöüßéłжшч", "0123456789", letters + " ",
	}
	names := []string{
		"S%d_API_KEY", "S%d_TOKEN", "S%d_SECRET", "DB%d_PASSWORD", "S%d_ACCESS_KEY", "S%d_PRIVATE_KEY", "S%d_PAT", "S%d_CREDENTIALS", "s%d_auth", "S%d_PASSPHRASE",
		"S%d_SECRET_ACCESS_KEY", "apikey%d",
	}
	prefixes := []string{"", "sk-", "ghp_", "xoxb-", ""}
	for i := range n {
		runes := []rune(alphabets[i%len(alphabets)])
		text := prefixes[i%len(prefixes)] + "x"
		for range 12 + r.IntN(36) {
			text += string(runes[r.IntN(len(runes))])
		}
		text = strings.ReplaceAll(text, `\n`, `\m`) // a sieve would take it for the end of a line
		list = append(list, plant{fmt.Sprintf(names[i%len(names)], i), text + "y"})
	}
	return list
}

// forms are the ways in which a secret would be recognised: as it is, in JSON, in a URL, in hexadecimal, and in base64 wherever
// it begins. They are made here in another way than where they are looked for.
func (p plant) forms() []string {
	quoted, _ := json.Marshal(p.text)
	twice, _ := json.Marshal(string(quoted))
	forms := []string{p.text, string(quoted[1 : len(quoted)-1]), string(twice[3 : len(twice)-3]), url.QueryEscape(p.text), url.PathEscape(p.text)}
	h := hex.EncodeToString([]byte(p.text))
	forms = append(forms, h, strings.ToUpper(h))
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			// What is the same whatever stands before and after it.
			a := e.EncodeToString([]byte("\x00\x00\x00"[:before] + p.text + "\x00\x00"))
			b := e.EncodeToString([]byte("\xff\xff\xff"[:before] + p.text + "\xff\xff"))
			from := 0
			for from < len(a) && a[from] != b[from] {
				from++
			}
			to := from
			for to < len(a) && a[to] == b[to] {
				to++
			}
			forms = append(forms, a[from:to])
		}
	}
	return forms
}

// A sieve finds forms of secrets by how they begin.
type sieve map[[sieved]byte][]grain

type grain struct{ name, form string }

const sieved = 8 // bytes; every form of a secret is longer

func newSieve(secrets []plant) sieve {
	s := sieve{}
	for _, p := range secrets {
		for _, form := range p.forms() {
			begins := [sieved]byte([]byte(form))
			s[begins] = append(s[begins], grain{p.name, form})
		}
	}
	return s
}

// leak says which secret is in an output, and in which form. Line breaks, and what stands for one in JSON, do not hide any.
func (s sieve) leak(data []byte) string {
	joined := strings.NewReplacer("\n", "", "\r", "", " ", "", `\\n`, "", `\n`, "").Replace(string(data))
	for _, text := range []string{string(data), joined, said(data)} {
		for at := range max(0, len(text)-sieved+1) {
			for _, g := range s[[sieved]byte([]byte(text[at:at+sieved]))] {
				if strings.HasPrefix(text[at:], g.form) {
					return fmt.Sprintf("%s as %q in …%q", g.name, g.form, text[max(0, at-80):at+len(g.form)])
				}
			}
		}
	}
	return ""
}

// Who finds nothing must be able to find.
func TestEveryFormOfASecretIsFound(t *testing.T) {
	secrets := plants(t, 27)
	s := newSieve(secrets)
	for _, p := range secrets {
		for _, form := range p.forms() {
			outs := []string{form, "before " + form + " after"}
			if half := len(form) / 2; !strings.Contains(form, " ") {
				outs = append(outs, form[:half]+"\n"+form[half:])
			}
			for _, out := range outs {
				if s.leak([]byte(out)) == "" {
					t.Errorf("%q is not found in %q", p.text, out)
				}
			}
		}
	}
	if l := s.leak([]byte("Nothing is to be found here.")); l != "" {
		t.Error(l)
	}
}

// said is what a stream says when its lines are read one after the other: each field's texts, put together. What is no JSON stays
// as it is.
func said(stream []byte) string {
	var fields []string
	texts := map[string]*strings.Builder{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case string:
			if texts[at] == nil {
				texts[at] = &strings.Builder{}
				fields = append(fields, at)
			}
			texts[at].WriteString(v)
		case []any:
			for _, e := range v {
				walk(at+"[]", e)
			}
		case map[string]any:
			for key, e := range v {
				walk(at+"."+key, e)
			}
		}
	}
	for line := range bytes.Lines(stream) {
		var object map[string]any
		if json.Unmarshal(line, &object) != nil {
			walk("", string(line))
			continue
		}
		walk(fmt.Sprint(object["kind"], object["type"], object["event"], object["agent"], object["call"]), object)
	}
	var all strings.Builder
	for _, at := range fields {
		all.WriteString(texts[at].String() + "\n")
	}
	return all.String()
}

// A stash is a run with secrets in its environment, and files that have them too.
type stash struct {
	*run
	secrets []plant
	all     string // every secret, one on each line
}

func newStash(t *testing.T, d *dialect.Dialect, secrets []plant) *stash {
	s := &stash{run: newRun(t, d), secrets: secrets}
	for _, p := range secrets {
		s.set(p.name, p.text)
		s.all += p.text + "\n"
	}
	return s
}

func (s *stash) write(name, text string) string {
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.path(name)
}

// check looks for secrets in everything that the run let out.
func (s *stash) check() {
	s.Helper()
	sieve := newSieve(s.secrets)
	if l := sieve.leak(s.out); l != "" {
		s.Errorf("stdout has %s", l)
	}
	if l := sieve.leak(s.errs.Bytes()); l != "" {
		s.Errorf("stderr has %s", l)
	}
	for _, folder := range []string{"state", "tmp"} {
		err := filepath.WalkDir(s.path(folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if l := sieve.leak(append(data, path...)); l != "" {
				s.Errorf("%s has %s", path, l)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			s.Error(err)
		}
	}
}

// tell runs another command of the program on the same home and looks for secrets in what it says.
func (s *stash) tell(args ...string) string {
	cmd := exec.Command("sluice", args...)
	cmd.Env, cmd.Dir = s.env, s.path("work")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Errorf("sluice %s: %v: %s", strings.Join(args, " "), err, out)
	}
	if l := newSieve(s.secrets).leak(out); l != "" {
		s.Errorf("sluice %s has %s", strings.Join(args, " "), l)
	}
	return string(out)
}

// Two hundred secrets are said, thought, printed, encoded, read, returned by a server, put into errors, prompts, names and files;
// and no output has any of them. Each way ends in a word that nobody hides, so that it is seen to lead out.
func TestNoSecretGetsOut(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 54 // six of each alphabet
	}
	secrets := plants(t, n)
	for _, format := range append(dialect.Names(), "text") {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			d, err := dialect.Lookup(format)
			if err != nil {
				d = dialect.All()[0]
			}
			s := newStash(t, d, secrets)
			native := format == "native"
			script, ways := s.plot(native)
			s.args = []string{
				"run", "--format", format, "--session-id", session, "--model", "script/" + s.write("plot.yaml", script), "--mode", "yolo", "-C", s.path("work"),
				"--sandbox", "off", "--prompt-file", s.write("prompt", s.all+"control-prompt\n"), "--file", s.write("attached.txt", s.all+"control-attached\n"),
				"--verify", "cat <<'E N D'\n" + s.all + "control-verify\nE N D\n", "and " + s.all,
			}
			s.start(nil)
			s.wait()
			if s.exit != 0 {
				t.Fatalf("exit %d: %s", s.exit, s.errs.Bytes())
			}
			s.check()
			data, err := os.ReadFile(s.journal())
			if err != nil {
				t.Fatal(err)
			}
			for _, way := range append(ways, "prompt", "attached", "verify") {
				if !strings.Contains(string(data), "control-"+way) {
					t.Errorf("nothing came out by way of %s", way)
				}
			}
			for _, p := range s.secrets {
				if n := strings.Count(string(data), "[redacted:"+p.name+"]"); n < len(ways) {
					t.Errorf("%s was hidden %d times", p.name, n)
				}
			}
			spilled, _ := filepath.Glob(filepath.Join(filepath.Dir(s.journal()), "spill", "*"))
			if native {
				if len(spilled) != 3 {
					t.Errorf("%d outputs went to a file, want those of a command, a job and a server: %q", len(spilled), spilled)
				}
				for _, file := range spilled {
					if data, err := os.ReadFile(file); err != nil || strings.Count(string(data), "[redacted:") < len(secrets) {
						t.Errorf("%s: no secret was planted there, %v", file, err)
					}
				}
				for _, to := range append(dialect.Names(), "md") {
					if out := s.tell("sessions", "export", session, "--format", to); !strings.Contains(said([]byte(out)), "control-text") {
						t.Errorf("the export to %s has no text", to)
					}
				}
				s.tell("sessions", "show", session)
				s.tell("sessions", "--json")
				s.tell("digest", s.journal())
			}
		})
	}
}

// plot is what the model does to get the secrets out, and the ways that it tries.
func (s *stash) plot(long bool) (script string, ways []string) {
	way := func(name string) string {
		ways = append(ways, name)
		return s.all + "control-" + name + "\n"
	}
	here := func(command, text string) map[string]any { // a here-document: the secrets are not in its environment
		return map[string]any{"tool": "bash", "input": map[string]any{"command": command + " <<'E N D'\n" + text + "E N D\n"}}
	}
	own := plant{"VAULT_TOKEN", "only-in-the-configuration-" + fmt.Sprint(rand.Uint64())} // and in no variable of ours
	s.secrets, s.all = append(slices.Clone(s.secrets), own), s.all+own.text+"\n"
	s.write("work/notes.txt", way("read"))
	s.write("home/sluice/config.toml", fmt.Sprintf("[mcp.vault]\ncommand = [\"vault\", %q]\nenv = { VAULT_TOKEN = %q }\n", s.write("vault", way("mcp")), own.text))
	encoded := url.QueryEscape(s.all)
	calls := []any{
		here("cat", way("cat")),
		here("cat >&2; echo control-fails; false", s.all),
		here("base64 -w 0 | cat - <(echo; echo control-base64)", s.all),
		here("echo control-wrapped; (printf ab; cat) | base64 -w 41", s.all),
		here("echo control-hex; od -An -v -tx1", s.all),
		here("echo control-slow; while IFS= read -r line; do printf '%s' \"${line:0:7}\"; sleep 0.001; printf '%s\\n' \"${line:7}\"; done", s.all),
		map[string]any{"tool": "read", "input": map[string]any{"file_path": "notes.txt"}},
		map[string]any{"tool": "read", "input": map[string]any{"file_path": way("missing") + ".txt"}},
		map[string]any{"tool": "grep", "input": map[string]any{"pattern": "."}},
		map[string]any{"tool": way("unknown"), "input": map[string]any{}},
		map[string]any{"tool": "bash", "raw": way("malformed")},
		map[string]any{"tool": "vault_tell", "input": map[string]any{}},
		map[string]any{"tool": "vault_fail", "input": map[string]any{"why": way("argument")}},
		map[string]any{"tool": "task", "input": map[string]any{"description": "tell", "prompt": "Tell: " + way("task")}},
		map[string]any{"tool": "write", "input": map[string]any{"file_path": "copy.txt", "content": way("write")}},
	}
	steps := []any{
		map[string]any{"thinking": way("thought"), "text": way("text"), "calls": calls, "chunk": 1},
		map[string]any{"thinking": s.all, "text": base64.StdEncoding.EncodeToString([]byte("a"+s.all)) + "\n" + hex.EncodeToString([]byte(s.all)) + "\n" + encoded, "chunk": 2,
			"call": here("cat", s.all)},
		map[string]any{"thinking": strings.ReplaceAll(s.all, "\n", ""), "text": s.all, "chunk": 3, "call": map[string]any{"tool": "edit", "input": map[string]any{
			"file_path": "copy.txt", "old_string": "control-write", "new_string": way("edit")}}},
		map[string]any{"thinking": s.all, "text": s.all, "chunk": 4},
	}
	if long {
		most := fmt.Sprintf("echo control-much; while IFS= read -r line; do printf '%%s\\n' \"$line\"; head -c %d /dev/zero | tr '\\0' .; done", 3<<20/len(s.secrets))
		again := here("echo control-job; cat", s.all)
		again["input"].(map[string]any)["background"] = true
		steps = append(steps[:3:3], map[string]any{"calls": []any{here(most, s.all), again, map[string]any{"tool": "vault_long", "input": map[string]any{}}}},
			map[string]any{"call": map[string]any{"tool": "bash_output", "input": map[string]any{"job": "job-1", "wait": 60000}}}, steps[3])
		ways = append(ways, "much", "job", "long")
	}
	ways = append(ways, "fails", "base64", "wrapped", "hex", "slow")
	data, err := json.Marshal(map[string]any{"steps": steps, "conversations": []any{
		map[string]any{"when": map[string]any{"prompt": "^Tell: "}, "steps": []any{map[string]any{"text": way("child"), "chunk": 2}}},
	}})
	if err != nil {
		s.Fatal(err)
	}
	return string(data), ways
}

// A server that answers with the key that it was shown, in each of the ways that servers have.
func TestNoSecretInAProvidersError(t *testing.T) {
	secrets := plants(t, 8)
	said, _ := json.Marshal("you sent " + key + " and " + secrets[0].text + ", Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+key)) + " control")
	for name, fault := range map[string]string{
		"refused":   `status: 401`,
		"bad":       `status: 400`,
		"busy once": `status: 529, times: 1`,
		"busy":      `status: 529`,
		"in stream": `in_stream: overloaded_error`,
	} {
		for _, format := range append(dialect.Names(), "text") {
			t.Run(name+"/"+format, func(t *testing.T) {
				t.Parallel()
				d, err := dialect.Lookup(format)
				if err != nil {
					d = dialect.All()[0]
				}
				s := newStash(t, d, append(secrets, plant{"ANTHROPIC_API_KEY", key}))
				s.serve(fmt.Sprintf("steps: [{text: Hello., fault: {%s, message: %s}}]", fault, said))
				s.args = append(s.flags(d, session), "--format", format, "--retries", "1", "Do it.")
				s.start(nil)
				s.wait()
				s.check()
				if want := map[string]int{"refused": 3, "bad": 3, "busy": 2, "in stream": 2}[name]; s.exit != want {
					t.Errorf("exit %d, want %d: %s", s.exit, want, s.errs.Bytes())
				}
				data, err := os.ReadFile(s.journal())
				if err != nil || !strings.Contains(string(data), "[redacted:ANTHROPIC_API_KEY]") || !strings.Contains(string(data), "control") {
					t.Errorf("the journal does not say what the server said: %v, %s", err, data)
				}
			})
		}
	}
}

// What a person mistypes may be a secret, or the variable with it.
func TestNoSecretInAComplaint(t *testing.T) {
	s := newStash(t, dialect.All()[0], plants(t, 9))
	for _, p := range s.secrets {
		for _, args := range [][]string{
			{"run", "--mode", p.text, "x"}, {"run", "--model", p.text, "x"}, {"run", "--resume", p.text, "x"}, {"run", "-C", p.text, "x"},
			{"lint", p.text}, {"config", p.text}, {"sessions", "show", p.text}, {"run", "--" + p.text},
		} {
			s.errs.Reset()
			s.args = args
			s.start(nil)
			s.wait()
			s.check()
			cut := strings.ContainsAny(p.text, "/=") // a name or a value, and what is wrong is its first part
			if s.exit != 1 || !cut && !strings.Contains(s.errs.String()+string(s.out), "[redacted:"+p.name+"]") {
				t.Errorf("sluice %q: exit %d: %s", args, s.exit, s.errs.Bytes())
			}
		}
	}
}
