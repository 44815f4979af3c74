package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// The console in the binary is the one of the sources beside it: a build writes down
// what it read and what it wrote. This asks no Node, and so whoever runs the tests is
// told; make console-check, which CI runs, believes no list and builds it again.
func TestConsoleIsBuiltFromItsSources(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile("console/dist/SHA256SUMS")
	must(t, err)
	var known []string
	for line := range strings.Lines(string(sums)) {
		want, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		known = append(known, path)
		data, err := os.ReadFile("console/" + path)
		must(t, err)
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != want {
			t.Errorf("console/%s is not what dist was built with; run: make console", path)
		}
	}
	there := []string{"index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"}
	for _, folder := range []string{"src", "dist"} {
		must(t, fs.WalkDir(os.DirFS("console"), folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && path != "dist/SHA256SUMS" {
				there = append(there, path)
			}
			return err
		}))
	}
	slices.Sort(there)
	slices.Sort(known)
	if !slices.Equal(there, known) {
		t.Errorf("there is %v, dist was built from and consists of %v; run: make console", there, known)
	}
}
