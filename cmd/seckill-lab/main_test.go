package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

const (
	readyTimeout = 90 * time.Second // for "ready", other tests competing for the processors
	goneTimeout  = 30 * time.Second // for everything to be gone
)

// program is the lab as a newcomer has it: one ordinary executable, without the race
// detector.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "seckill-lab-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "seckill-lab")
	out, err := exec.Command("go", "build", "-race=false", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	stacktest.Main(m, stacktest.CheckLeaks(), stacktest.Afterwards(func() error {
		if path, err := program(); err == nil {
			return os.RemoveAll(filepath.Dir(path))
		}
		return nil
	}))
}

// running is one "seckill-lab up", possibly below a shell.
type running struct {
	top  *exec.Cmd // what the test started
	dir  string
	rest chan error
}

// runUp starts "up" on a new folder through the given shell script, in which "$@" is
// the command, and returns when it has printed ready.
func runUp(t *testing.T, script string, options ...string) *running {
	t.Helper()
	return runUpOn(t, filepath.Join(t.TempDir(), "stack"), script, options...)
}

func runUpOn(t *testing.T, dir, script string, options ...string) *running {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", script, "sh", path, "up", "--dir", dir}, options...)
	r := &running{top: exec.Command("/bin/sh", args...), dir: dir, rest: make(chan error, 1)}
	r.top.Stderr = &testWriter{t: t}
	r.top.WaitDelay = 5 * time.Second
	out, err := r.top.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.top.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n') // an early end is an empty line
		first <- line
		_, _ = io.Copy(io.Discard, lines)
		r.rest <- r.top.Wait()
	}()
	t.Cleanup(func() { r.clear(t) })
	select {
	case line := <-first:
		if line != "ready\n" {
			t.Fatalf("up printed %q; want ready", line)
		}
	case <-time.After(readyTimeout):
		t.Fatalf("up did not print ready within %s", readyTimeout)
	}
	return r
}

// testWriter hands the words of up to the test's log.
type testWriter struct{ t *testing.T }

func (w *testWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSpace(string(text)))
	return len(text), nil
}

// clear ends what a failed test has left.
func (r *running) clear(t *testing.T) {
	_ = r.top.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.rest:
	case <-time.After(goneTimeout):
		_ = r.top.Process.Kill()
		t.Errorf("the command did not end within %s after SIGTERM", goneTimeout)
	}
	for _, name := range stack.Names {
		if pid, err := r.pid(name); err == nil {
			t.Errorf("%s (process %d) was left", name, pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.rest:
		r.rest <- err
		return err
	case <-time.After(goneTimeout):
		t.Fatalf("the command did not end within %s", goneTimeout)
		return nil
	}
}

func (r *running) pid(name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(r.dir, name+".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (r *running) pids(t *testing.T) []int {
	t.Helper()
	var pids []int
	for _, name := range stack.Names {
		pid, err := r.pid(name)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(pids, pid) {
			t.Fatalf("two servers are one process: %d", pid)
		}
		pids = append(pids, pid)
	}
	return pids
}

func mustBeGone(t *testing.T, pids ...int) {
	t.Helper()
	deadline := time.Now().Add(goneTimeout)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there after %s", pid, goneTimeout)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// alive treats a process that waits to be reaped as gone.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(state, "Z")
}

// mustTidyUp waits until the pid files are gone and Postgres' folder is a plain one in
// the stack's, in case it had to stand elsewhere.
func mustTidyUp(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(goneTimeout)
	for {
		info, err := os.Lstat(filepath.Join(dir, stack.Postgres))
		left, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
		if err == nil && info.IsDir() && len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not tidied up: pid files %v, folder of postgres %v, %v", left, info, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
