package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/deploy/stack"
)

func TestUpWritesAnEnvironmentThatAShellLoadsAndEndsInOrder(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			up := runUp(t, `exec "$@"`, "--lock", "redis")
			script := `set -eu; set -a; . "$1/stack.env"; env | grep ^SECKILL_ | sort`
			out, err := exec.Command("/bin/sh", "-c", script, "sh", up.dir).Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				"SECKILL_REDIS_URL=redis://127.0.0.1:", "SECKILL_NATS_URL=nats://127.0.0.1:",
				"SECKILL_NATS_MONITOR_URL=http://127.0.0.1:", "SECKILL_POSTGRES_URL=postgres://",
				"SECKILL_ETCD_ENDPOINTS=127.0.0.1:", "SECKILL_LOCK_BACKEND=redis\n", "SECKILL_ADMIN_TOKEN=",
				"SECKILL_AUTH_MODE=header\n", "SECKILL_HTTP_ADDR=127.0.0.1:0\n", "SECKILL_ADMIN_ADDR=127.0.0.1:0\n",
			} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in the loaded environment:\n%s", want, out)
				}
			}
			pids := up.pids(t)
			if err := up.top.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := up.wait(t); err != nil {
				t.Errorf("up ended with %v", err)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d is there after up has ended", pid)
				}
			}
		})
	}
}

func TestUpEndsWhenItsParentIsKilled(t *testing.T) {
	t.Parallel()
	up := runUp(t, `"$@" & wait`)
	pids := up.pids(t)
	if err := up.top.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, pids...)
	mustTidyUp(t, up.dir)
}

// The hard case: nobody is left to stop anything, and two of the servers are frozen.
func TestKilledUpLeavesNoServer(t *testing.T) {
	t.Parallel()
	up := runUp(t, `exec "$@"`)
	pids := up.pids(t)
	for _, name := range []string{stack.Redis, stack.Postgres} {
		pid, err := up.pid(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := up.top.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, pids...)
	mustTidyUp(t, up.dir)
}

// Nothing but the folder's locks keeps the next stack from starting on files that the
// last one's servers still write.
func TestUpRightAfterAKilledUpFindsTheData(t *testing.T) {
	t.Parallel()
	killed := runUp(t, `exec "$@"`)
	client := redisClient(t, killed.dir)
	if err := client.Set(t.Context(), "word", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	pids := killed.pids(t)
	if err := killed.top.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	next := runUpOn(t, killed.dir, `exec "$@"`)
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d of the killed stack runs beside the next one", pid)
		}
	}
	if word, err := redisClient(t, next.dir).Get(t.Context(), "word").Result(); err != nil || word != "kept" {
		t.Fatalf("the word is %q, %v; want kept", word, err)
	}
	if err := next.top.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := next.wait(t); err != nil {
		t.Fatal(err)
	}
}

func redisClient(t *testing.T, dir string) *redis.Client {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", `. "$1/stack.env"; printf %s "$SECKILL_REDIS_URL"`, "sh", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(string(out))
	if err != nil {
		t.Fatal(err)
	}
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestStartBringsAKilledServerBackOnItsPort(t *testing.T) {
	t.Parallel()
	up := runUp(t, `exec "$@"`)
	for _, name := range stack.Names {
		before, err := up.pid(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if out, err := start(t, name, up.dir); err != nil {
			t.Fatalf("start %s at once after kill -9: %v\n%s", name, err, out)
		}
		after, err := up.pid(name)
		if err != nil || after == before || !alive(after) {
			t.Fatalf("%s.pid holds %d after the start (%v), was %d", name, after, err, before)
		}
	}
	for _, name := range stack.Names {
		if out, err := start(t, name, up.dir); err == nil || !strings.Contains(out, "already running") {
			t.Errorf("start of the running %s: %v\n%s", name, err, out)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	up := runUp(t, `exec "$@"`)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for _, mistake := range []struct {
		args []string
		want string
	}{
		{[]string{"start", "mysql", "--dir", up.dir}, "redis, postgres, nats, etcd"},
		{[]string{"start", "redis", "--dir", empty}, "seckill-lab up --dir " + empty},
		{[]string{"start", "redis"}, "dir"},
		{[]string{"start", "--dir", up.dir}, "arg"},
		{[]string{"up", "--dir", up.dir}, "use another folder"},
		{[]string{"up", "--dir", empty, "--lock", "zookeeper"}, "use etcd or redis"},
		{[]string{"up"}, "dir"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, mistake.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() < 1 || !strings.Contains(string(out), mistake.want) {
			t.Errorf("%v: %v; want an error that contains %q:\n%s", mistake.args, err, mistake.want, out)
		}
	}
}

func start(t *testing.T, name, dir string) (string, error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deskTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "start", name, "--dir", dir).CombinedOutput()
	return string(out), err
}
