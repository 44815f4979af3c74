package locktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"seckill/lockprovider"
)

// childVariable marks a process as the child of a case; its value is the order.
const childVariable = "LOCKTEST_CHILD"

// order tells a child what to hold and where to write.
type order struct {
	Backend, Address, Namespace, PostgresURL, Table string
}

var groupChild = []Case{
	{ID: "C11", Name: "paused_process", Run: pausedProcess},
}

// ChildMain runs this process as the child of a case, if it was started as one; the
// test binary's TestMain calls it first.
func ChildMain() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Println("failed", err)
	}
	return true
}

// run holds the lock until the process has been stopped for longer than the TTL, then
// says what Err tells first, and writes all the same when the parent lets it.
func (o order) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, o.PostgresURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	p, err := lockprovider.Open(ctx, lockprovider.Config{
		Backend: o.Backend, RedisURL: "redis://" + o.Address, EtcdEndpoints: []string{o.Address}, Namespace: o.Namespace, TTL: TTL, Logger: quiet(nil),
	})
	if err != nil {
		return err
	}
	l, err := p.Acquire(ctx, "n")
	if err != nil {
		return err
	}
	go func() { // the only processor is busy: no goroutine of the provider gets far
		for ctx.Err() == nil {
		}
	}()
	// The wall clock goes on while the process is stopped. Read before the parent is
	// told: the stop may follow at once.
	last := time.Now().UnixNano()
	fmt.Println("held", l.Token())
	for {
		now := time.Now().UnixNano()
		if time.Duration(now-last) > TTL {
			break
		}
		last = now
		if ctx.Err() != nil {
			return errors.New("was never stopped")
		}
	}
	fmt.Println("lost", errors.Is(l.Err(), lockprovider.ErrLost))
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	err = (&fenced{pool: pool, table: o.Table}).add(ctx, l.Token(), 1, func() {})
	fmt.Println("fenced", errors.Is(err, errFenced))
	return nil
}

// pausedProcess stops a holder for longer than its TTL (C11), on one busy processor
// (C16).
func pausedProcess(e *Env) {
	f := newFenced(e)
	text, err := json.Marshal(order{e.Backend, e.address, e.Namespace, e.h.PostgresURL, f.table})
	e.Must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	e.Must(err)
	out, err := cmd.StdoutPipe()
	e.Must(err)
	e.Must(cmd.Start())
	e.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	e.says(lines, "held ")
	e.Must(cmd.Process.Signal(syscall.SIGSTOP))
	l := e.Acquire(e.Open(), "n")
	e.Must(f.add(e.Ctx(soon), l.Token(), 2, func() {}))
	e.hold(l, TTL)
	e.Must(cmd.Process.Signal(syscall.SIGCONT))
	e.says(lines, "lost true")
	_, err = io.WriteString(in, "write\n")
	e.Must(err)
	e.says(lines, "fenced true")
	list, err := f.list(e.Ctx(soon))
	e.Must(err)
	if len(list) != 1 || list[0] != 2 {
		e.Fatalf("list %v", list)
	}
	e.Must(l.Err())
	e.Release(l)
}

// says waits for the child's next line.
func (e *Env) says(lines <-chan string, want string) {
	e.Helper()
	select {
	case line := <-lines:
		if !strings.HasPrefix(line, want) {
			e.Fatalf("the child says %q, want %q", line, want)
		}
	case <-time.After(time.Minute):
		e.Fatalf("the child does not say %q", want)
	}
}
