package secret

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/sluice-dev/sluice/internal/wire"
)

// Values collects the secrets of an environment: the values of the variables whose names isSecret says are secret, what such
// a value is put together of (a private key inside a JSON document, a password inside a connection string, each line of a
// key file), and the password of a URL in any variable.
func Values(environ []string, isSecret func(name string) bool) []Value {
	var list []Value
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if name == "" || text == "" {
			continue
		}
		add := func(part string) { list = append(list, Value{name, part}) }
		inURLs(text, add)
		if isSecret(name) {
			add(text)
			inside(text, isSecret, add)
		}
	}
	return list
}

// inURLs finds passwords: scheme://user:password@host. A user without a password may be a token.
func inURLs(text string, add func(string)) {
	for {
		_, rest, ok := strings.Cut(text, "://")
		if !ok {
			return
		}
		text = rest
		authority := rest
		if i := strings.IndexAny(rest, "/?# \t\r\n\"'<>,;"); i >= 0 {
			authority = rest[:i]
		}
		at := strings.LastIndexByte(authority, '@')
		if at < 0 {
			continue
		}
		user, password, _ := strings.Cut(authority[:at], ":")
		if token(user) {
			decoded(user, add)
		}
		decoded(password, add)
	}
}

// token says whether a user's name is none.
func token(user string) bool { return len(user) >= 16 && strings.ContainsAny(user, "0123456789") }

// decoded adds a part of a URL as it stands and as it is meant. The first is found in the second's place anyhow, but for what
// is not written as it should be.
func decoded(part string, add func(string)) {
	if part == "" {
		return
	}
	add(part)
	if plain, err := url.PathUnescape(part); err == nil && plain != part {
		add(plain)
	}
}

// inside finds what a secret value is put together of.
func inside(text string, isSecret func(string) bool, add func(string)) {
	secretKey := func(key string) bool { return isSecret(key) || keyWord(key) }
	var d wire.Doc
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "{") && d.Parse([]byte(text)) == nil {
		inJSON(d.Root(), secretKey, add)
		return
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("?&;", r) }) {
		if key, value, ok := strings.Cut(part, "="); ok && secretKey(strings.TrimSpace(key)) {
			decoded(strings.TrimSpace(value), add)
		}
	}
	lines(text, add)
	if scheme, rest, ok := strings.Cut(text, " "); ok && !strings.Contains(rest, " ") {
		switch strings.ToLower(scheme) {
		case "bearer", "token", "apikey":
			add(rest)
		case "basic":
			add(rest)
			if pair, err := base64.StdEncoding.DecodeString(rest); err == nil {
				_, password, _ := strings.Cut(string(pair), ":")
				add(password)
			}
		}
	}
}

// lines adds each line of a text that has several, since lines are shown one by one; not those that only say what follows.
func lines(text string, add func(string)) {
	const short = 16
	if !strings.Contains(text, "\n") {
		return
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) >= short && !strings.HasPrefix(line, "-----") {
			add(line)
		}
	}
}

func inJSON(n wire.Node, secretKey func(string) bool, add func(string)) {
	for key, v := range n.All() {
		switch v.Kind() {
		case wire.Object, wire.Array:
			inJSON(v, secretKey, add)
		case wire.String:
			if secretKey(key) {
				add(v.Text())
				lines(v.Text(), add)
			}
		}
	}
}

// keyWord says whether a key of a composite value names a secret: Password, Pwd, AccountKey, private_key, sig.
func keyWord(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"password", "passwd", "pass", "pwd", "secret", "token", "key", "signature", "sig"} {
		if strings.HasSuffix(key, word) {
			return true
		}
	}
	return false
}

// shortest is how long a secret is at least, in bytes. What is shorter stands in too many places where it is none.
const shortest = 6

// Trivial says whether the value is no secret to be looked for: too short, a number of less than eight digits, a word that
// stands everywhere (true, localhost, production), one character over and over, or the path of a file.
func (v Value) Trivial() bool {
	s := strings.TrimSpace(v.Text)
	switch {
	case len(s) < shortest, words[strings.ToLower(s)]:
		return true
	case strings.Count(s, s[:1]) == len(s):
		return true
	case len(s) < 8 && strings.Trim(s, "0123456789") == "":
		return true
	}
	return path(s)
}

// path says whether a value is a file's: GOOGLE_APPLICATION_CREDENTIALS has one. Keys may have slashes too, but no extension.
func path(s string) bool {
	if !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "~/") || strings.Count(s, "/") < 2 {
		return false
	}
	name := s[strings.LastIndexByte(s, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot >= 0 && len(name)-dot <= 6 && len(name)-dot > 1 && strings.Trim(name[dot+1:], "abcdefghijklmnopqrstuvwxyz") == ""
}

// words stand in too many places, or are our own.
var words = set(`
	always anonymous budget bypass cancelled changeme change-me client control default denied development disabled
	enabled example false github gitlab inferred internal length localhost master native nobody notset null
	optional password passwd placeholder postgres postgresql prod production public redacted refusal required root
	rootroot sample secret secrets stalled staging stop_sequence test testing timeout token tool_calls true unavailable undefined
	unknown unset unverified username your-api-key your_api_key your-token-here
	127.0.0.1 0.0.0.0`)

func set(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}
