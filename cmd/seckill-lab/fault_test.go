package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// faultCommand is the lab as somebody types it, with a temporary folder of its own.
func faultCommand(t *testing.T, temp string, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := builtService(); err != nil {
		t.Fatal(err)
	}
	lab, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lab, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// The short scenarios, in two halves side by side, one on each lock backend: kill of every process and server, a
// wiped Redis, a paused worker.
func TestFaultsShort(t *testing.T) {
	t.Parallel()
	var halves [2][]string
	n := 0
	for _, s := range scenarios {
		if s.short {
			halves[n%2] = append(halves[n%2], s.name)
			n++
		}
	}
	if n != 8 {
		t.Errorf("%d short scenarios, want 8", n)
	}
	for half, lock := range []string{"etcd", "redis"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			evidence := t.ArtifactDir()
			cmd := faultCommand(t, temp, append([]string{"fault", "--lock", lock, "--evidence", evidence}, halves[half]...)...)
			out, err := cmd.CombinedOutput()
			if err != nil || bytes.Count(out, []byte("ok   ")) != len(halves[half]) {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
			mustBeEmpty(t, temp)
		})
	}
}

func TestChaosShort(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	report := filepath.Join(t.TempDir(), "CHAOS.md")
	cmd := faultCommand(t, temp, "chaos", "--kills", "3", "--lock", "redis", "--seed", "2", "--evidence", t.ArtifactDir(), "--report", report)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--kills 3 --lock redis --seed 2", "kills: 3", "violations: 0"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	mustBeEmpty(t, temp)
}

func TestFaultInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := faultCommand(t, temp, "fault", "stop-worker")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// Interrupted while the scenario runs: its processes have begun to write logs.
	deadline := time.Now().Add(readyTimeout)
	for logs := []string(nil); len(logs) == 0; time.Sleep(10 * time.Millisecond) {
		logs, _ = filepath.Glob(filepath.Join(temp, "seckill-fault-*", "stop-worker-etcd-1", "worker-1.1.log"))
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatal("no worker was started")
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(goneTimeout):
		_ = cmd.Process.Kill()
		t.Fatalf("it did not end within %v of SIGINT", goneTimeout)
	}
	mustBeEmpty(t, temp)
}

func TestFaultCommandLine(t *testing.T) {
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := rootCommand()
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(context.Background())
		return out.String(), err
	}
	list, err := run("fault", "--list")
	if err != nil || strings.Count(list, "\n") != len(scenarios) || !strings.Contains(list, "FLUSHALL") {
		t.Errorf("%v\n%s", err, list)
	}
	for want, args := range map[string][]string{
		"no scenario \"kill-moon\"": {"fault", "kill-moon"},
		"use etcd, redis or both":   {"fault", "--lock", "zookeeper"},
		"--rounds is 0":             {"fault", "--rounds", "0"},
		"--kills is 0":              {"chaos", "--kills", "0"},
	} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

func TestScenarioNamesAreUnique(t *testing.T) {
	var names []string
	for _, s := range scenarios {
		if slices.Contains(names, s.name) {
			t.Errorf("two scenarios are named %s", s.name)
		}
		names = append(names, s.name)
		if s.fault().about == "" {
			t.Errorf("%s does not say what it does", s.name)
		}
	}
}

func TestSameSeedSameSchedule(t *testing.T) {
	throws := func(seed uint64, round int) (list []killEvent) {
		dice := schedule(seed, "chaos kills", "etcd", round)
		for range 50 {
			list = append(list, nextKill(dice))
		}
		return list
	}
	same := func(a, b []killEvent) bool {
		return slices.EqualFunc(a, b, func(x, y killEvent) bool {
			return slices.Equal(x.targets, y.targets) && x.after == y.after && x.downtime == y.downtime && x.progress == y.progress && x.full == y.full
		})
	}
	if !same(throws(7, 1), throws(7, 1)) || same(throws(7, 1), throws(8, 1)) || same(throws(7, 1), throws(7, 2)) {
		t.Error("the schedule does not depend on seed and round alone")
	}
	for _, k := range throws(7, 1) {
		if len(k.targets) == 2 && k.targets[0] == k.targets[1] {
			t.Errorf("a pair of one: %v", k.targets)
		}
	}
}
