package script

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// docs/scripts.md has every key, and its pieces of script are good ones.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "scripts.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Script](), reflect.TypeFor[Conversation](), reflect.TypeFor[When](), reflect.TypeFor[Step](),
		reflect.TypeFor[Block](), reflect.TypeFor[Call](), reflect.TypeFor[Usage](), reflect.TypeFor[Fault](),
	} {
		for i := range typ.NumField() {
			if key := typ.Field(i).Tag.Get("yaml"); !strings.Contains(text, "`"+key+"`") {
				t.Errorf("the document says nothing of %s, a key of %s", key, typ.Name())
			}
		}
	}
	for _, word := range append(finishes, places...) {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("the document says nothing of %s", word)
		}
	}
	for _, block := range strings.Split(text, "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if _, err := Parse([]byte(block)); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "scripts", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		if _, err := Read(file); err != nil {
			t.Error(err)
		}
	}
}
