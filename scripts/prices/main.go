// Prices writes internal/provider/zprice.go and zprice.txt: what models cost and how large their windows are, from the npm
// package @pydantic/genai-prices. It needs npm and node.
//
//	go run ./scripts/prices [version]
//
// Run it from the root of the repository, or by go generate.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const source = "@pydantic/genai-prices"

// providers are those that we know by name, and the source's name for each.
var providers = map[string]string{
	"anthropic":  "anthropic",
	"bedrock":    "aws",
	"cerebras":   "cerebras",
	"deepseek":   "deepseek",
	"fireworks":  "fireworks",
	"gemini":     "google",
	"groq":       "groq",
	"mistral":    "mistral",
	"openai":     "openai",
	"openrouter": "openrouter",
	"together":   "together",
	"xai":        "x-ai",
}

// dump prints, as JSON, the models of the source's providers that it is given.
//
//go:embed dump.mjs
var dump []byte

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	version := "latest"
	if len(args) > 0 {
		version = args[0]
	}
	root, err := command("", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "prices")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	version, date, models, err := fetch(dir, version)
	if err != nil {
		return err
	}
	to := filepath.Join(strings.TrimSpace(string(root)), "internal", "provider")
	if err := os.WriteFile(filepath.Join(to, "zprice.txt"), table(date, models), 0o644); err != nil {
		return err
	}
	text, err := format.Source(file(version, date))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "zprice.go"), text, 0o644)
}

// fetch unpacks the package in dir, and returns its version, the day it was published, and its models by our providers.
func fetch(dir, version string) (_, date string, models map[string][]model, err error) {
	tarball, err := command(dir, "npm", "pack", "--silent", source+"@"+version)
	if err != nil {
		return "", "", nil, err
	}
	if _, err := command(dir, "tar", "xzf", strings.TrimSpace(string(tarball))); err != nil {
		return "", "", nil, err
	}
	var about struct{ Version string }
	if err := readJSON(filepath.Join(dir, "package", "package.json"), &about); err != nil {
		return "", "", nil, err
	}
	out, err := command(dir, "npm", "view", source, "time", "--json")
	if err != nil {
		return "", "", nil, err
	}
	var times map[string]string
	if err := json.Unmarshal(out, &times); err != nil {
		return "", "", nil, err
	}
	date, _, _ = strings.Cut(times[about.Version], "T")
	if date == "" {
		return "", "", nil, fmt.Errorf("nobody knows when %s %s was published", source, about.Version)
	}
	if err := os.WriteFile(filepath.Join(dir, "package", "dump.mjs"), dump, 0o644); err != nil {
		return "", "", nil, err
	}
	models = map[string][]model{}
	for ours, theirs := range providers {
		out, err := command(dir, "node", "package/dump.mjs", theirs)
		if err != nil {
			return "", "", nil, err
		}
		var list []model
		if err := json.Unmarshal(out, &list); err != nil {
			return "", "", nil, fmt.Errorf("%s: %w", theirs, err)
		}
		models[ours] = list
	}
	return about.Version, date, models, nil
}

// A model is one of the source's.
type model struct {
	ID     string  `json:"id"`
	Match  match   `json:"match"`
	Window float64 `json:"context_window"`
	Prices prices  `json:"prices"`
}

// A match says which names a model goes by: one of its fields is set.
type match struct {
	Or       []match `json:"or"`
	And      []match `json:"and"`
	Equals   string  `json:"equals"`
	Starts   string  `json:"starts_with"`
	Ends     string  `json:"ends_with"`
	Contains string  `json:"contains"`
	Regex    string  `json:"regex"`
}

var (
	// A dated expression is a name with a date after it, which the reader of the table takes off by itself.
	dated = regexp.MustCompile(`\\d\{8\}\$$|\\d\{2\}\$$`)
	// One with a beginning is as good as that.
	beginning = regexp.MustCompile(`^\^((?:[\w/-]|\\\.)+)\\d$`)
	// One that only says what is not meant is of no use here: no name that it means is one of a model that talks.
	negative = regexp.MustCompile(`^\^\(\?!`)
)

// patterns are the names that match, with a star for anything. ok is false if they cannot be told so.
func (m match) patterns() (list []string, ok bool) {
	switch {
	case m.Equals != "":
		return []string{m.Equals}, true
	case m.Starts != "":
		return []string{m.Starts + "*"}, true
	case m.Ends != "":
		return []string{"*" + m.Ends}, true
	case m.Contains != "":
		return []string{"*" + m.Contains + "*"}, true
	case m.Regex != "":
		if b := beginning.FindStringSubmatch(m.Regex); b != nil {
			return []string{strings.ReplaceAll(b[1], `\`, "") + "*"}, true
		}
		return nil, dated.MatchString(m.Regex)
	case len(m.And) == 2 && negative.MatchString(m.And[1].Regex):
		return m.And[0].patterns()
	}
	for _, o := range m.Or {
		more, ok := o.patterns()
		if !ok {
			return nil, false
		}
		list = append(list, more...)
	}
	return list, len(m.Or) > 0
}

// prices are one set, or a list of sets each from a day or at an hour on.
type prices []priced

type priced struct {
	When struct {
		Type string `json:"type"`
		Date string `json:"start_date"`
	} `json:"constraint"`
	Prices map[string]tiered `json:"prices"`
}

func (p *prices) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]priced)(p))
	}
	var one priced
	err := json.Unmarshal(data, &one.Prices)
	*p = prices{one}
	return err
}

// tiered is a price, and another one for requests whose input is above a number of tokens.
type tiered struct {
	Base  float64 `json:"base"`
	Tiers []struct {
		Start int64   `json:"start"`
		Price float64 `json:"price"`
	} `json:"tiers"`
}

func (t *tiered) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("{")) {
		type plain tiered
		return json.Unmarshal(data, (*plain)(t))
	}
	return json.Unmarshal(data, &t.Base)
}

// on returns the prices of a day. Where they change with the hour, it is the dearest: a cost is not to be told too small.
func (p prices) on(date string) (now map[string]tiered) {
	for _, set := range p {
		switch {
		case set.When.Type == "start_date" && set.When.Date > date:
		case set.When.Type == "time_of_date" && set.Prices["output_mtok"].Base < now["output_mtok"].Base:
		default:
			now = set.Prices
		}
	}
	return now
}

var rates = []string{"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"}

// line is a model's line of the table, or empty if it is not one that talks, or not one that the table can tell.
func (m model) line(provider, date string) string {
	names, ok := m.Match.patterns()
	now := m.Prices.on(date)
	if !ok || now["output_mtok"].Base == 0 && now["input_mtok"].Base != 0 {
		return ""
	}
	names = append(names, m.ID)
	for i, n := range names {
		if names[i] = strings.ToLower(n); strings.ContainsAny(n, " |`") {
			return ""
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	fields := []string{provider, strings.Join(names, "|"), whole(m.Window)}
	var above int64
	long := []string{}
	for _, r := range rates {
		t, ok := now[r]
		if !ok && (r == "input_mtok" || r == "output_mtok") {
			return ""
		}
		fields = append(fields, number(t.Base, ok))
		price := t.Base
		if len(t.Tiers) > 0 {
			last := t.Tiers[len(t.Tiers)-1]
			above, price = last.Start, last.Price
		}
		long = append(long, number(price, ok))
	}
	if above > 0 {
		fields = append(append(fields, strconv.FormatInt(above, 10)), long...)
	}
	return strings.Join(fields, " ")
}

func whole(f float64) string { return number(f, f != 0) }

func number(f float64, known bool) string {
	if !known {
		return "-"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// table has a line for every model, sorted.
func table(date string, models map[string][]model) []byte {
	var lines []string
	for provider, list := range models {
		for _, m := range list {
			if l := m.line(provider, date); l != "" {
				lines = append(lines, l+"\n")
			}
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// file is the Go file that has the table in it.
func file(version, date string) []byte {
	return fmt.Appendf(nil, `// Code generated by scripts/prices from %s %s of %s (MIT licence). DO NOT EDIT.

// The table is made from what the package's authors gathered: copyright (c) Pydantic Services Inc. 2025 to present.

package provider

import _ "embed"

// priceDate is the day that the prices are of.
const priceDate = %q

// priceTable is read by [Lookup]; [price] says what its lines hold.
//
//go:embed zprice.txt
var priceTable string
`, source, version, date, date)
}

func readJSON(name string, v any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func command(dir, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
