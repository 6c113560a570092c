package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// This file finds AWS credentials. AWS's own package for it costs every start of the program a millisecond and two megabytes,
// whether Bedrock is used or not; so the places are looked through here, in AWS's order:
//
//	AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//	AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN                   a pod's role, by STS
//	the profile AWS_PROFILE in ~/.aws                           see aws_profile.go
//	AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, …_FULL_URI          a container's role
//	the instance's metadata                                     a machine's role
//
// Signing is AWS's own code.

// An awsAccount is who signs, and for which region.
type awsAccount struct {
	region string
	fetch  func(context.Context) (aws.Credentials, error)

	mu   sync.Mutex
	held aws.Credentials
}

// keys returns keys that are good for a while.
func (c *awsAccount) keys(ctx context.Context) (aws.Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held.HasKeys() && (!c.held.CanExpire || time.Until(c.held.Expires) > time.Minute) {
		return c.held, nil
	}
	keys, err := c.fetch(ctx)
	switch {
	case ctx.Err() != nil:
		return aws.Credentials{}, ctx.Err()
	case err != nil:
		return aws.Credentials{}, err
	case !keys.HasKeys():
		return aws.Credentials{}, &Error{Class: Auth, Message: "AWS gave credentials without keys"}
	}
	c.held = keys
	return keys, nil
}

// findAWS says where the credentials come from. Only the instance's metadata are asked for, and not for long: nothing else
// tells whether they are there.
func findAWS(t target) (*awsAccount, error) {
	p, err := readAWSProfile(t.Env)
	if err != nil {
		return nil, &Error{Class: NoKey, Message: err.Error(), Err: err}
	}
	c := &awsAccount{region: cmp.Or(t.Env("AWS_REGION"), t.Env("AWS_DEFAULT_REGION"), p.values["region"])}
	if c.region == "" {
		return nil, &Error{Class: NoKey, Message: "no region for bedrock: set AWS_REGION"}
	}
	if t.Key != "" {
		return c, nil
	}
	id, secret := t.Env("AWS_ACCESS_KEY_ID"), t.Env("AWS_SECRET_ACCESS_KEY")
	token, role := t.Env("AWS_WEB_IDENTITY_TOKEN_FILE"), t.Env("AWS_ROLE_ARN")
	container := t.Env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := t.Env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		container = "http://169.254.170.2" + path
	}
	client := metadataClient
	switch {
	case id != "" && secret != "":
		c.held = aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: t.Env("AWS_SESSION_TOKEN")}
	case token != "" && role != "":
		sts := cmp.Or(t.Env("AWS_ENDPOINT_URL_STS"), "https://sts."+c.region+".amazonaws.com")
		session := cmp.Or(t.Env("AWS_ROLE_SESSION_NAME"), "sluice")
		c.fetch = func(ctx context.Context) (aws.Credentials, error) {
			return assumeRole(ctx, t.Client, sts, role, session, token)
		}
	case p.credentials() != nil:
		c.fetch = p.credentials()
	case container != "":
		c.fetch = func(ctx context.Context) (aws.Credentials, error) {
			auth := t.Env("AWS_CONTAINER_AUTHORIZATION_TOKEN")
			if file := t.Env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
				data, err := os.ReadFile(file)
				if err != nil {
					return aws.Credentials{}, &Error{Class: Auth, Message: err.Error(), Err: err}
				}
				auth = strings.TrimSpace(string(data))
			}
			return fetchRole(ctx, client, container, http.Header{"Authorization": {auth}})
		}
	default:
		if t.Env("AWS_EC2_METADATA_DISABLED") != "true" {
			at := strings.TrimRight(cmp.Or(t.Env("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254"), "/")
			c.fetch = func(ctx context.Context) (aws.Credentials, error) { return instanceRole(ctx, client, at) }
			ctx, cancel := context.WithTimeout(context.Background(), metadataTime)
			defer cancel()
			if _, err := c.keys(ctx); err == nil {
				return c, nil
			}
		}
		return nil, &Error{Class: NoKey, Message: "no credentials for bedrock: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or AWS_BEARER_TOKEN_BEDROCK"}
	}
	return c, nil
}

// metadataTime is how long the metadata of a machine are asked for. They are on the machine's own link, or nowhere.
const metadataTime = 500 * time.Millisecond

// metadataClient asks addresses that no proxy may see.
var metadataClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       5 * time.Second,
}

// instanceRole asks a machine's metadata for the keys of its role.
func instanceRole(ctx context.Context, client *http.Client, at string) (aws.Credentials, error) {
	token, err := fetch(ctx, client, http.MethodPut, at+"/latest/api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}})
	if err != nil {
		return aws.Credentials{}, err
	}
	h := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	roles := at + "/latest/meta-data/iam/security-credentials/"
	names, err := fetch(ctx, client, http.MethodGet, roles, h)
	if err != nil {
		return aws.Credentials{}, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(names)), "\n")
	return fetchRole(ctx, client, roles+url.PathEscape(name), h)
}

// fetchRole asks for keys in the shape that containers, machines and credential processes share.
func fetchRole(ctx context.Context, client *http.Client, at string, h http.Header) (aws.Credentials, error) {
	data, err := fetch(ctx, client, http.MethodGet, at, h)
	if err != nil {
		return aws.Credentials{}, err
	}
	return roleKeys(data)
}

func roleKeys(data []byte) (aws.Credentials, error) {
	var k struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		Token           string
		SessionToken    string
		Expiration      time.Time
	}
	if err := json.Unmarshal(data, &k); err != nil {
		return aws.Credentials{}, &Error{Class: Auth, Message: "AWS credentials cannot be read: they are not what AWS writes"}
	}
	return aws.Credentials{
		AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: cmp.Or(k.SessionToken, k.Token),
		CanExpire: !k.Expiration.IsZero(), Expires: k.Expiration,
	}, nil
}

// assumeRole trades a pod's token for the keys of its role.
func assumeRole(ctx context.Context, client *http.Client, sts, role, session, file string) (aws.Credentials, error) {
	token, err := os.ReadFile(file)
	if err != nil {
		return aws.Credentials{}, &Error{Class: Auth, Message: err.Error(), Err: err}
	}
	query := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {session}, "WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, sts, strings.NewReader(query.Encode()))
	if err != nil {
		return aws.Credentials{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	data, err := fetchRequest(client, r)
	if err != nil {
		return aws.Credentials{}, err
	}
	var k struct {
		Keys struct {
			AccessKeyID     string    `xml:"AccessKeyId"`
			SecretAccessKey string    `xml:"SecretAccessKey"`
			SessionToken    string    `xml:"SessionToken"`
			Expiration      time.Time `xml:"Expiration"`
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(data, &k); err != nil {
		return aws.Credentials{}, nonsense(err)
	}
	return aws.Credentials{
		AccessKeyID: k.Keys.AccessKeyID, SecretAccessKey: k.Keys.SecretAccessKey, SessionToken: k.Keys.SessionToken,
		CanExpire: true, Expires: k.Keys.Expiration,
	}, nil
}

// fetch asks for something small.
func fetch(ctx context.Context, client *http.Client, method, at string, h http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return nil, err
	}
	r.Header = h
	return fetchRequest(client, r)
}

func fetchRequest(client *http.Client, r *http.Request) ([]byte, error) {
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		e := &Error{Class: Auth, Message: fmt.Sprintf("no credentials from %s: %s", r.URL.Host, res.Status)}
		if res.StatusCode >= 500 {
			e.Class = Server
		}
		return nil, e
	}
	if len(data) == 0 {
		return nil, errors.New("an empty answer from " + r.URL.Host)
	}
	return data, nil
}
