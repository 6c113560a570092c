package modelserver

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"golang.org/x/oauth2/google"
)

// A key that is demanded is demanded in every format, and its lack is told in the format's own form.
func TestKeys(t *testing.T) {
	srv := serve(t, "loop: true\nsteps: [{text: a}]", Options{Key: "right", AccessKey: testAccessKey, SecretKey: testSecretKey})
	const (
		messages = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
		vertexIn = "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict"
	)
	for _, c := range []struct {
		path, body string
		headers    [][2]string // ways to show a key
		status     int
		kind       string
	}{
		{"/v1/messages", `{"model":"m",` + messages + `}`, [][2]string{{"X-Api-Key", "%s"}, {"Authorization", "Bearer %s"}}, 401, "authentication_error"},
		{"/v1/messages/count_tokens", `{"model":"m",` + messages + `}`, [][2]string{{"X-Api-Key", "%s"}}, 401, "authentication_error"},
		{"/v1/chat/completions", `{"model":"m",` + messages + `}`, [][2]string{{"Authorization", "Bearer %s"}, {"Authorization", "bearer %s"}}, 401, "authentication_error"},
		{"/chat/completions", `{"model":"m",` + messages + `}`, [][2]string{{"Authorization", "Bearer %s"}}, 401, "authentication_error"},
		{"/v1/responses", `{"model":"m","input":"hi"}`, [][2]string{{"Authorization", "Bearer %s"}}, 401, "authentication_error"},
		{"/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`, [][2]string{{"X-Goog-Api-Key", "%s"}}, 401, "UNAUTHENTICATED"},
		{"/model/m/invoke", `{"anthropic_version":"v",` + messages + `}`, [][2]string{{"Authorization", "Bearer %s"}}, 403, "AccessDeniedException"},
		{vertexIn, `{"anthropic_version":"v",` + messages + `}`, [][2]string{{"Authorization", "Bearer %s"}}, 401, "UNAUTHENTICATED"},
	} {
		for _, h := range c.headers {
			for _, key := range []string{"right", "wrong", ""} {
				headers := []string{"Anthropic-Version", "1"}
				if key != "" {
					headers = append(headers, h[0], strings.ReplaceAll(h[1], "%s", key))
				}
				res, err := post(soon(t), srv.URL+c.path, []byte(c.body), headers...)
				if key == "right" {
					if err != nil {
						t.Errorf("%s with %s: %v", c.path, h[0], err)
						continue
					}
					res.Body.Close()
					continue
				}
				want := c.kind
				if key == "" && c.status == 403 {
					want = "MissingAuthenticationTokenException"
				}
				if status, kind, message := refusalOf(err); status != c.status || kind != want || message == "" {
					t.Errorf("%s with the key %q: %d %q %q", c.path, key, status, kind, message)
				}
			}
		}
	}
	res, err := post(soon(t), srv.URL+"/v1beta/models/m:generateContent?key=right", []byte(`{"contents":[{"parts":[{"text":"hi"}]}]}`))
	if err != nil {
		t.Errorf("a key in the query: %v", err)
	} else {
		res.Body.Close()
	}
}

// Where no key is demanded, Vertex and Bedrock still want what only they have.
func TestNoKeys(t *testing.T) {
	srv := serve(t, "steps: [{text: a}]", Options{})
	for path, want := range map[string]string{
		"/model/m/invoke": "MissingAuthenticationTokenException",
		"/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict": "UNAUTHENTICATED",
	} {
		_, err := post(soon(t), srv.URL+path, []byte("{}"))
		if _, kind, _ := refusalOf(err); kind != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// sign signs a request with Amazon's own signer.
func sign(t *testing.T, req *http.Request, body []byte, secret string, at time.Time) {
	t.Helper()
	sum := sha256.Sum256(body)
	creds := aws.Credentials{AccessKeyID: testAccessKey, SecretAccessKey: secret}
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, req, hex.EncodeToString(sum[:]), "bedrock", "us-east-1", at); err != nil {
		t.Fatal(err)
	}
}

func TestSignature(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", testAccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecretKey)
	srv := serve(t, "loop: true\nsteps: [{text: a}]", Options{})
	body := []byte(`{"anthropic_version":"v","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
	const odd = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-x-v1:0"
	for _, c := range []struct {
		name   string
		path   string // escaped
		secret string
		age    time.Duration
		change func(*http.Request)
		want   string
	}{
		{name: "good", path: "/model/m/invoke"},
		{name: "a name with colons and slashes", path: "/model/" + url.PathEscape(odd) + "/invoke"},
		{name: "a name that is escaped all over", path: "/model/" + url.QueryEscape(odd) + "/invoke"},
		{name: "with a query", path: "/model/m/invoke?b=2&a=1%20x"},
		{name: "other secret", path: "/model/m/invoke", secret: "other", want: "InvalidSignatureException"},
		{name: "old", path: "/model/m/invoke", age: time.Hour, want: "InvalidSignatureException"},
		{name: "of tomorrow", path: "/model/m/invoke", age: -time.Hour, want: "InvalidSignatureException"},
		{name: "other path", path: "/model/m/invoke", change: func(r *http.Request) { r.URL.Path = "/model/n/invoke" }, want: "InvalidSignatureException"},
		{name: "other body", path: "/model/m/invoke", change: func(r *http.Request) {
			r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte("hi"), []byte("ho"))))
		}, want: "InvalidSignatureException"},
		{name: "other signed header", path: "/model/m/invoke", change: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, want: "InvalidSignatureException"},
		{name: "a header that is not signed", path: "/model/m/invoke", change: func(r *http.Request) { r.Header.Set("X-Late", "1") }},
		{name: "other access key", path: "/model/m/invoke", change: func(r *http.Request) {
			r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), testAccessKey, "AKIDOTHER"))
		}, want: "UnrecognizedClientException"},
		{name: "other scheme", path: "/model/m/invoke", change: func(r *http.Request) { r.Header.Set("Authorization", "Basic eDp5") }, want: "IncompleteSignatureException"},
		{name: "host not signed", path: "/model/m/invoke", change: func(r *http.Request) {
			r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), "host;", ""))
		}, want: "IncompleteSignatureException"},
		{name: "no date", path: "/model/m/invoke", change: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, want: "IncompleteSignatureException"},
		{name: "scope of another day", path: "/model/m/invoke", change: func(r *http.Request) {
			r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), "/us-east-1/", "0/us-east-1/"))
		}, want: "IncompleteSignatureException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(soon(t), http.MethodPost, srv.URL+c.path, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Spaced", "  a   b ")
			secret := c.secret
			if secret == "" {
				secret = testSecretKey
			}
			sign(t, req, body, secret, time.Now().Add(-c.age))
			if c.change != nil {
				c.change(req)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			status := http.StatusOK
			if c.want != "" {
				status = http.StatusForbidden
			}
			if res.StatusCode != status || res.Header.Get("X-Amzn-Errortype") != c.want {
				t.Errorf("%d %s %s, want %q", res.StatusCode, res.Header.Get("X-Amzn-Errortype"), text, c.want)
			}
			if c.want != "" && !strings.HasPrefix(string(text), `{"message":"`) {
				t.Errorf("the body is %s", text)
			}
		})
	}
}

func TestSignatureWithoutCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	srv := serve(t, "steps: [{text: a}]", Options{})
	_, err := talkers[1].talk(srv.URL).ask(soon(t), true)
	if status, _, message := refusalOf(err); status != 403 || !strings.Contains(message, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") {
		t.Errorf("%v", err)
	}
}

// account is a service account's file whose tokens come from a server.
func account(t *testing.T, server, id string) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return encode(map[string]string{
		"type": "service_account", "client_email": "robot@example.test", "private_key_id": id, "token_uri": server + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
}

// A service account gets a token from the server, and the token opens Vertex.
func TestToken(t *testing.T) {
	srv := serve(t, "loop: true\nsteps: [{text: a}]", Options{Key: "right"})
	token := func(id string) (string, error) {
		c, err := google.JWTConfigFromJSON(account(t, srv.URL, id), "https://www.googleapis.com/auth/cloud-platform")
		if err != nil {
			t.Fatal(err)
		}
		tok, err := c.TokenSource(soon(t)).Token()
		if err != nil {
			return "", err
		}
		if tok.TokenType != "Bearer" || time.Until(tok.Expiry) < time.Minute {
			t.Errorf("%+v", tok)
		}
		return tok.AccessToken, nil
	}
	if _, err := token("wrong"); err == nil || !strings.Contains(err.Error(), "private_key_id is not the key") {
		t.Errorf("an account of another key: %v", err)
	}
	tok, err := token("right")
	if err != nil {
		t.Fatal(err)
	}
	res, err := post(soon(t), srv.URL+"/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
		[]byte(`{"anthropic_version":"v","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`), "Authorization", "Bearer "+tok)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for _, form := range []string{"", "grant_type=password", "grant_type=refresh_token&refresh_token=wrong", "%zz",
		"grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=a.b", "grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=a.b.c",
		"grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=" + assertion(`{"alg":"none"}`, `{}`),
		"grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=" + assertion(`{"alg":"RS256"}`, `{}`),
		"grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=" + assertion(`{"alg":"RS256","kid":"right"}`, `{"iss":"x","exp":5}`),
	} {
		_, err := post(soon(t), srv.URL+"/token", []byte(form))
		e, ok := err.(*statusError)
		if !ok || e.status != 400 || !strings.HasPrefix(e.body, `{"error":"invalid_grant"`) {
			t.Errorf("%q: %v", form, err)
		}
	}
	res, err = post(soon(t), srv.URL+"/token", []byte("grant_type=refresh_token&refresh_token=right"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

func assertion(header, claims string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestModels(t *testing.T) {
	srv := serve(t, story, Options{Key: "k"})
	page, err := openAIClientModels(t, srv.URL)
	if err != nil || len(page) != 1 || page[0] != "scripted-1" {
		t.Errorf("OpenAI's client: %v, %v", page, err)
	}
	c := talkers[0].talk(srv.URL).(*anthropicTalker).client
	list, err := c.Models.List(soon(t), sdk.ModelListParams{})
	if err != nil || len(list.Data) != 1 || list.Data[0].ID != "scripted-1" {
		t.Errorf("Anthropic's client: %+v, %v", list, err)
	}
	res, err := http.Get(srv.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d", res.StatusCode)
	}
}

func openAIClientModels(t *testing.T, url string) (names []string, err error) {
	c := openAIClient(url)
	page, err := c.Models.List(soon(t))
	if err != nil {
		return nil, err
	}
	for _, m := range page.Data {
		names = append(names, m.ID)
	}
	return names, nil
}

func TestCountTokens(t *testing.T) {
	srv := serve(t, story, Options{})
	c := talkers[0].talk(srv.URL).(*anthropicTalker).client
	count := func(text string) int64 {
		n, err := c.Messages.CountTokens(soon(t), sdk.MessageCountTokensParams{Model: "m", Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(text))}})
		if err != nil {
			t.Fatal(err)
		}
		return n.InputTokens
	}
	if short, long := count("a"), count(strings.Repeat("a", 400)); short < 1 || long < short+90 || long > short+110 {
		t.Errorf("%d and %d", short, long)
	}
	for path, body := range map[string]string{
		"/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		"/v1beta/models/m:countTokens": `{"contents":[{"parts":[{"text":"hi"}]}]}`,
	} {
		res, err := post(soon(t), srv.URL+path, []byte(body), "Authorization", "Bearer k")
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]int
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got["input_tokens"]+got["totalTokens"] < 1 {
			t.Errorf("%s: %v, %v", path, got, err)
		}
		res.Body.Close()
	}
}

// What no format has is refused, and every request is recorded and logged.
func TestElsewhere(t *testing.T) {
	recorded, logged := make(chan Recorded, 1), make(chan Entry, 1)
	srv := serve(t, story, Options{Record: func(r Recorded) { recorded <- r }, Log: func(e Entry) { logged <- e }})
	for _, c := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/v1/messages"}, {"PUT", "/v1/messages"}, {"POST", "/v1/embeddings"}, {"POST", "/model//invoke"},
		{"POST", "/v1beta/models/m:embedContent"}, {"POST", "/v1/projects/p/locations/l/publishers/google/models/m:rawPredict"},
	} {
		req, err := http.NewRequestWithContext(soon(t), c.method, srv.URL+c.path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: %d", c.method, c.path, res.StatusCode)
		}
		if r := <-recorded; r.Method != c.method || r.Path != c.path || string(r.Body) != "body" {
			t.Errorf("recorded: %+v", r)
		}
		if e := <-logged; e.Method != c.method || e.Path != c.path || e.Refused != "no such path" || e.Status != 404 || e.Format != "" {
			t.Errorf("logged: %+v", e)
		}
	}
	k := talkers[0].talk(srv.URL)
	k.tell("go")
	if _, err := k.ask(soon(t), true); err != nil {
		t.Fatal(err)
	}
	last := <-recorded
	if last.Method != "POST" || last.Path != "/v1/messages" || last.Header.Get("X-Api-Key") != "k" || !strings.Contains(string(last.Body), `"max_tokens":100`) || last.At.IsZero() {
		t.Errorf("recorded: %+v", last)
	}
	if e := <-logged; e.Refused != "" || e.Status != 200 || e.Format != "anthropic" || e.Answer != 1 || e.Path != "/v1/messages" {
		t.Errorf("logged: %+v", e)
	}
}
