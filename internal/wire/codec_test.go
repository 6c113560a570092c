package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type meal struct {
	Name  string `json:"name"`
	Price int64  `json:"price"`
	Notes *int64 `json:"notes"`
}

func TestPartReadsWhatIsNamed(t *testing.T) {
	c := NewPart[meal]([]string{"price"})
	for text, want := range map[string]meal{
		`{"name":"soup","price":7,"notes":3}`: {Price: 7},
		`{"price":7,"name":oops}`:             {Price: 7}, // what is not named is not looked at
		`{"pri\u0063e":8}`:                    {Price: 8},
		`{}`:                                  {},
	} {
		var got meal
		if err := c.Read([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"price":7`, `{"price":07}`, `{"price":7} x`, ``} {
		if err := c.Read([]byte(text), new(meal)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestCodecForgets(t *testing.T) {
	c := NewCodec[meal]()
	if _, err := c.Read([]byte(`{"name":"soup","price":7,"notes":3}`)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read([]byte(`{}`)); err != nil || got != (meal{}) {
		t.Errorf("the value before is still there: %+v, %v", got, err)
	}
}

type note struct {
	Text Prose `json:"text"`
	ID   Str   `json:"id"`
	Meta Kept[struct {
		A Span `json:"a"`
	}] `json:"meta"`
}

func TestReaderCare(t *testing.T) {
	type seen struct {
		Text, ID string
		OK       bool
		Meta, A  string
		Others   int
	}
	lines := []struct {
		text string
		want seen
		bad  [3]bool // with Everything, Check, Skim
	}{
		{`{"text":"a\nb","id":"x","meta":{"a":1,"b":"\""}}`, seen{"a\nb", "x", true, `{"a":1,"b":"\""}`, "1", 1}, [3]bool{}},
		{`{"meta":{"a":[2]},"text":"","id":""}`, seen{"", "", true, `{"a":[2]}`, "[2]", 0}, [3]bool{}},
		{`{"text":{"x":1},"id":null}`, seen{Text: `{"x":1}`}, [3]bool{}},
		{`{"text":"\q","id":"x"}`, seen{Text: `"\q"`, ID: "x", OK: true}, [3]bool{true, true, false}},
		{`{"text":"a`, seen{}, [3]bool{true, true, true}},
	}
	for care := range 3 {
		r := NewReader[note](Care(care))
		for _, l := range lines {
			var n note
			if err := r.Read([]byte(l.text), &n); (err != nil) != l.bad[care] {
				t.Errorf("care %d: %s: %v", care, l.text, err)
			} else if err != nil {
				continue
			}
			got := seen{n.Text.Text(), n.ID.Value, n.ID.OK, string(n.Meta.Span), string(n.Meta.Value.A), n.Meta.Others}
			if diff := cmp.Diff(l.want, got); diff != "" {
				t.Errorf("care %d: %s: %s", care, l.text, diff)
			}
		}
	}
}

func TestOrderIsNoMatter(t *testing.T) {
	r := NewReader[meal](Everything)
	for range 3 {
		for _, text := range []string{
			`{"name":"a","price":1}`, `{"price":1,"name":"a"}`, `{"x":{"name":1},"price":1,"y":0,"name":"a"}`, `{"name":"b","name":"a","price":1}`, ` { "price" : 1 , "name" : "a" } `,
		} {
			var m meal
			if err := r.Read([]byte(text), &m); err != nil || m != (meal{Name: "a", Price: 1}) {
				t.Errorf("%s: %+v, %v", text, m, err)
			}
		}
	}
}

// Keys that are alike but in their middle are not the same.
func TestLongKeys(t *testing.T) {
	type long struct {
		N int `json:"beginning-middle-and-end"`
	}
	r := NewReader[long](Everything)
	for range 2 {
		for text, want := range map[string]int{
			`{"beginning-middle-and-end":1,"beginning-centre-and-end":2}`: 1,
			`{"beginning-centre-and-end":2,"beginning-middle-and-end":1}`: 1,
			`{"beginning-centre-and-end":2}`:                              0,
		} {
			var l long
			if err := r.Read([]byte(text), &l); err != nil || l.N != want {
				t.Errorf("%s: %+v, %v", text, l, err)
			}
		}
	}
}

func TestSmallNumbers(t *testing.T) {
	for text, want := range map[string]Num{
		"0": {0, true}, "7": {7, true}, "999999999999999": {999999999999999, true}, "9999999999999999": {9999999999999999, true},
		"1.5": {1.5, true}, "1e3": {1000, true}, "-4": {-4, true}, "null": {}, `"7"`: {}, "12345678": {12345678, true},
		"123456789": {123456789, true}, "12345678.5": {12345678.5, true}, "1234567890123456.5": {1234567890123456.5, true},
	} {
		for _, rest := range []string{`}`, `,"and":"so on, for a while"}`} {
			var n struct{ N Num }
			_ = Unmarshal([]byte(`{"N":`+text+rest), &n)
			if n.N != want {
				t.Errorf("%s: %+v", text, n.N)
			}
		}
	}
	for _, text := range []string{"00", "01", "1.", "1e", "-", "--1", "1:", "1/", "1a", "12345678:", "0123456789012345"} {
		for _, rest := range []string{`}`, `,"and":"so on, for a while"}`} {
			var n struct{ N Num }
			if Unmarshal([]byte(`{"N":`+text+rest), &n) == nil {
				t.Errorf("%s is a number", text)
			}
		}
	}
}

// What is only passing is what encoding/json reads, until the next line.
func TestPassing(t *testing.T) {
	type pair struct {
		A Passing `json:"a"`
		B Passing `json:"b"`
	}
	r := NewReader[pair](Skim)
	for _, a := range right {
		for _, b := range right {
			for _, n := range []int{1, 5, 100} {
				text := `{"a":"` + strings.Repeat(a, n) + `","b":"` + b + `"}`
				var want struct{ A, B string }
				if err := json.Unmarshal([]byte(text), &want); err != nil {
					t.Fatal(err)
				}
				var got pair
				if err := r.Read([]byte(text), &got); err != nil || got.A.Value != want.A || got.B.Value != want.B || !got.A.OK || !got.B.OK {
					t.Fatalf("%s: %+v, %v", text, got, err)
				}
			}
		}
	}
	var none pair
	if err := r.Read([]byte(`{"a":null,"b":7}`), &none); err == nil || none.A.OK || none.B.Value != "" {
		t.Errorf("%+v, %v", none, err)
	}
}
