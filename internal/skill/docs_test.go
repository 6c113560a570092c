package skill

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The examples of the document are a skill and a profile.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../docs/skills.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```markdown\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples", len(blocks))
	}
	o := ways(t, map[string]string{"repo/.sluice/skills/commit/SKILL.md": blocks[0][1], "repo/.sluice/agents/reviewer.md": blocks[1][1]})
	skills, problems := Find(o)
	if len(skills) != 1 || len(problems) > 0 || skills[0].Version != "1.2.0" {
		t.Errorf("%v %v", skills, problems)
	}
	profiles, problems := Profiles(o)
	if len(profiles) != 1 || len(problems) > 0 || len(profiles[0].Tools) != 4 || len(profiles[0].Deny) != 2 {
		t.Errorf("%v %v", profiles, problems)
	}
}

// So are those of the example's folder.
func TestExample(t *testing.T) {
	o := Options{Workspace: "../../examples/project"}
	skills, problems := Find(o)
	if len(skills) != 1 || len(problems) > 0 {
		t.Fatalf("%v %v", skills, problems)
	}
	if text, err := skills[0].Invoke("the tests"); err != nil || !strings.HasSuffix(text, "Only this is to be committed: the tests") {
		t.Errorf("%q %v", text, err)
	}
	if profiles, problems := Profiles(o); len(profiles) != 1 || len(problems) > 0 {
		t.Errorf("%v %v", profiles, problems)
	}
}
