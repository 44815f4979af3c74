package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seckill/lockprovider"
)

// lockLine is a lease as an operator sees it.
type lockLine struct {
	Name    string `json:"name"`
	Owner   string `json:"owner"`
	Note    string `json:"note,omitempty"`
	Token   uint64 `json:"token"`
	TTL     string `json:"ttl"`
	Since   string `json:"since"`
	Waiters int    `json:"waiters"`
}

func newLockCommand(p *program) *cobra.Command {
	return newGroup("lock", "Look at the leases, take one for a command, and change their store",
		newLockListCommand(p), newLockReleaseCommand(p), newLockRunCommand(p), newLockSwitchCommand(p))
}

func newLockListCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List who holds which lease",
		Example: "  seckill lock list\n  seckill lock list --lock-backend redis --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.loadConfig(cmd)
			if err != nil {
				return err
			}
			infos, err := listLeases(cmd.Context(), c, c.LockBackend, "")
			if err != nil {
				return err
			}
			return p.showLeases(c.LockBackend, infos)
		},
	}
	settingFlags(cmd)
	return cmd
}

// openLeases opens the leases of one backend. The function it returns gives back what
// is held, within a bound.
func openLeases(ctx context.Context, c Config, backend string) (*lockprovider.Provider, func(), error) {
	if backend == backendEtcd {
		if err := c.need("ETCD_ENDPOINTS"); err != nil {
			return nil, nil, err
		}
	}
	provider, err := c.openLeases(ctx, backend)
	if err != nil {
		return nil, nil, err
	}
	return provider, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = provider.Close(end) // what is not given back by then expires
	}, nil
}

// leaseSetting names the setting that says where a backend is.
func leaseSetting(backend string) string {
	if backend == backendEtcd {
		return "SECKILL_ETCD_ENDPOINTS"
	}
	return "SECKILL_REDIS_URL"
}

// listLeases reads the leases of one backend whose names begin with a prefix.
func listLeases(ctx context.Context, c Config, backend, prefix string) ([]lockprovider.Info, error) {
	provider, end, err := openLeases(ctx, c, backend)
	if err != nil {
		return nil, err
	}
	defer end()
	infos, err := provider.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("%s does not list its leases: %s; start it, or check %s", backend, oneLine(err.Error()), leaseSetting(backend))
	}
	return infos, nil
}

func (p *program) showLeases(backend string, infos []lockprovider.Info) error {
	lines := lockLines(infos)
	return p.show(map[string]any{"backend": backend, "locks": lines}, func(w io.Writer) {
		_, _ = fmt.Fprintln(w, "NAME\tOWNER\tTOKEN\tTTL\tSINCE\tWAITERS\tNOTE")
		for _, l := range lines {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", l.Name, l.Owner, l.Token, l.TTL, l.Since, l.Waiters, orDash(l.Note))
		}
	})
}

func lockLines(infos []lockprovider.Info) []lockLine {
	lines := []lockLine{}
	for _, i := range infos {
		lines = append(lines, lockLine{
			Name: i.Name, Owner: i.Owner, Note: i.Note, Token: i.Token, TTL: i.TTL.String(), Since: shownTime(i.Since), Waiters: i.Waiters,
		})
	}
	return lines
}
