package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// breaker builds and runs tests with safeguards taken out. The changed file is laid
// over the one in the module when the compiler reads it, so the module stays as it is,
// and only what depends on the file is compiled again.
type breaker struct {
	module  string        // folder of the module
	scratch string        // folder for changed files and programs
	builds  chan struct{} // of how many are compiled at once
}

func newBreaker(ctx context.Context) (*breaker, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module: %w", err)
	}
	module := filepath.Dir(strings.TrimSpace(string(mod)))
	if _, err := os.Stat(filepath.Join(module, "cmd", "seckill-lab", "breaks_table.go")); err != nil {
		return nil, fmt.Errorf("run this inside the module: %w", err)
	}
	scratch, err := os.MkdirTemp("", "seckill-breaks-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for changed files: %w", err)
	}
	return &breaker{module: module, scratch: scratch, builds: make(chan struct{}, runtime.NumCPU())}, nil
}

// run takes a safeguard out, runs its test and says what became of it.
func (b *breaker) run(ctx context.Context, n int, s safeguard) broken {
	began := time.Now()
	r := broken{safeguard: s}
	text, err := b.testWithout(ctx, n, s)
	if r.red, r.said = judgeTest(text, err); err != nil && text == "" {
		r.said = err.Error()
	}
	r.took = time.Since(began)
	return r
}

func (b *breaker) testWithout(ctx context.Context, n int, s safeguard) (text string, err error) {
	overlay, err := b.overlay(n, s)
	if err != nil {
		return "", err
	}
	program := filepath.Join(b.scratch, fmt.Sprint(n, ".test"))
	if err := b.build(ctx, overlay, s.folder, program); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(program) }()
	return b.test(ctx, overlay, s, program)
}

// overlay writes the file without the safeguard, and where it belongs; empty: nothing
// is taken out.
func (b *breaker) overlay(n int, s safeguard) (string, error) {
	if s.control() {
		return "", nil
	}
	path := filepath.Join(b.module, s.file)
	whole, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(whole), s.before); n != 1 {
		return "", fmt.Errorf("%q stands %d times in %s, want once; mend breaks_table.go", s.before, n, s.file)
	}
	changed := filepath.Join(b.scratch, fmt.Sprint(n, "-", filepath.Base(s.file)))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(whole), s.before, s.after, 1)), 0o600); err != nil {
		return "", err
	}
	where, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(b.scratch, fmt.Sprint(n, ".json"))
	return overlay, os.WriteFile(overlay, where, 0o600)
}

// build compiles the tests of a package.
func (b *breaker) build(ctx context.Context, overlay, folder, program string) error {
	select {
	case b.builds <- struct{}{}:
		defer func() { <-b.builds }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./"+folder)
	cmd.Dir = b.module
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the tests of %s are not built: %w\n%s", folder, err, text)
	}
	return nil
}

// test runs one test, or those of a control side by side. What the test itself builds
// is without the safeguard too.
func (b *breaker) test(ctx context.Context, overlay string, s safeguard, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, breakTimeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^("+s.test+")$", "-test.timeout", breakTimeout.String(), "-test.parallel", "8")
	cmd.Dir = filepath.Join(b.module, s.folder)
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// complaint is a line of a test with what it complains about, or the word of its panic.
var complaint = regexp.MustCompile(`(?m)^(?: +\w+\.go:\d+: |panic: )(.+)$`)

// judgeTest reads a test's output: whether it is red, and its first complaint.
func judgeTest(text string, err error) (red bool, said string) {
	switch {
	case err == nil && strings.Contains(text, "PASS"):
		return false, "the test passed"
	case strings.Contains(text, "panic: test timed out"):
		return true, "it does not end"
	case strings.Contains(text, "--- FAIL: "):
		if m := complaint.FindStringSubmatch(text); m != nil {
			return true, m[1]
		}
		return true, "it failed without a word"
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return false, "the test did not run: " + first
}
