package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/deploy/stack"
)

// fault is one thing that goes wrong. Each step may be nil. strike and heal return what proves that the fault
// really happened; a fault without any proof does not count.
type fault struct {
	about  string
	ready  func(ctx context.Context, f *field) error // some time before, the sale is under way
	strike func(ctx context.Context, f *field) (proof string, err error)
	lasts  time.Duration // from strike to heal
	heal   func(ctx context.Context, f *field) (proof string, err error)
	links  bool // needs proxies between the service and its servers
	small  bool // needs NATS on a small file system of its own
}

// longPause is longer than twice the lease's TTL.
const longPause = 2*leaseTTL + time.Second

// isServer says whether a target is one of the four servers; else it is a process of the service.
func isServer(target string) bool { return slices.Contains(stack.Names, target) }

func (f *field) pid(target string) int {
	if isServer(target) {
		return f.servers.PID(target)
	}
	if s := f.nodes[target].running; s != nil {
		return s.process.Pid
	}
	return 0
}

// killed is kill -9 of targets, at once, and a start of each after a while.
func killed(downtime time.Duration, targets ...string) fault {
	var before []int
	return fault{
		about: "kill -9 " + strings.Join(targets, " and ") + ", started again after " + downtime.String(),
		strike: func(_ context.Context, f *field) (string, error) {
			before = before[:0]
			for _, target := range targets {
				before = append(before, f.pid(target))
			}
			return "", f.killAll(targets)
		},
		lasts: downtime,
		heal: func(ctx context.Context, f *field) (string, error) {
			if err := f.startAll(ctx, targets); err != nil {
				return "", err
			}
			return f.provePIDs(targets, before)
		},
	}
}

func (f *field) killAll(targets []string) error {
	var group errgroup.Group
	for _, target := range targets {
		group.Go(func() error {
			if isServer(target) {
				return f.servers.Kill(target)
			}
			return f.kill(target)
		})
	}
	return group.Wait()
}

// startAll starts the servers side by side and then the processes, which need them.
func (f *field) startAll(ctx context.Context, targets []string) error {
	var group errgroup.Group
	for _, target := range targets {
		if isServer(target) {
			group.Go(func() error { return f.servers.Start(ctx, target) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, target := range targets {
		if isServer(target) {
			continue
		}
		if err := f.start(ctx, target); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) provePIDs(targets []string, before []int) (string, error) {
	var proof []string
	for i, target := range targets {
		was, is := before[i], f.pid(target)
		if was == 0 || is == 0 || was == is {
			return "", fmt.Errorf("%s is not proven to have been killed: process %d before, %d now", target, was, is)
		}
		proof = append(proof, fmt.Sprintf("%s pid %d -> %d", target, was, is))
	}
	return strings.Join(proof, ", "), nil
}

// paused is SIGSTOP of targets, and SIGCONT after a while.
func paused(lasts time.Duration, targets ...string) fault {
	return fault{
		about: "SIGSTOP " + strings.Join(targets, " and ") + ", SIGCONT after " + lasts.String(),
		strike: func(_ context.Context, f *field) (string, error) {
			for _, target := range targets {
				if err := f.pause(target); err != nil {
					return "", err
				}
			}
			return f.proveStopped(targets)
		},
		lasts: lasts,
		heal: func(_ context.Context, f *field) (string, error) {
			proof, err := f.proveStopped(targets) // all the time
			for _, target := range targets {
				err = errors.Join(err, f.resume(target))
			}
			return strings.Replace(proof, "is in", "still in", 1), err
		},
	}
}

func (f *field) pause(target string) error {
	if isServer(target) {
		return f.servers.Pause(target)
	}
	return f.nodes[target].running.process.Signal(syscall.SIGSTOP)
}

func (f *field) resume(target string) error {
	if isServer(target) {
		return f.servers.Resume(target)
	}
	return f.nodes[target].running.process.Signal(syscall.SIGCONT)
}

// proveStopped reads the state of each process; a signal takes a moment to arrive.
func (f *field) proveStopped(targets []string) (string, error) {
	var proof []string
	for _, target := range targets {
		pid, state := f.pid(target), ""
		for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				return "", fmt.Errorf("read the state of %s: %w (it is proven through /proc, on Linux)", target, err)
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			if state, _, _ = strings.Cut(rest, " "); state == "T" {
				break
			}
			if time.Now().After(deadline) {
				return "", fmt.Errorf("%s (process %d) is in state %q a second after SIGSTOP, not T", target, pid, state)
			}
		}
		proof = append(proof, fmt.Sprintf("%s pid %d is in state %s", target, pid, state))
	}
	return strings.Join(proof, ", "), nil
}

// together strikes several faults at once and heals them in order.
func together(about string, faults ...fault) fault {
	all := fault{about: about}
	for _, one := range faults {
		all.lasts = max(all.lasts, one.lasts)
		all.links, all.small = all.links || one.links, all.small || one.small
	}
	all.ready = func(ctx context.Context, f *field) error {
		for _, one := range faults {
			if one.ready != nil {
				if err := one.ready(ctx, f); err != nil {
					return err
				}
			}
		}
		return nil
	}
	each := func(step func(fault) func(context.Context, *field) (string, error)) func(context.Context, *field) (string, error) {
		return func(ctx context.Context, f *field) (string, error) {
			var proofs []string
			for _, one := range faults {
				do := step(one)
				if do == nil {
					continue
				}
				proof, err := do(ctx, f)
				if err != nil {
					return "", err
				}
				if proof != "" {
					proofs = append(proofs, proof)
				}
			}
			return strings.Join(proofs, ", "), nil
		}
	}
	all.strike = each(func(one fault) func(context.Context, *field) (string, error) { return one.strike })
	all.heal = each(func(one fault) func(context.Context, *field) (string, error) { return one.heal })
	return all
}

// afterwards strikes one fault, waits, and strikes another while the first goes on.
func afterwards(about string, first fault, pause time.Duration, second fault) fault {
	strike := second.strike
	second.strike = func(ctx context.Context, f *field) (string, error) {
		if err := wait(ctx, pause); err != nil {
			return "", err
		}
		return strike(ctx, f)
	}
	return together(about, first, second)
}
