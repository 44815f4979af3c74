package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table of safeguards fits the code: what is taken out stands there exactly once,
// and the test that guards it exists. That it turns red is shown by make breaks.
func TestSafeguardsFitTheCode(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	files, err := filepath.Glob("../../consumer/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests of package consumer: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	for _, s := range safeguards {
		text, err := os.ReadFile(filepath.Join("../..", s.file))
		if err != nil {
			t.Errorf("rule %s, %s: %v", s.rule, s.what, err)
			continue
		}
		if n := strings.Count(string(text), s.before); n != 1 {
			t.Errorf("rule %s, %s: %q stands %d times in %s, want once", s.rule, s.what, s.before, n, s.file)
		}
		if s.before == s.after {
			t.Errorf("rule %s, %s: nothing is switched off", s.rule, s.what)
		}
		if !strings.Contains(tests.String(), "func "+s.test+"(t *testing.T)") {
			t.Errorf("rule %s, %s: there is no test %s", s.rule, s.what, s.test)
		}
	}
}
