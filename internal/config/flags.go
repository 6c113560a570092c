package config

import "fmt"

// KeyOf returns the key that a flag sets, as in --max-turns.
func KeyOf(flag string) (name string, ok bool) {
	for _, k := range keys {
		if k.flag() == flag {
			return k.name, true
		}
	}
	return "", false
}

// Check says what is wrong with flags, before anything is read.
func Check(f Flags) error {
	for _, name := range f.Keys {
		k, ok := lookup(name)
		if !ok {
			return fmt.Errorf("no flag sets the key %q", name)
		}
		flag := layer{Config: f.Config, from: k.flag(), set: map[string]bool{name: true}}
		if wrong := flag.check(); wrong != nil {
			return fmt.Errorf("%s %w", k.flag(), wrong.err)
		}
	}
	return nil
}
