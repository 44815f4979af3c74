package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testsOf is the text of all tests in a folder of the module.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", folder, err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// The table of safeguards fits the code: what is taken out stands there exactly once,
// and the test that guards it exists. Every rule and every promise is in it, each line
// under a name of its own. That a test turns red is shown by make breaks.
func TestSafeguardsFitTheCode(t *testing.T) {
	t.Parallel()
	tests, names, rules := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, s := range safeguards {
		text, err := os.ReadFile(filepath.Join("../..", s.file))
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if n := strings.Count(string(text), s.before); n != 1 {
			t.Errorf("%s: %q stands %d times in %s, want once", s, s.before, n, s.file)
		}
		if s.before == s.after {
			t.Errorf("%s: nothing is switched off", s)
		}
		if tests[s.folder] == "" {
			tests[s.folder] = testsOf(t, s.folder)
		}
		if !strings.Contains(tests[s.folder], "func "+s.test+"(t *testing.T)") {
			t.Errorf("%s: there is no test %s in %s", s, s.test, s.folder)
		}
		if names[s.what] {
			t.Errorf("two safeguards are called %q", s.what)
		}
		names[s.what], rules[s.rule] = true, true
	}
	for n := 1; n <= 28; n++ {
		if !rules[fmt.Sprint(n)] {
			t.Errorf("no safeguard of rule %d is in the table", n)
		}
	}
	for n := 1; n <= 6; n++ {
		if !rules[fmt.Sprint("G", n)] {
			t.Errorf("no safeguard of promise G%d is in the table", n)
		}
	}
}

func TestJudgeTest(t *testing.T) {
	t.Parallel()
	failed := errors.New("exit status 1")
	for text, want := range map[string]struct {
		err  error
		red  bool
		said string
	}{
		"PASS\n": {nil, false, "the test passed"},
		"--- FAIL: TestX (0.1s)\n    sale_test.go:12: level=WARN\n":                                   {failed, true, "level=WARN"},
		"    time=1 level=WARN\n    x_test.go:3: one\n    x_test.go:4: two\n--- FAIL: TestX (0.1s)\n": {failed, true, "one"},
		"panic: test timed out after 3m0s\n":                                                          {failed, true, "it does not end"},
		"stacktest: processes are left after the tests\n":                                             {failed, false, "the test did not run: stacktest: processes are left after the tests"},
		"testing: warning: no tests to run\nPASS\n":                                                   {nil, false, "the test passed"},
	} {
		if red, said := judgeTest(text, want.err); red != want.red || said != want.said {
			t.Errorf("%q: red %v, %q", text, red, said)
		}
	}
}
