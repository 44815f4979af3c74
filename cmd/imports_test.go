package cmd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An order flows from admission to consumer, and an import may only point to where the
// order has already been. Folders that are not listed may import nothing of ours.
var arrows = map[string][]string{
	"cmd/seckill":            {"admission", "consumer", "deploy", "lockprovider", "cmd/seckill"},
	"cmd/seckill-lab":        {"admission", "consumer", "deploy", "lockprovider", "cmd/seckill", "cmd/seckill-lab"},
	"consumer":               {"admission", "lockprovider"},
	"admission":              {},
	"lockprovider":           {},
	"lockprovider/bench":     {"lockprovider", "deploy/stack"}, // a module of its own
	"lockprovider/locktest":  {"lockprovider"},
	"deploy":                 {},
	"deploy/stack/stacktest": {"deploy/stack"},
}

// forTests is what the test files of every folder may import too.
var forTests = []string{"deploy/stack", "lockprovider/locktest"}

// topLevel is what the top level holds, besides hidden files.
var topLevel = []string{
	"cmd", "lockprovider", "admission", "consumer", "deploy", "bin", "go.mod", "go.sum", "Makefile",
	"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE",
}

func TestImportsFollowTheArrows(t *testing.T) {
	root := ".."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (path != root && strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		checkFile(t, root, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, root, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("parse %s: %v", path, err)
		return
	}
	relative, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.ToSlash(filepath.Dir(relative))
	allowed := arrowsOf(folder)
	if strings.HasSuffix(path, "_test.go") {
		allowed = slices.Concat(allowed, forTests, []string{folder})
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		ours, found := strings.CutPrefix(imported, "seckill/")
		if found && !slices.ContainsFunc(allowed, func(place string) bool { return within(ours, place) }) {
			t.Errorf("%s imports %s, against the arrows: %s may import %v", relative, ours, folder, allowed)
		}
	}
}

// arrowsOf is the entry of the folder or of the nearest one above it.
func arrowsOf(folder string) []string {
	for place := folder; place != "."; place = filepath.ToSlash(filepath.Dir(place)) {
		if allowed, ok := arrows[place]; ok {
			return allowed
		}
	}
	return nil
}

func within(folder, place string) bool {
	return folder == place || strings.HasPrefix(folder, place+"/")
}

// The servers of the local stack must not end up in what is shipped.
func TestProductHoldsNoEmbeddedServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../cmd/seckill").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for dependency := range strings.FieldsSeq(string(out)) {
		for _, server := range []string{
			"github.com/nats-io/nats-server/", "go.etcd.io/etcd/server/", "github.com/Shopify/toxiproxy/",
			"seckill/cmd/seckill-lab", "seckill/deploy/stack",
		} {
			if within(dependency, strings.TrimSuffix(server, "/")) {
				t.Errorf("cmd/seckill depends on %s", dependency)
			}
		}
	}
}

func TestTopLevelHoldsWhatItShould(t *testing.T) {
	entries, err := filepath.Glob("../*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := filepath.Base(entry)
		if !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) {
			t.Errorf("%s stands at the top level: put it into one of the folders", name)
		}
	}
}
