package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// childVariable marks a process as the one that waits; its value is a place in the list
// of contenders, and the addresses of the stores.
const childVariable = "LOCK_BENCH_CHILD"

// childMain is the process that waits: for each line it reads it acquires the lock, says
// when it had it, and gives it back at the next line.
func childMain() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	if err := child(text); err != nil {
		fmt.Println("failed:", err)
	}
	return true
}

func child(text string) error {
	var n int
	var at servers
	if _, err := fmt.Sscan(text, &n, &at.Redis, &at.Etcd); err != nil {
		return err
	}
	l, err := contenders[n].open(context.Background(), at)
	if err != nil {
		return err
	}
	defer func() { _ = l.close() }()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		release, err := l.acquire(context.Background(), "handoff")
		had := time.Now()
		if err != nil {
			return err
		}
		fmt.Println(had.UnixNano())
		in.Scan()
		if err := release(); err != nil {
			return err
		}
		fmt.Println("released")
	}
	return nil
}

// waiter is the other process, as seen from here.
type waiter struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startWaiter(ctx context.Context, n int, at servers) (*waiter, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", childVariable, n, at.Redis, at.Etcd))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &waiter{cmd, in, bufio.NewScanner(out)}, cmd.Start()
}

func (w *waiter) tell() error {
	_, err := io.WriteString(w.in, "go\n")
	return err
}

func (w *waiter) says() (string, error) {
	if !w.out.Scan() {
		return "", errors.New("the waiting process has ended")
	}
	if text, failed := strings.CutPrefix(w.out.Text(), "failed:"); failed {
		return "", errors.New(text)
	}
	return w.out.Text(), nil
}

func (w *waiter) end() {
	_ = w.in.Close()
	_ = w.cmd.Wait()
}

// handoff times the way of a lock from the process that gives it back to one that waits:
// from before the release to after the acquisition, by the machine's clock.
func handoff(ctx context.Context, p plan, at servers) ([]spread, error) {
	all := make([]spread, len(contenders))
	lockers := make([]locker, len(contenders))
	waiters := make([]*waiter, len(contenders))
	for i, c := range contenders {
		all[i].contender = c
		var err error
		if lockers[i], err = c.open(ctx, at); err != nil {
			return nil, err
		}
		defer func() { _ = lockers[i].close() }()
		if waiters[i], err = startWaiter(ctx, i, at); err != nil {
			return nil, err
		}
		defer waiters[i].end()
	}
	pass := func(i int) (time.Duration, error) {
		release, err := lockers[i].acquire(ctx, "handoff")
		if err != nil {
			return 0, err
		}
		if err := waiters[i].tell(); err != nil {
			return 0, err
		}
		// The other one is waiting by then, and a library that polls is anywhere
		// between two polls.
		time.Sleep(60*time.Millisecond + time.Duration(rand.Int64N(int64(200*time.Millisecond))))
		began := time.Now().UnixNano()
		if err := release(); err != nil {
			return 0, err
		}
		text, err := waiters[i].says()
		if err != nil {
			return 0, err
		}
		had, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if err := waiters[i].tell(); err != nil {
			return 0, err
		}
		_, err = waiters[i].says()
		return time.Duration(had - began), err
	}
	if err := inTurn(1, func(i int) error { _, err := pass(i); return err }); err != nil {
		return nil, err
	}
	err := inTurn(p.handoffs, func(i int) error {
		took, err := pass(i)
		all[i].took = append(all[i].took, took)
		return err
	})
	return sorted(all), err
}
