package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

// orderLine is an order as an operator sees it.
type orderLine struct {
	admission.OrderView
	User string `json:"user"`
}

func viewOrder(r admission.Row) orderLine {
	v := r.View()
	v.Reason = r.Reason // a buyer is not told why an order is held
	return orderLine{OrderView: v, User: r.User}
}

func newOrderCommand(p *program) *cobra.Command {
	return newGroup(
		"order", "Place orders, look at them and cancel them",
		newOrderPlaceCommand(p), newOrderGetCommand(p), newOrderListCommand(p), newOrderCancelCommand(p),
	)
}

func newOrderGetCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show one order, decided or not",
		Example: "  seckill order get 01999999-0000-7000-8000-000000000001\n  seckill order get 01999999-0000-7000-8000-000000000001 --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !admission.ValidID(args[0]) {
				return wrongUsage(fmt.Errorf("order get: %q is not an order id (a UUID in lower case)", args[0]))
			}
			return p.withStores(cmd, func(ctx context.Context, s *stores, _ Config) error {
				row, err := s.findOrder(ctx, args[0])
				if err != nil {
					return err
				}
				return p.showOrders(viewOrder(row), viewOrder(row))
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	settingFlags(cmd)
	return cmd
}

// findOrder looks for a row, then for a reservation at every gate, then for a row
// again: an order that was settled between the two looks is at no gate.
func (s *stores) findOrder(ctx context.Context, id string) (admission.Row, error) {
	row, found, err := s.findRow(ctx, id)
	if err != nil || found {
		return row, err
	}
	row, found, err = s.findPending(ctx, id)
	if err != nil || found {
		return row, err
	}
	row, found, err = s.findRow(ctx, id)
	if err != nil || found {
		return row, err
	}
	return row, fmt.Errorf("order %s: %w: neither a row in the ledger nor waiting at a gate", id, admission.ErrNoOrder)
}

func (s *stores) findRow(ctx context.Context, id string) (admission.Row, bool, error) {
	rows, err := s.ledger.Orders(ctx, []string{id})
	row, found := rows[id]
	return row, found, err
}

func (s *stores) findPending(ctx context.Context, id string) (admission.Row, bool, error) {
	activities, err := s.ledger.Activities(ctx)
	if err != nil {
		return admission.Row{}, false, err
	}
	for _, activity := range activities {
		r, ok, err := s.gate.Find(ctx, activity, id)
		if err != nil {
			return admission.Row{}, false, err
		}
		if ok && r.State == admission.Pending {
			a, err := s.ledger.Activity(ctx, activity)
			return undecided(a, r.Order), err == nil, err
		}
	}
	return admission.Row{}, false, nil
}

// undecided shows a pending reservation as the accepted order that it will be.
func undecided(a admission.Activity, o admission.Order) admission.Row {
	row := admission.Row{
		ID: o.ID, Activity: a.ID, SKU: o.SKU, User: o.User, Key: o.Key, Quantity: o.Quantity,
		Status: admission.Accepted, CreatedAt: o.At,
	}
	for _, sku := range a.SKUs {
		if sku.ID == o.SKU {
			row.Amount = o.Quantity * sku.Price
		}
	}
	return row
}

// statuses are what an order can be.
var statuses = []string{
	string(admission.Accepted), string(admission.Held), string(admission.PendingPayment), string(admission.Confirmed),
	string(admission.Paid), string(admission.Cancelled), string(admission.Expired), string(admission.Rejected),
}

func newOrderListCommand(p *program) *cobra.Command {
	var status string
	f := consumer.OrderFilter{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the decided orders of a sale, or (--status accepted) the undecided ones",
		Long: `List the decided orders of a sale in order of their ids, which rise with time; or,
with --status accepted, those that wait for a decision. The next page begins after
the last id (--after).`,
		Example: `  seckill order list --activity spring
  seckill order list --activity spring --user ann --status confirmed
  seckill order list --activity spring --status accepted --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOrderFilter(f, status); err != nil {
				return wrongUsage(fmt.Errorf("order list: %w", err))
			}
			f.Status = admission.Status(status)
			return p.withStores(cmd, func(ctx context.Context, s *stores, _ Config) error { return p.listOrders(ctx, s, f) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Activity, "activity", "", "`id` of the sale")
	flags.StringVar(&f.User, "user", "", "`id` of the only buyer to list")
	flags.StringVar(&status, "status", "", "the only `status` to list")
	flags.StringVar(&f.After, "after", "", "`id` of the order after which to begin")
	flags.IntVar(&f.Limit, "limit", 100, "most orders to list, 1 to 10000")
	p.suggestActivities(cmd)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))
	settingFlags(cmd)
	return cmd
}

func checkOrderFilter(f consumer.OrderFilter, status string) error {
	switch {
	case f.Activity == "":
		return errors.New("give the sale with --activity")
	case status != "" && !slices.Contains(statuses, status):
		return fmt.Errorf("--status %q: must be %s", status, alternatives(statuses))
	case f.After != "" && !admission.ValidID(f.After):
		return fmt.Errorf("--after %q: must be an order id", f.After)
	case f.Limit < 1 || f.Limit > 10_000:
		return fmt.Errorf("--limit %d: must be between 1 and 10000", f.Limit)
	}
	return nil
}

func (p *program) listOrders(ctx context.Context, s *stores, f consumer.OrderFilter) error {
	if _, err := s.ledger.Activity(ctx, f.Activity); err != nil {
		return err
	}
	var waiting, rows []admission.Row
	var err error
	// First the gate: an order that is settled meanwhile has a row when the ledger is read.
	if f.Status == admission.Accepted || f.Status == "" && f.User != "" && f.After == "" { // a buyer's orders are few: show all of them
		if waiting, err = s.undecidedWhere(ctx, f); err != nil {
			return err
		}
	}
	if f.Status != admission.Accepted {
		if rows, err = s.ledger.OrdersWhere(ctx, f); err != nil {
			return err
		}
	}
	lines := []orderLine{}
	for _, row := range append(rows, waiting...) {
		lines = append(lines, viewOrder(row))
	}
	return p.showOrders(map[string]any{"orders": lines}, lines...)
}

// undecidedWhere lists what is pending at the gate and has no row yet, oldest first.
func (s *stores) undecidedWhere(ctx context.Context, f consumer.OrderFilter) ([]admission.Row, error) {
	var rows []admission.Row
	a, err := s.ledger.Activity(ctx, f.Activity)
	if err != nil {
		return nil, err
	}
	for skip := int64(0); len(rows) < f.Limit; {
		page, err := s.gate.Pending(ctx, f.Activity, noTime, skip)
		if err != nil || page.Page == 0 {
			return rows, err
		}
		skip += int64(page.Page)
		decided, err := s.ledger.Orders(ctx, ids(page.List))
		if err != nil {
			return nil, err
		}
		for _, o := range page.List {
			if _, ok := decided[o.ID]; ok {
				continue // the gate will be told
			}
			if (f.User == "" || o.User == f.User) && o.ID > f.After && len(rows) < f.Limit {
				rows = append(rows, undecided(a, o))
			}
		}
	}
	return rows, nil
}

func ids(orders []admission.Order) []string {
	all := make([]string, 0, len(orders))
	for _, o := range orders {
		all = append(all, o.ID)
	}
	return all
}

func (p *program) showOrders(v any, lines ...orderLine) error {
	return p.show(v, func(w io.Writer) {
		_, _ = fmt.Fprintln(w, "ORDER\tACTIVITY\tSKU\tUSER\tQUANTITY\tAMOUNT\tSTATUS\tREASON\tREFUND\tREPLACED BY\tCREATED")
		for _, o := range lines {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n",
				o.ID, o.Activity, o.SKU, o.User, o.Quantity, o.Amount, o.Status, orDash(o.Reason), orDash(o.Refund), orDash(o.ReplacedBy), o.CreatedAt)
		}
	})
}
