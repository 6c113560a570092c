package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTrust(t *testing.T) {
	w := newWorld(t)
	trust := w.trust()
	if list, err := trust.List(); err != nil || len(list) > 0 {
		t.Errorf("nothing was trusted: %v %v", list, err)
	}
	a, b := filepath.Join(w.dir, "a"), filepath.Join(w.dir, "b")
	w.write(a, "one")
	w.write(b, "one")
	check := func(path, data string, want Standing) {
		t.Helper()
		if got := trust.Check(path, []byte(data)); got != want || trust.Trusts(path, []byte(data)) != (want == Trusted) {
			t.Errorf("%s with %q is %s, want %s", path, data, got, want)
		}
	}
	check(a, "one", Unknown)
	e, err := trust.Add(a, []byte("one"), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	check(a, "one", Trusted)
	check(a, "two", Changed)
	check(b, "one", Unknown) // the same content elsewhere
	w.link("a", filepath.Join(w.dir, "link"))
	check(filepath.Join(w.dir, "link"), "one", Trusted) // it is the same file

	want := []Entry{{Path: a, SHA256: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	list, err := trust.List()
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if diff := cmp.Diff(want[0], e); diff != "" {
		t.Error(diff)
	}
	for path, mode := range map[string]os.FileMode{trust.dir: 0o700, trust.file(a): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}

	if err := trust.Remove(b); err == nil || err.Error() != b+" was not trusted" {
		t.Error(err)
	}
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	if err := trust.Remove(a); err != nil { // although the file is gone
		t.Error(err)
	}
	w.write(a, "one")
	check(a, "one", Unknown)
}

// An entry counts only for the path that it names, and a damaged one for none.
func TestForgedTrust(t *testing.T) {
	w := newWorld(t)
	trust := w.trust()
	a, b := filepath.Join(w.dir, "a"), filepath.Join(w.dir, "b")
	w.write(a, "one")
	w.write(b, "one")
	if _, err := trust.Add(a, []byte("one"), time.Now()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(trust.file(a))
	if err != nil {
		t.Fatal(err)
	}
	w.write(trust.file(b), string(data))
	if trust.Trusts(b, []byte("one")) {
		t.Error("the entry of another file counts")
	}
	w.write(trust.file(a), string(data[:len(data)/2]))
	if trust.Trusts(a, []byte("one")) {
		t.Error("half an entry counts")
	}
	if _, err := trust.List(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Error(err)
	}
}

// Many at once do not lose each other's, and nobody sees half an entry.
func TestTrustAtOnce(t *testing.T) {
	w := newWorld(t)
	trust := w.trust()
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		path := filepath.Join(w.dir, fmt.Sprint("f", i))
		w.write(path, "x")
		wg.Go(func() {
			if _, err := trust.Add(path, []byte("x"), time.Now()); err != nil {
				t.Error(err)
			}
			if !trust.Trusts(path, []byte("x")) {
				t.Errorf("%s is not trusted", path)
			}
			if _, err := trust.List(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := trust.List(); len(list) != n || err != nil {
		t.Errorf("%d %v", len(list), err)
	}
	left, err := filepath.Glob(filepath.Join(trust.dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
