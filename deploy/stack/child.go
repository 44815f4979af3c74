package stack

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// spawner starts all children from one operating system thread. Linux sends the
// parent-death signal when the thread that forked ends, not the process, and the Go
// runtime ends threads as it likes; this one is kept until the stack is closed.
type spawner struct {
	requests  chan func()
	ended     chan struct{}
	closeOnce sync.Once
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for start := range s.requests {
			start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- func() { result <- cmd.Start() }
	return <-result
}

// close comes after the last child is gone.
func (s *spawner) close() {
	s.closeOnce.Do(func() { close(s.requests) })
	<-s.ended
}

type childFiles struct{ log, pid string }

// child is one run of a server process.
type child struct {
	cmd     *exec.Cmd
	logPath string
	pidPath string
	ending  atomic.Bool   // its end is our doing
	gone    chan struct{} // closed when it has been reaped and its pid file removed
}

// startChild runs cmd in a process group of its own, so that a Ctrl-C on the
// terminal reaches only us and the order of stopping stays ours.
func startChild(sp *spawner, cmd *exec.Cmd, files childFiles, deathSignal syscall.Signal) (*child, error) {
	log, err := os.OpenFile(files.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open its log: %w", err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, deathSignal)
	if err := sp.start(cmd); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, logPath: files.log, pidPath: files.pid, gone: make(chan struct{})}
	if err := os.WriteFile(files.pid, []byte(strconv.Itoa(c.pid())+"\n"), 0o644); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("write its pid file: %w", err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// reap waits for the end and says how it came. The caller closes gone.
func (c *child) reap() string {
	_ = c.cmd.Wait() // the state says more than the error
	_ = os.Remove(c.pidPath)
	return c.cmd.ProcessState.String()
}

func (c *child) dead() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *child) goneWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.gone:
		return true
	case <-timer.C:
		return false
	}
}

// signal goes through os.Process, which never hits another process that got the
// number of a reaped one.
func (c *child) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }

// signalFamily reaches the process first and then what it has forked, so that a
// stopped parent forks no more while its children are being counted.
func (c *child) signalFamily(sig syscall.Signal) {
	c.signal(sig)
	for _, pid := range descendants(c.pid()) {
		_ = syscall.Kill(pid, sig)
	}
}

// destroy kills the process and what it has forked, and waits until it is gone.
func (c *child) destroy() error {
	c.ending.Store(true)
	c.signal(syscall.SIGSTOP)
	family := descendants(c.pid())
	c.signal(syscall.SIGKILL)
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if !c.goneWithin(killTimeout) {
		return fmt.Errorf("stack: process %d (%s) is still there %s after SIGKILL: it hangs in the kernel, see its state in ps", c.pid(), c.cmd.Path, killTimeout)
	}
	return nil
}

// descendants lists the processes below pid, by their parents, because Postgres puts
// each of its processes into a session and group of its own.
func descendants(pid int) []int {
	children := map[int][]int{}
	for id, parent := range parents() {
		children[parent] = append(children[parent], id)
	}
	var found []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}
