package stack_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// openerVariable makes this test binary open a stack and wait to be killed.
const openerVariable = "STACK_TEST_LAB"

func TestMain(m *testing.M) {
	if lab := os.Getenv(openerVariable); lab != "" {
		fmt.Fprintln(os.Stderr, openAndWait(lab))
		os.Exit(1)
	}
	stacktest.Main(m, stacktest.CheckLeaks())
}

// openAndWait prints the folder and the processes of its stack.
func openAndWait(lab string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "seckill-test-")
	if err != nil {
		return err
	}
	servers, err := stack.Open(ctx, stack.Config{Dir: dir, Scratch: true, Lab: lab})
	if err != nil {
		return err
	}
	fmt.Println(dir, servers.PID(stack.Redis), servers.PID(stack.Postgres), servers.PID(stack.NATS), servers.PID(stack.Etcd))
	<-ctx.Done() // should nobody kill us
	return errors.Join(ctx.Err(), servers.Close())
}

// This is what go test does to a binary that runs into its timeout.
func TestKilledOpenerLeavesNeitherProcessNorScratchFolder(t *testing.T) {
	t.Parallel()
	lab, err := stacktest.Lab()
	if err != nil {
		t.Fatal(err)
	}
	opener := exec.Command(os.Args[0])
	opener.Env = append(os.Environ(), openerVariable+"="+lab)
	opener.Stderr = os.Stderr
	out, err := opener.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := opener.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	killErr := opener.Process.Kill()
	_ = opener.Wait() // "signal: killed"
	if err := errors.Join(readErr, killErr); err != nil {
		t.Fatal(err)
	}
	var dir string
	var pids [4]int
	if _, err := fmt.Sscan(strings.TrimSpace(line), &dir, &pids[0], &pids[1], &pids[2], &pids[3]); err != nil {
		t.Fatalf("the opener printed %q: %v", line, err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := os.Stat(dir)
		left := 0
		for _, pid := range pids {
			if alive(pid) {
				left++
			}
		}
		if errors.Is(err, os.ErrNotExist) && left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes are left, the folder is %v", left, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
