package stack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

func TestDataSurvivesKillAndStartOnTheSamePort(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	for _, name := range stack.Names {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			store, address, pid := storeOf(servers, name), servers.Address(name), servers.PID(name)
			store.put(ctx, t, "before-kill")
			if err := servers.Kill(name); err != nil {
				t.Fatal(err)
			}
			if alive(pid) || servers.PID(name) != 0 {
				t.Fatalf("process %d is there after Kill", pid)
			}
			if err := servers.Start(ctx, name); err != nil {
				t.Fatal(err)
			}
			if servers.Address(name) != address || servers.PID(name) == pid {
				t.Fatalf("started as process %d on %s, was %d on %s", servers.PID(name), servers.Address(name), pid, address)
			}
			store.mustHold(ctx, t, "before-kill")
		})
	}
}

func TestDataSurvivesRestartInOrder(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	for _, name := range stack.Names {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			store := storeOf(servers, name)
			store.put(ctx, t, "before-restart")
			if err := servers.Restart(ctx, name); err != nil {
				t.Fatal(err)
			}
			store.mustHold(ctx, t, "before-restart")
		})
	}
}

func TestPausedServerIsSilentAndGoesOnWhenResumed(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	for _, name := range stack.Names {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			store := storeOf(servers, name)
			store.put(ctx, t, "before-pause")
			if err := servers.Pause(name); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			if held, err := store.holds(short, "before-pause"); err == nil {
				t.Fatalf("a paused server answered %v", held)
			}
			if err := servers.Start(ctx, name); err == nil || errors.Is(err, stack.ErrRunning) || !strings.Contains(err.Error(), "kill -CONT") {
				t.Fatalf("start of a paused server: %v; want an error that says how to go on", err)
			}
			if err := servers.Resume(name); err != nil {
				t.Fatal(err)
			}
			store.mustHold(ctx, t, "before-pause")
		})
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	servers := stacktest.New(t)
	if err := servers.Start(ctx, "mysql"); err == nil || !strings.Contains(err.Error(), "redis, postgres, nats, etcd") {
		t.Errorf("start of an unknown server: %v", err)
	}
	if err := servers.Start(ctx, stack.NATS); !errors.Is(err, stack.ErrRunning) {
		t.Errorf("start of a running server: %v; want ErrRunning", err)
	}
	if err := servers.Stop(stack.NATS); err != nil {
		t.Error(err)
	}
	if err := servers.Kill(stack.NATS); !errors.Is(err, stack.ErrNotRunning) {
		t.Errorf("kill of a stopped server: %v; want ErrNotRunning", err)
	}
	if err := servers.Close(); err != nil {
		t.Error(err)
	}
	if err := servers.Start(ctx, stack.NATS); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("start in a closed stack: %v", err)
	}
}

func TestOpenFailsWithoutLeftoversWhenAChildCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := stack.Open(deadline(t), stack.Config{Dir: dir, Lab: filepath.Join(dir, "absent")})
	if err == nil || !strings.Contains(err.Error(), "go build") {
		t.Fatalf("open with an absent lab program: %v; want an error that says how to build it", err)
	}
	if _, err := stack.Open(deadline(t), stack.Config{Dir: dir, Lab: "/bin/false"}); err == nil || !strings.Contains(err.Error(), "ended before it answered") {
		t.Fatalf("open with a lab program that fails: %v", err)
	}
	if left := pidFiles(dir); len(left) != 0 {
		t.Fatalf("pid files left: %v", left)
	}
}

// A folder that only its owner can enter is the usual one (mktemp -d), and as root the
// hard one: Postgres runs as another user and has to live elsewhere meanwhile.
func TestClosedStackLeavesNothingButItsDataInAPrivateFolder(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	lab, err := stacktest.Lab()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	servers, err := stack.Open(ctx, stack.Config{Dir: dir, Lab: lab})
	if err != nil {
		t.Fatal(err)
	}
	storeOf(servers, stack.Postgres).put(ctx, t, "kept")
	home, err := filepath.EvalSymlinks(filepath.Join(dir, stack.Postgres))
	if err != nil {
		t.Fatal(err)
	}
	segment := sharedMemory(t, filepath.Join(home, "data"))
	pids := []int{servers.PID(stack.Redis), servers.PID(stack.Postgres), servers.PID(stack.NATS), servers.PID(stack.Etcd)}
	if err := errors.Join(servers.Kill(stack.Postgres), servers.Close()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if segmentExists(t, segment) {
		t.Errorf("shared memory %s of the killed postgres is left", segment)
	}
	if left := pidFiles(dir); len(left) != 0 {
		t.Errorf("pid files left: %v", left)
	}
	if info, err := os.Lstat(filepath.Join(dir, stack.Postgres)); err != nil || !info.IsDir() {
		t.Errorf("the folder of postgres is not back in the stack's: %v, %v", info, err)
	}
	if _, err := os.Stat(home); home != filepath.Join(dir, stack.Postgres) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", home, err)
	}

	again, err := stack.Open(ctx, stack.Config{Dir: dir, Lab: lab})
	if err != nil {
		t.Fatal(err)
	}
	storeOf(again, stack.Postgres).mustHold(ctx, t, "kept")
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestScratchFolderIsDeletedOnClose(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	if err := servers.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(servers.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is left: %v", servers.Dir(), err)
	}
}

func TestPortsAreNotTheStandardOnes(t *testing.T) {
	t.Parallel()
	servers := stacktest.Get(t)
	for _, url := range servers.Env("etcd") {
		for _, port := range []string{":5432", ":6379", ":4222", ":2379", ":2380", ":8222"} {
			if strings.HasSuffix(url, port) || strings.Contains(url, port+"/") {
				t.Errorf("standard port in %s", url)
			}
		}
	}
}

func pidFiles(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
	return found
}

// alive treats a process that waits to be reaped as gone.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !procExists()
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
