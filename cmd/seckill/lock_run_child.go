package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"seckill/lockprovider"
)

// lockedChild is the command of lock run. Where there is no terminal it leads a process
// group of its own, and what it is sent goes to the whole group; on a terminal it must
// stay in the terminal's group to be able to read from it.
type lockedChild struct {
	cmd       *exec.Cmd
	killAfter time.Duration // between SIGTERM and SIGKILL
	terminal  bool
}

// passedOn are the signals that go to the command.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// outputDelay is how long the output of what the command left behind is waited for.
const outputDelay = time.Second

func (p *program) lockedChild(cmd *cobra.Command, path string, args []string, killAfter time.Duration) *lockedChild {
	c := &lockedChild{
		cmd:       &exec.Cmd{Path: path, Args: args, Env: p.environ(), Stdin: cmd.InOrStdin(), Stdout: p.stdout, Stderr: p.stderr},
		killAfter: killAfter,
	}
	in, ok := c.cmd.Stdin.(*os.File)
	c.terminal = ok && isatty.IsTerminal(in.Fd())
	c.cmd.WaitDelay = outputDelay
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.terminal}
	return c
}

// run starts the command and returns its exit code when it has ended; it ends it when
// the lease is lost, or when ctx ends for another reason than a signal, which the
// command has been sent.
func (c *lockedChild) run(ctx context.Context, lease *lockprovider.Lease) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	// The kernel sends the signal of endWithParent when the thread that started the
	// command ends, so this thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	endWithParent(c.cmd.SysProcAttr)
	c.cmd.Env = append(c.cmd.Env, "SECKILL_LOCK_TOKEN="+strconv.FormatUint(lease.Token(), 10))
	if err := c.cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", c.name(), err)
	}
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(ctx, lease, signals, ended)
	}()
	_ = c.cmd.Wait() // what it says is in the process state
	close(ended)
	<-watched
	return exitCode(c.cmd.ProcessState), nil
}

func (c *lockedChild) watch(ctx context.Context, lease *lockprovider.Lease, signals <-chan os.Signal, ended <-chan struct{}) {
	lost, cancelled := lease.Context().Done(), ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case s := <-signals:
			c.pass(s)
		case <-lost:
			lost = nil
			c.send(syscall.SIGTERM)
			kill = time.After(c.killAfter)
		case <-cancelled:
			cancelled = nil
			if fromSignal(ctx) {
				continue
			}
			c.send(syscall.SIGTERM)
			kill = time.After(c.killAfter)
		case <-kill:
			c.send(syscall.SIGKILL)
		case <-ended:
			if lease.Err() != nil && !c.terminal {
				c.send(syscall.SIGKILL) // what the command left behind in its group
			}
			return
		}
	}
}

// fromSignal tells whether ctx ended by a signal (see signal.NotifyContext).
func fromSignal(ctx context.Context) bool { return context.Cause(ctx) != context.Canceled }

// pass sends a signal on, unless the terminal has sent it to the command as well.
func (c *lockedChild) pass(s os.Signal) {
	number, ok := s.(syscall.Signal)
	if !ok || c.terminal && (number == syscall.SIGINT || number == syscall.SIGQUIT) {
		return
	}
	c.send(number)
}

// send signals the command and, where it leads one, its group; it may be gone already.
func (c *lockedChild) send(s syscall.Signal) {
	if c.terminal {
		_ = c.cmd.Process.Signal(s)
		return
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, s)
}

// exitCode is the command's, or 128 and the number of the signal that ended it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
