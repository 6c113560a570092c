// Package config is what the user set, as plain structs.
//
//	default ─▶ the user's file ─▶ the project's file ─▶ environment ─▶ flags        the later wins
//
// Keys that nobody knows are errors, since a mistyped rule that is silently dropped would let something pass. The project's
// file came with the repository: unless the user trusts it as it is, it may fill in what the user left open and make things
// stricter, and nothing else. See [Load].
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/sluice-dev/sluice/internal/plain"
)

// A Config is a file's content, or what comes of several.
type Config struct {
	Model    string   `toml:"model"`     // provider/name
	Mode     string   `toml:"mode"`      // default, auto_edit or yolo
	Allow    []string `toml:"allow"`     // rules: "bash(git *)"
	Ask      []string `toml:"ask"`       //
	Deny     []string `toml:"deny"`      //
	Thinking string   `toml:"thinking"`  // off, low, medium or high
	MaxTurns int      `toml:"max_turns"` // answers of the model; 0: no limit
	Timeout  Duration `toml:"timeout"`   // of a run; 0: none
	Stall    Duration `toml:"stall"`     // without anything happening; 0: none
	Retries  int      `toml:"retries"`   // of a request
	Sandbox  string   `toml:"sandbox"`   // off, auto or require
	Network  bool     `toml:"network"`   // for what runs in the sandbox
	Skills   bool     `toml:"skills"`    // are looked for

	Limits    Limits              `toml:"limits"`
	Hooks     Hooks               `toml:"hooks"`
	MCP       map[string]MCP      `toml:"mcp"`       // servers, by name
	Endpoints map[string]Endpoint `toml:"endpoints"` // by the name that stands before the slash in a model's name
	Prices    map[string]Price    `toml:"prices"`    // by provider/name
}

// Limits end a run. A zero limit does not bind.
type Limits struct {
	MaxToolCalls   int     `toml:"max_tool_calls"`
	MaxCost        float64 `toml:"max_cost"` // US dollars
	MaxTotalTokens int64   `toml:"max_total_tokens"`
}

// Hooks are commands that Sluice runs by itself. Each is a program and its arguments; what happened comes as JSON on its
// stdin, never in its arguments.
type Hooks struct {
	BeforeTool [][]string `toml:"before_tool"`
	AfterTool  [][]string `toml:"after_tool"`
	End        [][]string `toml:"end"`
}

// An MCP is a server of tools: a command to start, or an address.
type MCP struct {
	Command []string          `toml:"command"`
	Args    []string          `toml:"args"` // after those of Command
	Env     map[string]string `toml:"env"`  // besides what every child process has
	URL     string            `toml:"url"`
	Headers map[string]string `toml:"headers"`
	Timeout Duration          `toml:"timeout"` // of a request, and of the start; 0: the usual one
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

// A Duration is written as "90s" or "1h30m".
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write one as in \"90s\" or \"1h30m\"", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Defaults are in force where nobody says otherwise.
func Defaults() Config {
	return Config{Mode: "default", MaxTurns: 200, Retries: 8, Sandbox: "off", Skills: true}
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
	return "", errors.New("there is no HOME and no XDG_STATE_HOME: nobody knows where to keep the journal: set one of them")
}

// Read reads a file. One that is not there is an empty one.
func Read(path string) (Config, error) {
	l, err := readLayer(path)
	return l.Config, err
}

// Parse reads a file's content.
func Parse(data []byte) (Config, error) {
	l, err := parse(data)
	return l.Config, err
}

// A layer is what one place says.
type layer struct {
	Config
	from string
	set  map[string]bool // keys of the table that it says something about
}

func readLayer(path string) (layer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return layer{from: path}, nil
	}
	if err != nil {
		return layer{}, err
	}
	return parseFile(path, data)
}

func parseFile(path string, data []byte) (layer, error) {
	l, err := parse(data)
	if err != nil {
		return layer{}, fmt.Errorf("%s: %w", plain.Name(path), err)
	}
	l.from = path
	return l, nil
}

// parse reads a file's content: its shape first, so that what is wrong is told with its place and in our words, then its
// values.
func parse(data []byte) (l layer, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as some editors begin a file
	s, err := readShape(data)
	if err != nil {
		return l, err
	}
	if err = toml.NewDecoder(bytes.NewReader(data)).Decode(&l.Config); err != nil {
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := bad.Position()
			return layer{}, fmt.Errorf("line %d, column %d: %s", row, column, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return layer{}, err
	}
	l.set = s.keys()
	if wrong := l.check(); wrong != nil {
		return layer{}, fmt.Errorf("line %d: %s %w", s.line(wrong.key), wrong.key, wrong.err)
	}
	return l, nil
}
