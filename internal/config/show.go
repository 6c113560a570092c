package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/internal/pattern"
)

// A Value is one value that is in force, fit to be shown: what may be a secret is hidden.
type Value struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`
}

// hidden stands for what may be a secret.
const hidden = "(hidden)"

// Values are what is in force: each key that has one value, each item of a list under the key of its list, and what the
// entries of a table say.
func (l Loaded) Values() (list []Value) {
	for _, k := range keys {
		v := k.value(&l.Config)
		switch v.Kind() {
		case reflect.Slice:
			for i := range v.Len() {
				list = append(list, Value{k.name, shown(v.Index(i)), l.From[fmt.Sprintf("%s[%d]", k.name, i)]})
			}
		case reflect.Map:
			for _, name := range k.names(&l.Config) {
				if entry := v.MapIndex(reflect.ValueOf(strings.TrimPrefix(name, k.name+"."))); entry.IsValid() {
					list = append(list, fields(k.name+"."+quoted(strings.TrimPrefix(name, k.name+".")), entry, l.From[name])...)
				}
			}
		default:
			list = append(list, Value{k.name, shown(v), l.From[k.name]})
		}
	}
	return list
}

// fields are what an entry of a table says.
func fields(name string, entry reflect.Value, from string) (list []Value) {
	for i := range entry.NumField() {
		if v := entry.Field(i); !v.IsZero() {
			list = append(list, Value{name + "." + entry.Type().Field(i).Tag.Get("toml"), shown(v), from})
		}
	}
	return list
}

// shown is a value without its secrets.
func shown(v reflect.Value) any {
	switch v := v.Interface().(type) {
	case string:
		return address(v)
	case Duration:
		return time.Duration(v).String()
	case []string:
		return command(v)
	case map[string]string:
		out := map[string]string{}
		for k := range v {
			out[k] = hidden
		}
		return out
	default:
		return v
	}
}

// address hides what of an address may be a secret.
func address(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return s
	}
	if u.User == nil && u.RawQuery == "" {
		return s
	}
	cut, _, _ := strings.Cut(s, "?")
	if _, rest, ok := strings.Cut(cut, "@"); ok && u.User != nil {
		cut = u.Scheme + "://" + hidden + "@" + rest
	}
	if u.RawQuery != "" {
		cut += "?" + hidden
	}
	return cut
}

var secretName = pattern.Lazy(`(?i)(key|token|secret|passw|auth|credential|bearer|cookie)`)

// command hides arguments that stand by the name of a secret: --token=x, --token x, TOKEN=x, "Authorization: x".
func command(argv []string) []string {
	out := slices.Clone(argv)
	for i, arg := range out {
		if at := strings.IndexAny(arg, "=:"); at > 0 && secretName().MatchString(arg[:at]) {
			out[i] = arg[:at+1] + hidden
		} else if i > 0 && strings.HasPrefix(argv[i-1], "-") && !strings.Contains(argv[i-1], "=") && secretName().MatchString(argv[i-1]) {
			out[i] = hidden
		} else {
			out[i] = address(arg)
		}
	}
	return out
}

// Text is a value as it would stand in a file.
func (v Value) Text() string { return text(v.Value) }

func text(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case []string:
		var items []string
		for _, s := range v {
			items = append(items, strconv.Quote(s))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]string:
		var items []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			items = append(items, quoted(k)+" = "+strconv.Quote(v[k]))
		}
		return "{ " + strings.Join(items, ", ") + " }"
	}
	return fmt.Sprint(v)
}

var bareKey = pattern.Lazy(`^[A-Za-z0-9_-]+$`)

// quoted is a part of a key as it would stand in a file.
func quoted(part string) string {
	if bareKey().MatchString(part) {
		return part
	}
	return strconv.Quote(part)
}
