package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"seckill/consumer"
)

// migrated is what seckill migrate answers.
type migrated struct {
	Schema  string `json:"schema"`
	Applied int    `json:"applied"`
}

func newMigrateCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the ledger's schema to this release",
		Long: `Bring the ledger's schema to this release, and create it if there is none.

Serving does it by itself unless SECKILL_MIGRATE is false. Several may run at once.`,
		Example: "  seckill migrate\n  seckill migrate --yes --output json",
		Args:    cobra.NoArgs,
	}
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.askable(cmd, sure); err != nil {
			return err
		}
		return p.withLedger(cmd, func(ctx context.Context, s *stores, c Config) error {
			if err := p.ask(cmd, sure, func() (string, error) { return s.wouldMigrate(ctx, c.Namespace) }); err != nil {
				return err
			}
			n, err := consumer.Migrate(ctx, s.pool, c.Namespace)
			if err != nil {
				return err
			}
			if n > 0 {
				if err := s.ledger.Note(p.onBehalf(ctx, sure), "migrate", "installation", fmt.Sprintf("%d migrations", n)); err != nil {
					return err
				}
			}
			return p.show(migrated{Schema: c.Namespace, Applied: n}, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "schema\t%s\nmigrations applied\t%d\n", c.Namespace, n)
			})
		})
	}
	settingFlags(cmd)
	return cmd
}
