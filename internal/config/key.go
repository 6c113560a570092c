package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A key is one that a file can set.
type key struct {
	name  string
	field func(*Config) any // a pointer to its value
	may   power
	words []string // that it can be; if it may be tightened, the stricter ones are later
}

// A power is what the file of a project may do with a key when the user does not trust it.
type power int

const (
	never   power = iota
	fill          // say it where the user has not
	tighten       // make it stricter
	add           // add to what is there, which makes it stricter
)

// keys lists every key. To add one: give it a field in Config, and name it here and in docs/config.md.
var keys = []key{
	{"model", func(c *Config) any { return &c.Model }, fill, nil},
	{"mode", func(c *Config) any { return &c.Mode }, never, []string{"default", "auto_edit", "yolo"}},
	{"allow", func(c *Config) any { return &c.Allow }, never, nil},
	{"ask", func(c *Config) any { return &c.Ask }, add, nil},
	{"deny", func(c *Config) any { return &c.Deny }, add, nil},
	{"thinking", func(c *Config) any { return &c.Thinking }, fill, []string{"off", "low", "medium", "high"}},
	{"max_turns", func(c *Config) any { return &c.MaxTurns }, tighten, nil},
	{"timeout", func(c *Config) any { return &c.Timeout }, tighten, nil},
	{"stall", func(c *Config) any { return &c.Stall }, tighten, nil},
	{"retries", func(c *Config) any { return &c.Retries }, never, nil},
	{"sandbox", func(c *Config) any { return &c.Sandbox }, tighten, []string{"off", "auto", "require"}},
	{"network", func(c *Config) any { return &c.Network }, tighten, nil},
	{"skills", func(c *Config) any { return &c.Skills }, tighten, nil},
	{"limits.max_tool_calls", func(c *Config) any { return &c.Limits.MaxToolCalls }, tighten, nil},
	{"limits.max_cost", func(c *Config) any { return &c.Limits.MaxCost }, tighten, nil},
	{"limits.max_total_tokens", func(c *Config) any { return &c.Limits.MaxTotalTokens }, tighten, nil},
	{"hooks.before_tool", func(c *Config) any { return &c.Hooks.BeforeTool }, never, nil},
	{"hooks.after_tool", func(c *Config) any { return &c.Hooks.AfterTool }, never, nil},
	{"hooks.end", func(c *Config) any { return &c.Hooks.End }, never, nil},
	{"mcp", func(c *Config) any { return &c.MCP }, never, nil},
	{"endpoints", func(c *Config) any { return &c.Endpoints }, never, nil},
	{"prices", func(c *Config) any { return &c.Prices }, never, nil},
}

func lookup(name string) (key, bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}

func (k key) value(c *Config) reflect.Value { return reflect.ValueOf(k.field(c)).Elem() }

// last is the key without its table.
func (k key) last() string { return k.name[strings.LastIndexByte(k.name, '.')+1:] }

// flag is the flag of a command that says the same.
func (k key) flag() string { return "--" + strings.ReplaceAll(k.last(), "_", "-") }

// variable is the one of the environment that says the same; keys with more than one value have none.
func (k key) variable() string {
	switch k.value(&Config{}).Kind() {
	case reflect.Slice, reflect.Map:
		return ""
	}
	return "SLUICE_" + strings.ToUpper(k.last())
}

// parse sets the value of a key from the text of a variable.
func (k key) parse(c *Config, text string) (err error) {
	switch f := k.field(c).(type) {
	case *string:
		*f = text
	case *int:
		*f, err = strconv.Atoi(text)
	case *int64:
		*f, err = strconv.ParseInt(text, 10, 64)
	case *float64:
		*f, err = strconv.ParseFloat(text, 64)
	case *bool:
		*f, err = strconv.ParseBool(text)
	case *Duration:
		return f.UnmarshalText([]byte(text))
	}
	if err != nil {
		return fmt.Errorf("%q is not %s", text, word(k.value(c).Type()))
	}
	return nil
}

// stricter says whether one value binds more than another. Of numbers, zero does not bind at all.
func (k key) stricter(a, b *Config) bool {
	x, y := k.value(a), k.value(b)
	switch x.Kind() {
	case reflect.Bool:
		return !x.Bool() && y.Bool()
	case reflect.String:
		return slices.Index(k.words, x.String()) > slices.Index(k.words, y.String())
	case reflect.Float64:
		return x.Float() > 0 && (y.Float() == 0 || x.Float() < y.Float())
	}
	return x.Int() > 0 && (y.Int() == 0 || x.Int() < y.Int())
}
