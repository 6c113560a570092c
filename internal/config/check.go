package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/spell"
)

// A wrong is a value that cannot be.
type wrong struct {
	key string
	err error
}

// check says what is wrong with the values that a layer sets.
func (l *layer) check() *wrong {
	for _, k := range keys {
		if !l.set[k.name] {
			continue
		}
		if err := k.check(&l.Config); err != nil {
			return &wrong{k.name, err}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.MCP)) {
		if err := l.MCP[name].check(name); err != nil {
			return &wrong{"mcp." + name, err}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Prices)) {
		p := l.Prices[name]
		for _, v := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite, float64(p.Window)} {
			if err := amount(v); err != nil {
				return &wrong{"prices." + name, err}
			}
		}
	}
	return nil
}

func (k key) check(c *Config) error {
	switch v := k.value(c); v.Kind() {
	case reflect.Int, reflect.Int64:
		return amount(float64(v.Int()))
	case reflect.Float64:
		return amount(v.Float())
	case reflect.String:
		if k.words != nil && !slices.Contains(k.words, v.String()) {
			err := fmt.Sprintf("is %q, and can be %s", v.String(), strings.Join(k.words, ", "))
			if near := spell.Nearest(v.String(), k.words); near != "" {
				err += fmt.Sprintf("; is %q meant?", near)
			}
			return errors.New(err)
		}
	}
	if hooks, ok := k.field(c).(*[][]string); ok {
		for _, argv := range *hooks {
			if err := program(argv); err != nil {
				return err
			}
		}
	}
	return nil
}

func amount(v float64) error {
	if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return errors.New("cannot be negative or without end")
	}
	return nil
}

// program says what is wrong with a hook's command. One that is found from the folder where a run happens to work would be
// whatever a model wrote there.
func program(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errors.New("has a command without a program")
	}
	if strings.ContainsAny(argv[0], `/\`) && !filepath.IsAbs(argv[0]) {
		return fmt.Errorf("has the program %q: write its whole path, or a name that is found in PATH", argv[0])
	}
	return nil
}

var serverName = pattern.Lazy(`^[A-Za-z0-9_-]{1,64}$`)

func (m MCP) check(name string) error {
	switch {
	case !serverName().MatchString(name):
		return errors.New("is not a name: letters, digits, dashes and underlines, 64 at most")
	case len(m.Command) > 0 && m.URL != "":
		return errors.New("has both a command and a url: one of them")
	case len(m.Command) == 0 && m.URL == "":
		return errors.New(`has no server: write command = ["program"] or url = "https://…"`)
	case len(m.Command) > 0 && m.Command[0] == "":
		return errors.New("has a command without a program")
	case m.URL != "" && (len(m.Args) > 0 || len(m.Env) > 0):
		return errors.New("has a url, and so no args and no env")
	case m.URL == "" && len(m.Headers) > 0:
		return errors.New("has a command, and so no headers")
	case m.Timeout < 0:
		return errors.New("has a negative timeout")
	}
	if m.URL != "" {
		if u, err := url.Parse(m.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("has a url that does not begin with http:// or https://")
		}
	}
	return nil
}

var reference = pattern.Lazy(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Expand puts variables in the place of ${NAME} in the values of Env and Headers, so that secrets need not stand in the file.
func (m MCP) Expand(env func(string) string) (MCP, error) {
	var missing string
	put := func(list map[string]string) map[string]string {
		out := maps.Clone(list)
		for k, v := range list {
			out[k] = reference().ReplaceAllStringFunc(v, func(ref string) string {
				name := ref[2 : len(ref)-1]
				if env(name) == "" {
					missing = name
				}
				return env(name)
			})
		}
		return out
	}
	m.Env, m.Headers = put(m.Env), put(m.Headers)
	if missing != "" {
		return m, fmt.Errorf("the variable %s is not set", missing)
	}
	return m, nil
}
