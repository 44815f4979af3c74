package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

func newOrderCancelCommand(p *program) *cobra.Command {
	refund := true
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel an order, paid or not, decided or not; its units can be sold again",
		Long: `Cancel an order, paid or not, decided or not; its units can be sold again and its
buyer may order again. The money of a paid one is marked as due to go back, unless
--refund=false. Needs --reason, which is written to the activity log.`,
		Example: `  seckill order cancel 01999999-0000-7000-8000-000000000001 --reason "the buyer asked by telephone"
  seckill order cancel 01999999-0000-7000-8000-000000000001 --reason fraud --refund=false --yes`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&refund, "refund", true, "mark the money of a paid order as due to go back")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !admission.ValidID(args[0]) {
			return wrongUsage(fmt.Errorf("order cancel: %q is not an order id (a UUID in lower case)", args[0]))
		}
		if sure.reason == "" {
			return wrongUsage(errors.New("order cancel: give the reason with --reason"))
		}
		would := func(ctx context.Context, s *stores) (string, error) {
			row, err := s.findOrder(ctx, args[0])
			return wouldCancel(row, refund), err
		}
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, c Config) error {
			row, err := s.cancelOrder(ctx, s.desk(p.commandLogger(), c), args[0], refund)
			if err != nil {
				return err
			}
			return p.showOrders(viewOrder(row), viewOrder(row))
		})
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	settingFlags(cmd)
	return cmd
}

// cancelOrder cancels an order as an operator may, wherever it stands.
func (s *stores) cancelOrder(ctx context.Context, desk *consumer.Desk, id string, refund bool) (admission.Row, error) {
	row, err := s.findOrder(ctx, id)
	if err != nil {
		return row, err
	}
	c := admission.Cancellation{ID: id, Refund: refund, Partition: s.log.Partition(row.Activity)}
	if row.Status == admission.Accepted {
		c.InFlight = &row
	}
	return desk.Cancel(ctx, c)
}
