// Package config is what the user set, as plain structs: the file config.toml in the user's configuration folder. Keys that
// nobody knows are errors, since a mistyped rule that is silently dropped would let something pass.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A Config is the file's content.
type Config struct {
	Model     string              `toml:"model"`     // provider/name
	Mode      string              `toml:"mode"`      // default, auto_edit or yolo
	Allow     []string            `toml:"allow"`     // rules: "bash(git *)"
	Ask       []string            `toml:"ask"`       //
	Deny      []string            `toml:"deny"`      //
	Endpoints map[string]Endpoint `toml:"endpoints"` // by the name that stands before the slash in a model's name
	Prices    map[string]Price    `toml:"prices"`    // by provider/name
}

// An Endpoint is a server with a name of the user's choice.
type Endpoint struct {
	Type    string            `toml:"type"` // anthropic, openai, openai-responses …: what it speaks
	BaseURL string            `toml:"base_url"`
	KeyEnv  string            `toml:"key_env"` // variable that holds the key
	Headers map[string]string `toml:"headers"`
}

// A Price is in US dollars per million tokens.
type Price struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`
	CacheWrite float64 `toml:"cache_write"`
	Window     int64   `toml:"window"` // tokens that fit
}

// Path is where the user's file is.
func Path(env func(string) string) (string, error) {
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice", "config.toml"), nil
	}
	if home := env("HOME"); home != "" {
		return filepath.Join(home, ".config", "sluice", "config.toml"), nil
	}
	return "", errors.New("there is no HOME and no XDG_CONFIG_HOME: nobody knows where the configuration is")
}

// State is the folder in which runs keep their journals.
func State(env func(string) string) (string, error) {
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice"), nil
	}
	if home := env("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "sluice"), nil
	}
	return "", errors.New("there is no HOME and no XDG_STATE_HOME: nobody knows where to keep the journal; try --ephemeral")
}

// Read reads a file. One that is not there is an empty one.
func Read(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(data)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads a file's content.
func Parse(data []byte) (c Config, err error) {
	d := toml.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err = d.Decode(&c); err == nil {
		return c, nil
	}
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		row, _ := first.Position()
		key := strings.Join(first.Key(), ".")
		return c, fmt.Errorf("line %d: there is no key %q%s", row, key, suggestion(key))
	}
	if syntax, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := syntax.Position()
		return c, fmt.Errorf("line %d, column %d: %s", row, column, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	return c, err
}

// keys are the last parts of every key there is.
var keys = []string{
	"model", "mode", "allow", "ask", "deny", "endpoints", "prices", "type", "base_url", "key_env", "headers",
	"input", "output", "cache_read", "cache_write", "window",
}

// suggestion names the key that was probably meant.
func suggestion(key string) string {
	last := key[strings.LastIndex(key, ".")+1:]
	best, at := min(3, len(last)/2+1), ""
	for _, k := range keys {
		if d := distance(last, k); d < best {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf("; is %q meant?", at)
}

// distance is how many letters must be changed, added or dropped to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := above
			if a[i] != b[j] {
				cost++
			}
			above = row[j+1]
			row[j+1] = min(cost, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}
