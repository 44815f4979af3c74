package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"seckill/consumer"
)

// switchWatch is for how long no partition may be taken or settled before the lock
// backend is switched: longer than a worker pauses between two attempts.
const switchWatch = 2 * time.Second

var discard = slog.New(slog.DiscardHandler)

func newLockSwitchCommand(p *program) *cobra.Command {
	var to string
	var gone bool
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Record another store for the leases of this installation",
		Long: `Record another store for the leases of this installation.

Stop every worker first: the switch is refused while a partition is held on either
store, or taken or settled meanwhile. Afterwards set SECKILL_LOCK_BACKEND to the new
store for every process; a worker that is configured with the former one refuses.`,
		Example: "  seckill lock switch --to redis\n  seckill lock switch --to etcd --yes --reason \"etcd is a cluster now\"",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&to, "to", "", "the new `store`: etcd or redis")
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]cobra.Completion{backendEtcd, backendRedis}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&gone, "former-is-gone", false, "do not ask the former store, which will not come back")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if to != backendEtcd && to != backendRedis {
			return wrongUsage(fmt.Errorf("lock switch: --to %q: must be etcd or redis", to))
		}
		if err := p.askable(cmd, sure); err != nil {
			return err
		}
		return p.withLedger(cmd, func(ctx context.Context, s *stores, c Config) error {
			if err := p.ask(cmd, sure, func() (string, error) { return s.wouldSwitch(ctx, to) }); err != nil {
				return err
			}
			return p.switchLock(p.onBehalf(ctx, sure), s, c, to, gone)
		})
	}
	settingFlags(cmd)
	return cmd
}

func (p *program) switchLock(ctx context.Context, s *stores, c Config, to string, gone bool) error {
	now, err := s.ledger.Installation(ctx)
	if err != nil {
		return err
	}
	switched := now.LockBackend != to
	if switched {
		asked := []string{to, now.LockBackend}
		if gone {
			asked = asked[:1]
		}
		seen, err := s.standstill(ctx, c, asked)
		if err != nil {
			return fmt.Errorf("lock switch: nothing was changed: %w", err)
		}
		if err := s.ledger.SwitchLock(ctx, to, seen); err != nil {
			return fmt.Errorf("lock switch: nothing was changed: %w", err)
		}
	}
	answer := map[string]any{"backend": to, "former": now.LockBackend, "switched": switched}
	return p.show(answer, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "backend\t%s\nformer\t%s\nswitched\t%t\n", to, now.LockBackend, switched)
		if switched {
			_, _ = fmt.Fprintf(w, "next\tset SECKILL_LOCK_BACKEND=%s for every process, then start the workers\n", to)
		}
	})
}

// standstill watches for a while that nobody holds, takes or settles a partition, and
// returns how far the partitions are.
func (s *stores) standstill(ctx context.Context, c Config, backends []string) (consumer.Progress, error) {
	seen, err := s.ledger.Progress(ctx)
	if err != nil {
		return nil, err
	}
	watch := time.NewTimer(switchWatch)
	defer watch.Stop()
	for last := false; ; last = true {
		if err := nobodyHolds(ctx, c, backends); err != nil {
			return nil, err
		}
		now, err := s.ledger.Progress(ctx)
		if err != nil {
			return nil, err
		}
		if !maps.Equal(now, seen) {
			return nil, consumer.ErrTermsMove
		}
		if last {
			return seen, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-watch.C:
		}
	}
}

func nobodyHolds(ctx context.Context, c Config, backends []string) error {
	for _, backend := range backends {
		held, err := listLeases(ctx, c, backend, "partition/")
		if err != nil {
			var usage *exitError
			if errors.As(err, &usage) {
				return err
			}
			return fmt.Errorf("%w; --former-is-gone leaves out the former store", err)
		}
		if len(held) > 0 {
			return fmt.Errorf("%s is held by %s on %s, and %d more are: stop every worker first, and wait until its leases are given back",
				held[0].Name, held[0].Owner, backend, len(held)-1)
		}
	}
	return nil
}
