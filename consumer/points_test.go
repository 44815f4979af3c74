package consumer_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	testName    = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	pointNumber = regexp.MustCompile(`^TestPoint(\d\d)[A-Z]`)
)

// POINTS.md has all 44 points in order, each test that it names exists, and each test
// of a point stands in that point's row. A row without a test says why.
func TestPointsAreTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("POINTS.md")
	must(t, err)
	exist := append(testsIn(t, "."), testsIn(t, filepath.Join("..", "cmd", "seckill"))...)
	named, next := map[string]bool{}, 1
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[min(1, len(cells)-1)]))
		if err != nil {
			continue // no row of a point
		}
		if number != next || len(cells) != 6 {
			t.Fatalf("%q has %d cells, want row %d with four", line, len(cells)-2, next)
		}
		next++
		tests := testName.FindAllStringSubmatch(cells[4], -1)
		if why := cells[3]; len(tests) == 0 && !strings.Contains(why, "cannot happen") && !strings.Contains(why, "comes with the change") {
			t.Errorf("point %d has no test, and its row does not say why", number)
		}
		for _, m := range tests {
			name := m[1]
			named[fmt.Sprint(number, name)] = true
			if !slices.Contains(exist, name) {
				t.Errorf("point %d names %s, which is no test of this folder or of cmd/seckill", number, name)
			}
		}
	}
	if next != 45 {
		t.Errorf("the table ends with point %d, want 44", next-1)
	}
	for _, name := range exist {
		m := pointNumber.FindStringSubmatch(name)
		if m == nil {
			if strings.HasPrefix(name, "TestPoint") && name != "TestPointsAreTrue" {
				t.Errorf("%s does not carry the two digits of its point", name)
			}
			continue
		}
		if number, _ := strconv.Atoi(m[1]); !named[fmt.Sprint(number, name)] {
			t.Errorf("%s is not in row %d", name, number)
		}
	}
}

// testsIn lists the test functions of a folder.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	must(t, err)
	var names []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
