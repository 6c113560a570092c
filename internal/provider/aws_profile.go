package provider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// An awsProfile is what ~/.aws says of one profile. Plain keys and credential_process are used as they stand. Single sign-on
// and roles that are assumed are left to the aws command, which knows how.
type awsProfile struct {
	name   string
	values map[string]string
}

// readAWSProfile reads the profile that the environment names. A profile that is named and not there is an error.
func readAWSProfile(env func(string) string) (awsProfile, error) {
	p := awsProfile{cmp.Or(env("AWS_PROFILE"), "default"), map[string]string{}}
	home := cmp.Or(env("HOME"), env("USERPROFILE"))
	config := cmp.Or(env("AWS_CONFIG_FILE"), filepath.Join(home, ".aws", "config"))
	credentials := cmp.Or(env("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials"))
	found := false
	for _, f := range []struct{ path, section string }{{config, "profile " + p.name}, {config, p.name}, {credentials, p.name}} {
		if f.path == config && f.section == p.name && p.name != "default" { // only default may stand there by its bare name
			continue
		}
		values, ok, err := iniSection(f.path, f.section)
		if err != nil {
			return p, err
		}
		maps.Copy(p.values, values)
		found = found || ok
	}
	if env("AWS_PROFILE") != "" && !found {
		return p, fmt.Errorf("no AWS profile %q in %s or %s: check AWS_PROFILE", p.name, config, credentials)
	}
	return p, nil
}

// iniSection reads one section of a file. A file that is not there has none.
func iniSection(path, section string) (values map[string]string, ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	values = map[string]string{}
	in := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';':
		case text[0] == '[':
			name, _, _ := strings.Cut(text[1:], "]")
			in = strings.Join(strings.Fields(name), " ") == section
			ok = ok || in
		case in && line[0] != ' ' && line[0] != '\t': // what is indented belongs to a value that we do not read
			key, value, _ := strings.Cut(text, "=")
			value, _, _ = strings.Cut(value, " #")
			values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return values, ok, nil
}

// credentials is how the profile's keys are fetched; nil if it has none.
func (p awsProfile) credentials() func(context.Context) (aws.Credentials, error) {
	v := p.values
	switch {
	case v["role_arn"] != "", v["sso_session"] != "", v["sso_start_url"] != "", v["login_session"] != "":
		return func(ctx context.Context) (aws.Credentials, error) {
			command, err := exec.LookPath("aws")
			if err != nil {
				return aws.Credentials{}, &Error{Class: Auth, Message: fmt.Sprintf("the AWS profile %q needs the aws command, which is not there: install it, or set AWS_ACCESS_KEY_ID", p.name)}
			}
			return p.run(ctx, exec.CommandContext(ctx, command, "configure", "export-credentials", "--format", "process", "--profile", p.name))
		}
	case v["aws_access_key_id"] != "" && v["aws_secret_access_key"] != "":
		keys := aws.Credentials{AccessKeyID: v["aws_access_key_id"], SecretAccessKey: v["aws_secret_access_key"], SessionToken: v["aws_session_token"]}
		return func(context.Context) (aws.Credentials, error) { return keys, nil }
	case v["credential_process"] != "":
		return func(ctx context.Context) (aws.Credentials, error) {
			if runtime.GOOS == "windows" {
				return p.run(ctx, exec.CommandContext(ctx, "cmd.exe", "/C", v["credential_process"]))
			}
			return p.run(ctx, exec.CommandContext(ctx, "/bin/sh", "-c", v["credential_process"]))
		}
	}
	return nil
}

// run asks a program for keys.
func (p awsProfile) run(ctx context.Context, c *exec.Cmd) (aws.Credentials, error) {
	var complaint bytes.Buffer
	c.Stderr = &complaint
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return aws.Credentials{}, &Error{
			Class: Auth, Message: fmt.Sprintf("the AWS profile %q gave no credentials: %v: %s", p.name, err, complaint.String()), Err: err,
		}
	}
	return roleKeys(out)
}
