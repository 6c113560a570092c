package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

func one1(text string) *Redactor { return New([]Value{{"KEY", text}}) }

func TestString(t *testing.T) {
	const (
		plain = "sk-ant-0123"
		hard  = "p\"a\\s é/😀\n<x>"
	)
	b64 := base64.StdEncoding.EncodeToString
	tests := []struct{ name, secret, in, want string }{
		{"nothing", plain, "nothing to see", "nothing to see"},
		{"alone", plain, plain, "[redacted:KEY]"},
		{"in the middle", plain, "a " + plain + ", b", "a [redacted:KEY], b"},
		{"twice", plain, plain + plain, "[redacted:KEY][redacted:KEY]"},
		{"almost", plain, plain[:10] + "x" + plain[1:], plain[:10] + "x" + plain[1:]},
		{"its beginning again and again", "aaaaab", "aaaaaaaaaab", "aaaaa[redacted:KEY]"},
		{"hard", hard, "<" + hard + ">", "<[redacted:KEY]>"},
		{"as JSON", hard, `{"k":"p\"a\\s é/😀\n<x>"}`, `{"k":"[redacted:KEY]"}`},
		{"as JSON in ASCII", hard, `"p\"a\\s \u00e9\/\ud83d\ude00\n\u003cx\u003E"`, `"[redacted:KEY]"`},
		{"all escaped", plain, `\u0073\u006B\u002d\u0061nt-0123`, "[redacted:KEY]"},
		{"as JSON in JSON", hard, `"{\"k\":\"p\\\"a\\\\s é/😀\\n<x>\"}"`, `"{\"k\":\"[redacted:KEY]\"}"`},
		{"as JSON in JSON in JSON", hard, `p\\\\\\\"a\\\\\\\\s \\\\u00e9/😀\\\\n<x>`, `[redacted:KEY]`},
		{"as a shell writes it", "it's $5 & more", `it\'s\ \$5\ \&\ more`, "[redacted:KEY]"},
		{"as Python writes it", "caf\u00e9 noir", `b'caf\xc3\xa9 noir'`, "b'[redacted:KEY]'"},
		{"in a path of a URL", hard, "https://x/" + url.PathEscape(hard) + "/y", "https://x/[redacted:KEY]/y"},
		{"in a query", hard, "?a=" + url.QueryEscape(hard) + "&b=1", "?a=[redacted:KEY]&b=1"},
		{"all of it in percent", plain, "%73%6b%2D%61%6e%74%2d%30%31%32%33", "[redacted:KEY]"},
		{"a percent sign of its own", "100%sure%41", "it is 100%sure%41 and 100%25sure%2541", "it is [redacted:KEY] and [redacted:KEY]"},
		{"a backslash of its own", `C:\new\table`, `C:\new\table C:\\new\\table`, "[redacted:KEY] [redacted:KEY]"},
		{"hexadecimal", plain, "0x" + hex.EncodeToString([]byte(plain)) + "ff", "0x[redacted:KEY]ff"},
		{"HEXADECIMAL", plain, strings.ToUpper(hex.EncodeToString([]byte(plain))), "[redacted:KEY]"},
		{"as a dump", plain, fmt.Sprintf("% x", plain), "[redacted:KEY]"},
		{"base64", plain, b64([]byte(plain)), "[redacted:KEY]M="},
		{"not base64 of it", plain, b64([]byte(plain[1:])), b64([]byte(plain[1:]))},
		{"inside another", "01234567", "0123456701234567", "[redacted:KEY][redacted:KEY]"},
		{"overlapping itself", "abcabcabc", "xabcabcabcabcx", "x[redacted:KEY]x"},
		{"marks are left alone", plain, "[redacted:KEY] [redacted:KEY]", "[redacted:KEY] [redacted:KEY]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := one1(tt.secret).String(tt.in); got != tt.want {
				t.Errorf("%s\nis %s\nnot %s", tt.in, got, tt.want)
			}
		})
	}
}

// Whatever stands before and after it, also where lines are wrapped, and in both alphabets.
func TestBase64(t *testing.T) {
	for _, secret := range []string{"hunter2", "sk-ant-0123", "\xff\xfe?>~\xfb secret", strings.Repeat("long and ", 30)} {
		r := one1(secret)
		for before := range 7 {
			for after := range 5 {
				data := []byte(strings.Repeat("x", before) + secret + strings.Repeat("y", after))
				for name, text := range map[string]string{
					"standard": base64.StdEncoding.EncodeToString(data), "url": base64.RawURLEncoding.EncodeToString(data),
					"wrapped":         wrap(base64.StdEncoding.EncodeToString(data), 10, "\r\n"),
					"indented":        wrap(base64.StdEncoding.EncodeToString(data), 12, "\n    "),
					"a letter a line": wrap(base64.StdEncoding.EncodeToString(data), 1, "\n"),
					"in JSON":         strings.ReplaceAll(wrap(base64.StdEncoding.EncodeToString(data), 8, `\n`), "/", `\/`),
					"in a URL":        url.QueryEscape(base64.StdEncoding.EncodeToString(data)),
				} {
					got := r.String(text)
					left := strings.ReplaceAll(got, "[redacted:KEY]", "")
					if got == text || len(left) > (before+after)*4+30 {
						t.Errorf("%q, %d before, %d after, %s: %s", secret, before, after, name, got)
					}
				}
			}
		}
	}
}

func wrap(s string, n int, with string) string {
	var lines []string
	for ; len(s) > n; s = s[n:] {
		lines = append(lines, s[:n])
	}
	return strings.Join(append(lines, s), with)
}

func TestSeveral(t *testing.T) {
	r := New([]Value{
		{"URL", "postgres://me:s3cr3t-pw@db/x"}, {"PASSWORD", "s3cr3t-pw"}, {"SAME", "s3cr3t-pw"}, {"A", "abcdefgh"}, {"B", "efghijkl"},
		{"my name / is odd", "oddly-named"}, {"contains-itself-1", "itself-1"}, {"", "nameless"},
	})
	for in, want := range map[string]string{
		"postgres://me:s3cr3t-pw@db/x":     "[redacted:URL]",
		"postgres://me:s3cr3t-pw@db/other": "postgres://me:[redacted:PASSWORD]@db/other",
		"xabcdefghijklx":                   "x[redacted:A][redacted:B]x",
		"oddly-named":                      "[redacted:my_name___is_odd]",
		"itself-1 and nameless":            "[redacted] and [redacted]",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%s: %s, not %s", in, got, want)
		}
	}
}

func TestTrivial(t *testing.T) {
	for _, s := range []string{
		"", "12345", "short", "  short\n", "1234567", "true", "Production", "localhost", "********", "changeme", "/run/secrets/key.json", "~/.config/creds/gcp.json",
	} {
		if !(Value{"K", s}).Trivial() || one1(s).finder != nil {
			t.Errorf("%q is taken for a secret", s)
		}
	}
	for _, s := range []string{"hunter", "12345678", "abc+/def", "/abc/DEF+123", "/a/b/cDEFGHI.", "truetrue", "日本"} {
		if (Value{"K", s}).Trivial() {
			t.Errorf("%q is not taken for a secret", s)
		}
	}
	if got := one1("  hunter2\n").String("it is hunter2."); got != "it is [redacted:KEY]." {
		t.Error(got)
	}
}

func TestValues(t *testing.T) {
	secretName := func(name string) bool { return strings.Contains(name, "SECRET") }
	pem := "-----BEGIN KEY-----\nMIIBVAIBADANBgkqhkiG9w0B\nshort\n-----END KEY-----"
	tests := []struct {
		env  string
		want []string
	}{
		{"PATH=/usr/bin", nil},
		{"SECRET=", nil},
		{"=x", nil},
		{"nonsense", nil},
		{"SECRET=abc=def", []string{"abc=def"}},
		{"DATABASE_URL=postgres://me:pa%40ss%2Fword@db:5432/x?sslmode=off", []string{"pa%40ss%2Fword", "pa@ss/word"}},
		{"HOSTS=redis://:one-pass@a,redis://:two-pass@b", []string{"one-pass", "two-pass"}},
		{"REPO=https://ghp_0123456789abcdef@github.com/x/y", []string{"ghp_0123456789abcdef"}},
		{"REPO=https://git@github.com:22/x@y", nil},
		{"PROXY=http://host:8080/path@1", nil},
		{"SECRET=https://me:pass-word@host/?sig=a%2Bb&x=1", []string{"pass-word", "https://me:pass-word@host/?sig=a%2Bb&x=1", "a%2Bb", "a+b"}},
		{"SECRET=Server=db;Uid=me;Pwd=the-pass;", []string{"Server=db;Uid=me;Pwd=the-pass;", "the-pass"}},
		{"SECRET=Bearer abcdef", []string{"Bearer abcdef", "abcdef"}},
		{"SECRET=Basic " + base64.StdEncoding.EncodeToString([]byte("me:the-pass")), []string{"Basic bWU6dGhlLXBhc3M=", "bWU6dGhlLXBhc3M=", "the-pass"}},
		{"SECRET=" + pem, []string{pem, "MIIBVAIBADANBgkqhkiG9w0B"}},
		{`SECRET={"type":"x","private_key":"-----BEGIN\nMIIBVAIBADANBgkqhkiG9w0B\n","n":[{"token":"tt"}]}`, []string{
			`{"type":"x","private_key":"-----BEGIN\nMIIBVAIBADANBgkqhkiG9w0B\n","n":[{"token":"tt"}]}`,
			"-----BEGIN\nMIIBVAIBADANBgkqhkiG9w0B\n", "MIIBVAIBADANBgkqhkiG9w0B", "tt"}},
	}
	for _, tt := range tests {
		var got []string
		name, _, _ := strings.Cut(tt.env, "=")
		for _, v := range Values([]string{tt.env}, secretName) {
			if v.Name != name {
				t.Errorf("%s: named %q", tt.env, v.Name)
			}
			got = append(got, v.Text)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.env, diff)
		}
	}
}

func TestRaw(t *testing.T) {
	doc := `{"type":"x","private_key":"y"}`
	r := New([]Value{{"KEY", `a"b\c/d`}, {"N", "12345678"}, {"DOC", doc}, {"BRACKETS", "[[[[]]]]x"[:8]}})
	for in, want := range map[string]string{
		`{"a" : "plain\n"}`:                                `{"a" : "plain\n"}`,
		`{"a" : [1, "x a\"b\\c/d"], "b":true}`:             `{"a" : [1, "x [redacted:KEY]"], "b":true}`,
		`{"a\u0022b\\c\/d":1}`:                             `{"[redacted:KEY]":1}`,
		`{"pin":12345678, "more":123456789.5}`:             `{"pin":"[redacted:N]", "more":"[redacted:N]9.5"}`,
		`{"s":"{\"k\":\"a\\\"b\\\\c/d\"}"}`:                `{"s":"{\"k\":\"[redacted:KEY]\"}"}`,
		`{"deep":{"type":"x","private_key":"y"}, "z":"y"}`: `{"deep":{"[redacted:DOC]":"[redacted:DOC]","[redacted:DOC]":"[redacted:DOC]"}, "z":"y"}`,
		`{"s":[[[[]]]]}`:                                   `{}`,
		`[[[[]]]]`:                                         `"[redacted]"`,
		`not JSON a"b\c/d`:                                 `not JSON [redacted:KEY]`,
		``:                                                 ``,
	} {
		if got := string(r.finder.raw(event.Raw(in))); got != want {
			t.Errorf("%s\nis %s\nnot %s", in, got, want)
		}
	}
}

// One layer more than a text is looked through for.
func TestRawDeep(t *testing.T) {
	text := `a"b\c/d`
	for range deepest + 1 {
		quoted, _ := json.Marshal(text)
		text = string(quoted)
	}
	if got := string(one1(`a"b\c/d`).finder.raw(event.Raw(text))); !strings.Contains(got, "[redacted:KEY]") || strings.Contains(got, "/d") {
		t.Error(got)
	}
}

// fields calls f with every string and every piece of JSON in a value, to set it.
func fields(v reflect.Value, path string, f func(path string, set func(text string, raw []byte))) {
	switch {
	case v.Type() == reflect.TypeFor[event.Raw]():
		f(path, func(_ string, raw []byte) { v.SetBytes(raw) })
	case v.Kind() == reflect.String:
		f(path, func(text string, _ []byte) { v.SetString(text) })
	case v.Kind() == reflect.Pointer && !v.IsNil():
		fields(v.Elem(), path, f)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			fields(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	case v.Kind() == reflect.Struct && v.Type().Name() != "Time":
		for i := range v.NumField() {
			fields(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	}
}

// Every string that an event can have is looked at, and the one who emitted it keeps what it had.
func TestEveryField(t *testing.T) {
	const secret = `s"cr\t\u0020é-key`
	r := one1(secret)
	text := "a " + secret + " b"
	quoted := []byte(fmt.Sprintf(`{"k":[%q]}`, text))
	n := 0
	for _, e := range event.Samples() {
		own := reflect.New(reflect.TypeOf(e.Body)).Elem()
		own.Set(reflect.ValueOf(e.Body))
		fields(own, string(e.Kind), func(path string, set func(string, []byte)) {
			n++
			set(text, quoted)
			in := event.Event{Header: e.Header, Body: own.Interface().(event.Body)}
			before := string(event.Append(nil, in))
			var out []event.Event
			fresh := r.Fresh()
			emit := func(e event.Event) { out = append(out, e) }
			fresh.Put(in, emit)
			fresh.Close(emit)
			if len(out) == 0 {
				t.Errorf("%s: nothing came out", path)
			}
			for _, e := range out {
				checkLine(t, path, event.Append(nil, e), traces(secret))
				if line := string(event.Append(nil, e)); !strings.Contains(line, "[redacted:KEY]") {
					t.Errorf("%s: no mark: %s", path, line)
				}
			}
			if after := string(event.Append(nil, in)); after != before {
				t.Errorf("%s: what was emitted was changed: %s", path, after)
			}
		})
	}
	for i := range 3 {
		e := event.Event{Body: event.Notice{Text: "x"}}
		*[]*string{&e.Session, &e.Agent, &e.Call}[i] = text
		r.Put(e, func(e event.Event) { checkLine(t, "header", event.Append(nil, e), traces(secret)) })
	}
	if n < 150 {
		t.Errorf("only %d fields", n)
	}
}

// What has no secret in it is passed on as it is.
func TestUnchanged(t *testing.T) {
	for name, r := range map[string]*Redactor{"none": {}, "one": one1("ZZZZ-zzzz-QQQQ")} {
		for _, e := range event.Samples() {
			n := 0
			r.Put(e, func(out event.Event) {
				n++
				if diff := cmp.Diff(e, out); diff != "" {
					t.Errorf("%s: %s: %s", name, e.Kind, diff)
				}
			})
			if n != 1 {
				t.Errorf("%s: %s came out %d times", name, e.Kind, n)
			}
		}
	}
}

func TestKept(t *testing.T) {
	r := one1("hunter2hunter2")
	pass := func(b event.Body) (out event.Body) {
		r.Put(event.Event{Body: b}, func(e event.Event) { out = e.Body })
		return out
	}
	binary := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n hunter2hunter2 \x00\xff"))
	clean := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n [redacted:KEY] \x00\xff"))
	for name, tt := range map[string]struct{ in, want event.Body }{
		"a seal is broken": {event.Thought{Text: "it is hunter2hunter2", Signature: "sig"}, event.Thought{Text: "it is [redacted:KEY]"}},
		"a seal is not":    {event.Thought{Text: "it is not", Signature: "sig"}, event.Thought{Text: "it is not", Signature: "sig"}},
		"an image":         {event.ToolDone{Type: "image", Output: binary}, event.ToolDone{Type: "image", Output: clean}},
		"an attachment":    {event.Prompt{Attached: []event.Attachment{{Path: "p", Data: binary}}}, event.Prompt{Attached: []event.Attachment{{Path: "p", Data: clean}}}},
		"a foreign line":   {event.Foreign{Line: ` {"x": "\u0068unter2hunter2"}`}, event.Foreign{Line: ` {"x": "[redacted:KEY]"}`}},
		"a foreign number": {event.Foreign{Line: "hunter2hunter2 5"}, event.Foreign{Line: "[redacted:KEY] 5"}},
		"a torn line":      {event.Foreign{Line: `{"x": "hunter2hunter2`, Torn: true}, event.Foreign{Line: `{"x": "[redacted:KEY]`, Torn: true}},
		"a foreign binary": {event.Foreign{Base64: binary}, event.Foreign{Base64: clean}},
		"a kind":           {event.Unknown{Name: "x.hunter2hunter2", Raw: event.Raw(`{}`)}, event.Unknown{Name: "x.[redacted:KEY]", Raw: event.Raw(`{}`)}},
	} {
		if diff := cmp.Diff(tt.want, pass(tt.in)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
