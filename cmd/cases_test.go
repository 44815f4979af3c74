package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cases is how many reports from the field there are; each has a test that carries
// its number.
const cases = 34

var caseName = regexp.MustCompile(`^TestCase(\d\d)[A-Z]`)

// Every case from the field has a test with its number in the name.
func TestNoCaseIsMissing(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				if m := caseName.FindStringSubmatch(f.Name.Name); m != nil {
					found[m[1]] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= cases; n++ {
		number := fmt.Sprintf("%02d", n)
		if !found[number] {
			t.Errorf("case %s has no test", number)
		}
	}
}
