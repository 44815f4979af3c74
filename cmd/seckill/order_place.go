package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seckill/admission"
)

// noTime stands for "of all times".
var noTime time.Time

// placed is what seckill order place answers.
type placed struct {
	ID       string           `json:"order_id"`
	Status   admission.Status `json:"status"`
	Activity string           `json:"activity"`
	SKU      string           `json:"sku"`
	Quantity int64            `json:"quantity"`
	Repeat   bool             `json:"repeat"`
}

func newOrderPlaceCommand(p *program) *cobra.Command {
	ask := admission.Ask{}
	cmd := &cobra.Command{
		Use:   "place ACTIVITY SKU",
		Short: "Place an order for a buyer, as the HTTP interface would",
		Long: `Place an order for a buyer, as the HTTP interface would: the order is in the log
when the command ends with 0, and a worker settles it. Asking again with the same
--key returns the same order.`,
		Example: `  seckill order place spring s1 --user ann
  seckill order place spring s1 --user ann --quantity 2 --key again-1 --yes`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&ask.User, "user", "", "`id` of the buyer")
	cmd.Flags().Int64Var(&ask.Quantity, "quantity", 1, "units, 1 to 1000000")
	cmd.Flags().StringVar(&ask.Key, "key", "", "idempotency `key`, 1 to 255 printable ASCII characters")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ask.Activity, ask.SKU = args[0], args[1]
		if err := checkAsk(ask); err != nil {
			return wrongUsage(fmt.Errorf("order place: %w", err))
		}
		would := func(context.Context, *stores) (string, error) {
			return fmt.Sprintf("An order of %s of %s in activity %s is placed for %s.", counted(ask.Quantity, "unit"), ask.SKU, ask.Activity, ask.User), nil
		}
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, c Config) error { return p.place(ctx, s, c, ask) })
	}
	cmd.ValidArgsFunction = p.suggest(false, activityIDs, skuIDs)
	settingFlags(cmd)
	return cmd
}

func checkAsk(a admission.Ask) error {
	switch {
	case !admission.ValidName(a.Activity) || !admission.ValidName(a.SKU):
		return errors.New("ids of sales and SKUs are 1 to 64 letters, digits, _ and -")
	case !admission.ValidUser(a.User):
		return errors.New("--user is needed: 1 to 128 bytes of printable UTF-8")
	case a.Quantity < 1 || a.Quantity > admission.MaxQuantity:
		return fmt.Errorf("--quantity %d: must be between 1 and %d", a.Quantity, admission.MaxQuantity)
	case a.Key != "" && !admission.ValidKey(a.Key):
		return errors.New("--key must be 1 to 255 printable ASCII characters")
	}
	return nil
}

func (p *program) place(ctx context.Context, s *stores, c Config, ask admission.Ask) (err error) {
	service := admission.NewService(s.gate, s.log, s.ledger, admission.Config{
		QueueLimit: c.QueueLimit, BacklogLimit: c.BacklogLimit, Logger: p.commandLogger(),
	})
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err = errors.Join(err, service.Close(end))
	}()
	within, cancel := context.WithTimeout(ctx, c.HTTPTimeout)
	defer cancel()
	got, err := service.Place(within, ask)
	var problem *admission.Problem
	if errors.As(err, &problem) {
		// The order was not placed, or nobody knows: see the problem's words.
		if problem.Location != "" {
			return fmt.Errorf("order place: %s; it would be %s", plainError(err), problem.Location)
		}
		return fmt.Errorf("order place: %w", plainError(err))
	}
	if err != nil {
		return err
	}
	if !got.Repeat {
		if err := s.ledger.Note(ctx, "place order", got.ID, fmt.Sprintf("%d of %s/%s", got.Quantity, got.Activity, got.SKU)); err != nil {
			return fmt.Errorf("order %s is placed: %w", got.ID, err)
		}
	}
	v := placed{ID: got.ID, Status: got.Status, Activity: got.Activity, SKU: got.SKU, Quantity: got.Quantity, Repeat: got.Repeat}
	return p.show(v, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "order\t%s\nstatus\t%s\nactivity\t%s\nsku\t%s\nquantity\t%d\nrepeat\t%t\n", v.ID, v.Status, v.Activity, v.SKU, v.Quantity, v.Repeat)
	})
}
