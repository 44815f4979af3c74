package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"seckill/deploy/stack/stacktest"
)

// heldCommand is a running seckill lock run whose command has said its process id and
// its token.
type heldCommand struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	lines  *bufio.Scanner
	pid    int
	token  uint64
}

// runLocked starts a shell script under the lease job/x; the script goes on after it
// has said hello.
func (i *installation) runLocked(script string, flags ...string) *heldCommand {
	i.t.Helper()
	path, err := binary()
	must(i.t, err)
	h := &heldCommand{t: i.t}
	args := append(append([]string{"lock", "run", "job/x"}, flags...), "--", "sh", "-c", `echo $$ $SECKILL_LOCK_TOKEN; `+script)
	h.cmd = exec.Command(path, args...)
	h.cmd.Env, h.cmd.Stderr = i.env, &h.stderr
	out, err := h.cmd.StdoutPipe()
	must(i.t, err)
	must(i.t, h.cmd.Start())
	i.t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
	h.lines = bufio.NewScanner(out)
	if _, err := fmt.Sscan(h.says(), &h.pid, &h.token); err != nil || h.token == 0 {
		i.t.Fatalf("the command does not say its process id and token: %v", err)
	}
	return h
}

func (h *heldCommand) says() string {
	h.lines.Scan()
	return h.lines.Text()
}

// ends waits for seckill and wants this status, what it says, and the command gone.
func (h *heldCommand) ends(code int, says string) {
	h.t.Helper()
	_ = h.cmd.Wait()
	if got := h.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(h.stderr.String(), says) {
		h.t.Errorf("ended with %d, want %d; stderr %q, want %q", got, code, &h.stderr, says)
	}
	eventually(h.t, "the command is gone", func() (bool, string) {
		return syscall.Kill(h.pid, 0) == syscall.ESRCH, strconv.Itoa(h.pid)
	})
}

const (
	endless = `while :; do sleep 0.05; done`
	deaf    = `trap "" TERM; echo deaf; ` + endless
)

func TestLockRun(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{backendEtcd, backendRedis} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t, backend)
			tests := map[string]func(*testing.T, *installation){
				"status and token": lockRunStatus, "held by another": lockRunHeld, "signals": lockRunSignals,
				"key deleted": lockRunKeyDeleted, "taken by force": lockRunForced,
			}
			if runtime.GOOS == "linux" { // see endWithParent
				tests["killed"] = lockRunKilled
			}
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					own := *i
					own.t = t
					test(t, &own)
				})
			}
		})
	}
}

func lockRunStatus(t *testing.T, i *installation) {
	last := 0
	for code := range 3 {
		got, out, errs := i.run("lock", "run", "job/x", "--", "sh", "-c", fmt.Sprintf("echo $SECKILL_LOCK_TOKEN; exit %d", code*7))
		token, err := strconv.Atoi(strings.TrimSpace(out))
		if got != code*7 || err != nil || token <= last {
			t.Errorf("status %d, token %q after %d: %s", got, out, last, errs)
		}
		last = token
	}
	if code, _, _ := i.run("lock", "run", "job/x", "--", "sh", "-c", "kill -9 $$"); code != 128+9 {
		t.Errorf("a command that was killed: status %d", code)
	}
	// A command of ours in it does not take the token for a setting.
	if code, out, errs := i.run("lock", "run", "job/x", "--", i.binary(), "lock", "list", "--output", "json"); code != 0 || !strings.Contains(out, `"lock run: seckill"`) {
		t.Errorf("lock list in lock run: %d %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"job/x"}, {"job/x", "true"}, {"--", "true"}, {"a", "b", "--", "true"}, {"job/x", "--", "no-such-command"}, {"job/x", "--wait=-1s", "--", "true"}} {
		if code, _, errs := i.run(append([]string{"lock", "run"}, args...)...); code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("lock run %v: %d %s", args, code, errs)
		}
	}
}

func (i *installation) binary() string {
	path, err := binary()
	must(i.t, err)
	return path
}

func lockRunHeld(t *testing.T, i *installation) {
	h := i.runLocked(endless)
	code, out, errs := i.run("lock", "run", "job/x", "--wait", "5s", "--", "echo", "ran")
	if code != exitFailed || out != "" || !strings.Contains(errs, fmt.Sprintf("(token %d)", h.token)) {
		t.Errorf("beside another: %d %s%s", code, out, errs)
	}
	h.signal(syscall.SIGTERM)
	h.ends(128+15, "ended with 143")
	if code, out, errs := i.run("lock", "run", "job/x", "--wait", "20s", "--", "echo", "ran"); code != 0 || out != "ran\n" {
		t.Errorf("after the other: %d %s%s", code, out, errs)
	}
}

func (h *heldCommand) signal(s syscall.Signal) {
	h.t.Helper()
	must(h.t, h.cmd.Process.Signal(s))
}

// The command decides what a signal does; meanwhile the lease is kept, longer than its
// time to live.
func lockRunSignals(t *testing.T, i *installation) {
	h := i.runLocked(`trap "echo once" TERM; trap "echo bye; exit 5" USR1; echo set; ` + endless)
	if got := h.says(); got != "set" { // before it is, a signal just ends the shell
		t.Fatalf("the command says %q", got)
	}
	h.signal(syscall.SIGTERM)
	if got := h.says(); got != "once" {
		t.Fatalf("the command says %q", got)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if _, out, _ := i.run("lock", "list", "-o", "json"); !strings.Contains(out, fmt.Sprint(h.token)) {
			t.Fatalf("the lease was given up while the command runs: %s", out)
		}
	}
	h.signal(syscall.SIGUSR1)
	if got := h.says(); got != "bye" {
		t.Errorf("the command says %q", got)
	}
	h.ends(5, "ended with 5")
}

func lockRunKeyDeleted(t *testing.T, i *installation) {
	h := i.runLocked(deaf, "--kill-after", "100ms")
	if got := h.says(); got != "deaf" {
		t.Fatalf("the command says %q", got)
	}
	i.deleteLock("job%2Fx")
	h.ends(exitFailed, "was lost while the command ran")
}

// deleteLock removes the key of a lock behind everybody's back.
func (i *installation) deleteLock(code string) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), 10*time.Second)
	defer cancel()
	ns := i.setting("SECKILL_NAMESPACE")
	if i.setting("SECKILL_LOCK_BACKEND") == backendRedis {
		client := redis.NewClient(redisOptions(i.t))
		defer func() { _ = client.Close() }()
		if n, err := client.Del(ctx, ns+":{"+ns+"/lock}:held:"+code).Result(); err != nil || n != 1 {
			i.t.Fatalf("%d keys deleted, %v", n, err)
		}
		return
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{stacktest.Get(i.t).Address(backendEtcd)}, DialTimeout: 10 * time.Second})
	must(i.t, err)
	defer func() { _ = client.Close() }()
	if resp, err := client.Delete(ctx, ns+"/lock/q/"+code+"/", clientv3.WithPrefix()); err != nil || resp.Deleted != 1 {
		i.t.Fatalf("%v, %v", resp, err)
	}
}

func lockRunForced(t *testing.T, i *installation) {
	if code, _, errs := i.run("migrate", "--yes"); code != 0 {
		t.Fatal(errs)
	}
	h := i.runLocked(endless)
	if code, _, errs := i.run("lock", "release", "job/x", "--token", fmt.Sprint(h.token), "--yes"); code != 0 {
		t.Fatal(errs)
	}
	h.ends(exitFailed, "was lost while the command ran")
}

// A process that is killed takes its command along, and the lease runs out.
func lockRunKilled(t *testing.T, i *installation) {
	h := i.runLocked(endless)
	h.signal(syscall.SIGKILL)
	h.ends(-1, "")
	if code, out, errs := i.run("lock", "run", "job/x", "--wait", "20s", "--", "echo", "ran"); code != 0 || out != "ran\n" {
		t.Errorf("after the crash: %d %s%s", code, out, errs)
	}
}
