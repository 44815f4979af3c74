package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

func newActivityStockCommand(p *program) *cobra.Command {
	d := consumer.StockDelta{}
	cmd := &cobra.Command{
		Use:   "stock ACTIVITY SKU",
		Short: "Add units to a sale, or take some away",
		Long: `Add units to what a sale has of a SKU, or take some away with a negative delta. Needs
--reason, which is written to the activity log.

Units that are added are for sale at once. To take units away, the sale is closed for
some seconds, until all that was admitted is settled (which takes a running worker);
they are taken only if so many are free then.`,
		Example: `  seckill activity stock spring s1 --delta=100 --reason "second pallet"
  seckill activity stock spring s1 --delta=-10 --reason damaged --key ticket-4711 --yes`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().Int64Var(&d.Delta, "delta", 0, "`units` to add, or to take away if negative")
	cmd.Flags().StringVar(&d.Key, "key", "", "`Idempotency-Key`: repeating the command under it changes the stock once")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.Activity, d.SKU = args[0], args[1]
		if err := checkDelta(d, sure.reason); err != nil {
			return wrongUsage(fmt.Errorf("activity stock: %w", err))
		}
		would := func(ctx context.Context, s *stores) (string, error) { return s.wouldStock(ctx, d) }
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, _ Config) error {
			ctx, cancel := context.WithTimeout(ctx, adminTimeout)
			defer cancel()
			a, err := s.operator(p.commandLogger()).stock(ctx, d)
			if err != nil {
				return stockError(err)
			}
			return p.showActivity(a)
		})
	}
	cmd.ValidArgsFunction = p.suggest(false, activityIDs, skuIDs)
	settingFlags(cmd)
	return cmd
}

func checkDelta(d consumer.StockDelta, reason string) error {
	switch {
	case d.Delta == 0 || d.Delta > consumer.MostUnits || d.Delta < -consumer.MostUnits:
		return fmt.Errorf("give --delta, from -%d to %d and not 0", consumer.MostUnits, consumer.MostUnits)
	case reason == "":
		return errors.New("give the reason with --reason")
	case d.Key != "" && !admission.ValidKey(d.Key):
		return errors.New("--key is 1 to 255 printable ASCII characters")
	}
	return nil
}

// stockError names the refusal by its code, as the admin API does.
func stockError(err error) error {
	if errors.Is(err, consumer.ErrNotEnough) {
		return fmt.Errorf("%w (%s)", err, admission.CodeNotEnough)
	}
	return err
}
