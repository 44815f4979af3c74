package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"seckill/lockprovider"
)

func newLockRunCommand(p *program) *cobra.Command {
	var wait, killAfter time.Duration
	cmd := &cobra.Command{
		Use:   "run NAME -- CMD...",
		Short: "Hold a lease while a command runs",
		Long: `Hold a lease while a command runs. The command finds its fencing token in
SECKILL_LOCK_TOKEN. When the lease is lost the command gets SIGTERM and, if it does not
end, SIGKILL, with all it has started; then the status is 1. Signals are passed on.
Otherwise the status is the command's, or 128 and the number of the signal that ended it.

The lease is advice: a command that writes must show its token where it writes.`,
		Example: `  seckill lock run job/report -- ./report.sh --month 11
  seckill lock run job/backup --wait 10s -- pg_dump -f out.sql sales`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return wrongUsage(errors.New("lock run: give one name, then --, then the command: seckill lock run job/report -- ./report.sh"))
			}
			if err := errors.Join(checkLockName(args[0]), notNegative("--wait", wait), notNegative("--kill-after", killAfter)); err != nil {
				return wrongUsage(fmt.Errorf("lock run: %w", err))
			}
			path, err := exec.LookPath(args[1])
			if err != nil {
				return wrongUsage(fmt.Errorf("lock run: %w", err))
			}
			c, err := p.loadConfig(cmd)
			if err != nil {
				return err
			}
			if killAfter == 0 {
				killAfter = c.LockTTL / 10 // the guard: an expired lease is not handed on sooner
			}
			child := p.lockedChild(cmd, path, args[1:], killAfter)
			return lockRun{config: c, name: args[0], wait: wait, child: child}.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how `long` to wait for the lease; 0: until it is free")
	cmd.Flags().DurationVar(&killAfter, "kill-after", 0, "how `long` the command may take to end after SIGTERM; 0: a tenth of lock.ttl")
	settingFlags(cmd)
	return cmd
}

func notNegative(flag string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s %v: must not be negative", flag, d)
	}
	return nil
}

// lockRun is one run of a command under a lease.
type lockRun struct {
	config Config
	name   string
	wait   time.Duration
	child  *lockedChild
}

func (r lockRun) run(ctx context.Context) error {
	provider, end, err := openLeases(context.WithoutCancel(ctx), r.config, r.config.LockBackend)
	if err != nil {
		return err
	}
	defer end()
	lease, err := r.acquire(ctx, provider)
	if err != nil {
		return err
	}
	code, err := r.child.run(ctx, lease)
	lost := lease.Err()
	if rerr := lease.Release(context.WithoutCancel(ctx)); errors.Is(rerr, lockprovider.ErrLost) {
		lost = rerr
	}
	switch {
	case err != nil:
		return fmt.Errorf("lock run: %w", err)
	case lost != nil:
		return fmt.Errorf("lock run: the lease on %s was lost while the command ran, which ended with %d: %s", r.name, code, oneLine(lost.Error()))
	case code != exitDone:
		return &exitError{code, fmt.Errorf("lock run: %s ended with %d", r.child.name(), code)}
	}
	return nil
}

// acquire waits for the lease; a signal ends the waiting, and not the lease: once it
// is held the command decides when it ends.
func (r lockRun) acquire(ctx context.Context, provider *lockprovider.Provider) (*lockprovider.Lease, error) {
	waiting, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	holding := context.AfterFunc(ctx, func() { leave(context.Cause(ctx)) })
	lease, err := provider.Acquire(waiting, r.name,
		lockprovider.WithWait(r.wait), lockprovider.WithPurpose("job"), lockprovider.WithNote("lock run: "+r.child.name()))
	if err == nil && holding() {
		return lease, nil
	}
	if err == nil {
		err = errors.Join(context.Cause(ctx), lease.Release(context.WithoutCancel(ctx)))
	}
	switch {
	case errors.Is(err, lockprovider.ErrWaitTimeout):
		return nil, fmt.Errorf("lock run: %w after %v; the command was not run", r.holder(ctx, provider), r.wait)
	case errors.Is(err, lockprovider.ErrUnavailable):
		return nil, fmt.Errorf("lock run: the command was not run: %s; start %s, or check %s", oneLine(err.Error()), r.config.LockBackend, leaseSetting(r.config.LockBackend))
	}
	return nil, fmt.Errorf("lock run: the command was not run: %s", oneLine(err.Error()))
}

// holder says who has the lease.
func (r lockRun) holder(ctx context.Context, provider *lockprovider.Provider) error {
	now, err := provider.Inspect(context.WithoutCancel(ctx), r.name)
	if err != nil {
		return fmt.Errorf("%s is held by another", r.name)
	}
	return fmt.Errorf("%s is held by %s (token %d)", r.name, now.Owner, now.Token)
}

// name is the command without its path.
func (c *lockedChild) name() string { return filepath.Base(c.cmd.Path) }
