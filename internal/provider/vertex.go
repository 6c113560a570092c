package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// This file carries the Messages API over Google Vertex: the model stands in the address, and requests carry a token that is
// traded for the credentials when the first is sent. (The vendor's helper for it brings gRPC along.)

const (
	vertexVersion = "vertex-2023-10-16"
	vertexScope   = "https://www.googleapis.com/auth/cloud-platform"
)

func newVertex(t target) (Model, error) {
	g, err := findGoogle(t)
	if err != nil {
		return nil, err
	}
	project := cmp.Or(t.Env("VERTEX_PROJECT_ID"), t.Env("ANTHROPIC_VERTEX_PROJECT_ID"), t.Env("GOOGLE_CLOUD_PROJECT"), g.project)
	if project == "" {
		return nil, &Error{Class: NoKey, Message: "no project for vertex: set VERTEX_PROJECT_ID"}
	}
	region := cmp.Or(t.Env("VERTEX_REGION"), t.Env("CLOUD_ML_REGION"), "global")
	at := fmt.Sprintf("%s/v1/projects/%s/locations/%s/publishers/anthropic/models/%s:streamRawPredict", strings.TrimSuffix(cmp.Or(t.BaseURL, vertexBase(region)), "/v1"),
		url.PathEscape(project), url.PathEscape(region), url.PathEscape(t.Model))
	if _, err := url.Parse(at); err != nil {
		return nil, fmt.Errorf("the base URL of vertex: %w", err)
	}
	return &messagesModel{
		target:  t,
		version: vertexVersion,
		post: func(ctx context.Context, x *exchange, body []byte) (*http.Response, error) {
			token, err := g.token(ctx)
			if err != nil {
				return nil, err
			}
			x.secrets = append(x.secrets, token)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "text/event-stream")
			r.Header.Set("Authorization", "Bearer "+token)
			for name, value := range t.Headers {
				r.Header.Set(name, value)
			}
			return t.Client.Do(r)
		},
		frames: sseFrames,
	}, nil
}

func vertexBase(region string) string {
	switch region {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + region + ".rep.googleapis.com"
	}
	return "https://" + region + "-aiplatform.googleapis.com"
}

// A googleAccount is who asks.
type googleAccount struct {
	project string // that the credentials name
	fetch   func(context.Context) (*oauth2.Token, error)

	mu   sync.Mutex
	held *oauth2.Token
}

// token returns a token that is good for a while.
func (g *googleAccount) token(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held.Valid() {
		return g.held.AccessToken, nil
	}
	t, err := g.fetch(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", tokenError(err)
	}
	g.held = t
	return t.AccessToken, nil
}

// tokenError is why Google gave no token. What Google refused is no error of the connection.
func tokenError(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused):
		var said struct {
			Code string `json:"error"`
			Text string `json:"error_description"`
		}
		_ = json.Unmarshal(refused.Body, &said)
		e := statusError(refused.Response.StatusCode, refused.Response.Header, nil, nil)
		if e.Class == Invalid {
			e.Class = Auth
		}
		e.Code, e.Message = said.Code, "Google gave no token: "+cmp.Or(said.Text, said.Code, e.Message)
		return e
	case strings.Contains(err.Error(), "status code 4"): // of federated credentials there is only a text
		return &Error{Class: Auth, Message: "Google gave no token: " + err.Error(), Err: err}
	}
	return err
}

// findGoogle says where the token comes from: a key that was given is one; the file that GOOGLE_APPLICATION_CREDENTIALS names;
// the file of gcloud; a machine of Google's, which is asked for, and not for long.
func findGoogle(t target) (*googleAccount, error) {
	if t.Key != "" {
		return &googleAccount{held: &oauth2.Token{AccessToken: t.Key}}, nil
	}
	named := t.Env("GOOGLE_APPLICATION_CREDENTIALS")
	data, err := os.ReadFile(cmp.Or(named, gcloudFile(t.Env)))
	switch {
	case err == nil:
		return googleFile(t, data)
	case named != "":
		return nil, &Error{Class: NoKey, Message: fmt.Sprintf("no credentials for vertex: %v: check GOOGLE_APPLICATION_CREDENTIALS", err), Err: err}
	}
	g := googleMachine(t)
	ctx, cancel := context.WithTimeout(context.Background(), metadataTime)
	defer cancel()
	if _, err := g.token(ctx); err != nil {
		return nil, &Error{Class: NoKey, Message: "no credentials for vertex: set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login"}
	}
	return g, nil
}

func gcloudFile(env func(string) string) string {
	dir := env("CLOUDSDK_CONFIG")
	switch {
	case dir != "":
	case runtime.GOOS == "windows":
		dir = filepath.Join(env("APPDATA"), "gcloud")
	default:
		dir = filepath.Join(env("HOME"), ".config", "gcloud")
	}
	return filepath.Join(dir, "application_default_credentials.json")
}

// googleFile reads a file of credentials, of whatever type.
func googleFile(t target, data []byte) (*googleAccount, error) {
	var f struct {
		Type    google.CredentialsType `json:"type"`
		Project string                 `json:"project_id"`
		Quota   string                 `json:"quota_project_id"`
	}
	if err := json.Unmarshal(data, &f); err != nil || f.Type == "" {
		return nil, &Error{Class: NoKey, Message: "the credentials for vertex are not what Google writes: check GOOGLE_APPLICATION_CREDENTIALS"}
	}
	read := func(ctx context.Context) (*google.Credentials, error) {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, t.Client)
		return google.CredentialsFromJSONWithType(ctx, data, f.Type, vertexScope)
	}
	if _, err := read(context.Background()); err != nil {
		return nil, &Error{Class: NoKey, Message: oneLine(fmt.Sprintf("the credentials for vertex cannot be used: %v", err), 300), Err: err}
	}
	return &googleAccount{
		project: cmp.Or(f.Project, f.Quota),
		fetch: func(ctx context.Context) (*oauth2.Token, error) { // read anew, since a source keeps the context that it was made with
			c, err := read(ctx)
			if err != nil {
				return nil, err
			}
			return c.TokenSource.Token()
		},
	}, nil
}

// googleMachine is the account of the machine, as its metadata tell.
func googleMachine(t target) *googleAccount {
	at := "http://" + cmp.Or(t.Env("GCE_METADATA_HOST"), "169.254.169.254") + "/computeMetadata/v1/instance/service-accounts/default/token"
	return &googleAccount{fetch: func(ctx context.Context) (*oauth2.Token, error) {
		data, err := fetch(ctx, metadataClient, http.MethodGet, at, http.Header{"Metadata-Flavor": {"Google"}})
		if err != nil {
			return nil, err
		}
		var k struct {
			Token   string `json:"access_token"`
			Seconds int    `json:"expires_in"`
		}
		if err := json.Unmarshal(data, &k); err != nil || k.Token == "" {
			return nil, &Error{Class: Auth, Message: "the machine's metadata have no token"}
		}
		return &oauth2.Token{AccessToken: k.Token, Expiry: time.Now().Add(time.Duration(k.Seconds) * time.Second)}, nil
	}}
}
