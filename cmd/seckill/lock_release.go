package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"seckill/consumer"
	"seckill/lockprovider"
)

func newLockReleaseCommand(p *program) *cobra.Command {
	var token uint64
	cmd := &cobra.Command{
		Use:   "release NAME",
		Short: "Take a lease from the holder that has the given token",
		Long: `Take a lease from the holder that has the given token, and from nobody else. The holder
is told, and its work is cancelled; it may still be at it for a moment. The next in the
queue gets the lease at once. The tokens stand in seckill lock list.`,
		Example: `  seckill lock release job/sweep --token 1796075896268123
  seckill lock release partition/3 --token 4711 --yes --reason "host1 hangs"`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Uint64Var(&token, "token", 0, "`number` of the hold that is to end, from seckill lock list")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if err := checkLockName(name); err != nil {
			return wrongUsage(fmt.Errorf("lock release: %w", err))
		}
		if token == 0 {
			return wrongUsage(errors.New("lock release: give the holder's token with --token; seckill lock list shows it"))
		}
		if err := p.askable(cmd, sure); err != nil {
			return err
		}
		return p.withLedger(cmd, func(ctx context.Context, s *stores, c Config) error {
			provider, end, err := openLeases(ctx, c, c.LockBackend)
			if err != nil {
				return err
			}
			defer end()
			if err := p.ask(cmd, sure, func() (string, error) { return wouldRelease(ctx, provider, name, token), nil }); err != nil {
				return err
			}
			return p.releaseLease(p.onBehalf(ctx, sure), provider, s.ledger, c, name, token)
		})
	}
	cmd.ValidArgsFunction = p.suggest(false, leaseNames)
	_ = cmd.RegisterFlagCompletionFunc("token", func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.suggest(false, nil, leaseTokens)(cmd, args[:1], begin)
	})
	settingFlags(cmd)
	return cmd
}

// checkLockName refuses what no lease can be called.
func checkLockName(name string) error {
	if name == "" || len(name) > maxLockName {
		return fmt.Errorf("a name has 1 to %d bytes", maxLockName)
	}
	return nil
}

// maxLockName is the longest name, in bytes, that lockprovider takes.
const maxLockName = 1024

// wouldRelease says whose work ends. Whether the token is the holder's is judged by the
// release itself.
func wouldRelease(ctx context.Context, provider *lockprovider.Provider, name string, token uint64) string {
	now, err := provider.Inspect(ctx, name)
	if err != nil || now.Token != token {
		return fmt.Sprintf("Nobody is seen to hold %s under token %d; if somebody does then, it is taken from them.", name, token)
	}
	return fmt.Sprintf("%s is taken from %s (token %d, held since %s), whose work under it is cancelled; waiting for it: %d.",
		name, now.Owner, token, shownTime(now.Since), now.Waiters)
}

func (p *program) releaseLease(ctx context.Context, provider *lockprovider.Provider, ledger *consumer.Ledger, c Config, name string, token uint64) error {
	if err := evict(ctx, provider, ledger, c.LockBackend, name, token); err != nil {
		return fmt.Errorf("lock release: %w", err)
	}
	return p.show(map[string]any{"backend": c.LockBackend, "name": name, "token": token, "released": true}, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "released\t%s\ntoken\t%d\n", name, token)
	})
}

// evict takes a lease from the holder with the token and writes so to the activity log.
func evict(ctx context.Context, provider *lockprovider.Provider, ledger *consumer.Ledger, backend, name string, token uint64) error {
	err := provider.ForceRelease(ctx, name, token)
	switch {
	case errors.Is(err, lockprovider.ErrNotHeld):
		return fmt.Errorf("nobody holds %s on %s; nothing was changed: %w", name, backend, errLeaseFree)
	case errors.Is(err, lockprovider.ErrTokenMismatch):
		return fmt.Errorf("%w; nothing was changed", otherHolder(ctx, provider, name, token))
	case err != nil:
		return fmt.Errorf("%s does not answer: %s; start it, or check %s", backend, oneLine(err.Error()), leaseSetting(backend))
	}
	if err := ledger.Note(ctx, "release lock", name, fmt.Sprintf("token %d on %s", token, backend)); err != nil {
		return fmt.Errorf("%s was taken from its holder (token %d), but this is not in the activity log: %w", name, token, err)
	}
	return nil
}

var (
	errLeaseFree   = errors.New("the lease is free")
	errOtherHolder = errors.New("the token is not the holder's")
)

// otherHolder says who has the lease instead.
func otherHolder(ctx context.Context, provider *lockprovider.Provider, name string, token uint64) error {
	now, err := provider.Inspect(ctx, name)
	if err != nil {
		return fmt.Errorf("%s is not held under token %d: %w", name, token, errOtherHolder)
	}
	return fmt.Errorf("%s is held by %s under token %d, not %d: %w", name, now.Owner, now.Token, token, errOtherHolder)
}
