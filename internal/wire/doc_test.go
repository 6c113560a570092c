package wire

import (
	"fmt"
	"strings"
	"testing"
)

func parse(t *testing.T, s string) *Doc {
	t.Helper()
	var d Doc
	if err := d.Parse([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return &d
}

func TestNode(t *testing.T) {
	d := parse(t, ` {"a":{"b":["x",2,true,null,{}]},"k\u00e4":"\n","a2":1,"a2":2}`)
	root := d.Root()
	list := root.Get("a").Get("b")
	if list.Len() != 5 || string(list.Raw()) != `["x",2,true,null,{}]` || list.Offset() != 11 {
		t.Errorf("list is %d, %s at %d", list.Len(), list.Raw(), list.Offset())
	}
	var kinds []Kind
	for _, v := range list.All() {
		kinds = append(kinds, v.Kind())
	}
	if got := fmt.Sprint(kinds); got != "[string number bool null object]" {
		t.Error(got)
	}
	if !root.Get("kä").Is("\n") || root.Get("kä").Is("n") || root.Get("kä").Is("\nn") || root.Get("kä").Is("") {
		t.Error("an escaped string is not what it is")
	}
	if n, _ := root.Get("a2").Int(); n != 2 {
		t.Error("the last of two members does not win")
	}
	var keys []string
	for key := range root.All() {
		keys = append(keys, key)
		if len(keys) == 2 {
			break
		}
	}
	if strings.Join(keys, " ") != "a kä" {
		t.Error(keys)
	}
	for _, n := range []Node{{}, root.Get("no"), list.Get("x"), list.Get("x").Get("y")} {
		_, isInt := n.Int()
		_, isFloat := n.Float()
		_, isBool := n.Bool()
		for range n.All() {
			t.Error("something in nothing")
		}
		if n.Kind() != Absent || n.Raw() != nil || n.Text() != "" || n.Is("") || n.Len() != 0 || isInt || isFloat || isBool {
			t.Error("an absent node is there")
		}
	}
}

func TestNodeInt(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "-0": 0, "12": 12, "-9223372036854775808": -9223372036854775808, "9223372036854775807": 9223372036854775807,
		"1e3": 1000, "5.0": 5, "-1.50e1": -15, "1200e-2": 12, "0e99999999999999999999": 0, "0.000": 0, "9.223372036854775807E18": 9223372036854775807,
		"0.001e3": 1, "100000000000000000000000e-20": 1000,
	} {
		if got, ok := parse(t, in).Root().Int(); !ok || got != want {
			t.Errorf("%s = %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"1.5", "1e-1", "9223372036854775808", "1e19", "1e9223372036854775807", "1e99999999999999999999", "1e-99999999999999999999", `"1"`, "0.1e9223372036854775807", "10e-9223372036854775808"} {
		if got, ok := parse(t, in).Root().Int(); ok {
			t.Errorf("%s = %d", in, got)
		}
	}
}

func TestDoubled(t *testing.T) {
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `"k%d":{},`, i)
	}
	for _, c := range []struct {
		in, key string
		offset  int
	}{
		{`{"a":1,"b":{"a":1}}`, "", -1},
		{`{"a":1,"b":2,"a":3}`, "a", 13},
		{`{"a":1,"\u0061":3}`, "a", 7},
		{`{"a":{"b":1,"b":2},"a":0}`, "b", 12},
		{`[{"x":1},{"x":[{"y":1,"y":2}]}]`, "y", 22},
		{`{` + many.String() + `"z":1}`, "", -1},
		{`{` + many.String() + `"k7":1}`, "k7", 1 + many.Len()},
	} {
		key, offset, ok := parse(t, c.in).Doubled()
		if ok != (c.offset >= 0) || ok && (key != c.key || offset != c.offset) {
			t.Errorf("%s: %q at %d, %v", c.in, key, offset, ok)
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	if at, ok := parse(t, "{\"ä\":\"a\xffb\"}").InvalidUTF8(); !ok || at != 8 {
		t.Error(at, ok)
	}
	if at, ok := parse(t, `"ä\ud800"`).InvalidUTF8(); ok {
		t.Error(at, ok)
	}
}

func TestAllocs(t *testing.T) {
	var d Doc
	line := []byte(`{"type":"x\ny","list":[1,2,3],"ok":true}`)
	if n := testing.AllocsPerRun(100, func() {
		if d.Parse(line) != nil || !d.Root().Get("type").Is("x\ny") || d.Root().Get("list").Len() != 3 {
			t.Error("not what it was")
		}
		for key := range d.Root().Members() {
			if key.Is("no") {
				t.Error("no")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
