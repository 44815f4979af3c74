package admission

import (
	"context"
	"fmt"
	"time"
)

var (
	setSaleScript  = script("set_sale")
	setTotalScript = script("set_total")
	endScript      = script("end")
)

// closedKept is how long the gate of a closed sale is kept once all of it is decided,
// for buyers who ask again. Then the ledger alone knows the orders.
const closedKept = 7 * 24 * time.Hour

// Bring brings to the gate what operators have changed in the ledger, as a has it:
// state, window and totals. It may run any number of times and late.
func (g *Gate) Bring(ctx context.Context, a Activity) error {
	if err := g.SetSale(ctx, a); err != nil {
		return err
	}
	return g.SetTotals(ctx, a)
}

// SetSale brings state and window of the activity, as the ledger has them, to its
// gate. It may run any number of times and late: the newest revision stays.
func (g *Gate) SetSale(ctx context.Context, a Activity) error {
	args := append([]any{a.Epoch}, saleArgs(a)...)
	reply, err := g.run(ctx, setSaleScript, g.keys(a.ID, "gate"), args)
	if err != nil {
		return fmt.Errorf("bring state %s of activity %s to its gate: %w", a.State, a.ID, err)
	}
	if text(reply[0]) != "open" {
		return notReady(a.ID, reply)
	}
	return nil
}

func saleArgs(a Activity) []any {
	return []any{a.Revision, string(a.State), millis(a.StartsAt), millis(a.EndsAt)}
}

// millis is the instant in whole milliseconds, the gate's resolution; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// SetTotals brings the totals of the activity's SKUs, as the ledger has them, to its
// gate, which then has as many units more or fewer. It may run any number of times
// and late: the newest version of each total stays.
func (g *Gate) SetTotals(ctx context.Context, a Activity) error {
	args := []any{a.Epoch}
	for _, s := range a.SKUs {
		if s.Version > 1 { // else every gate was filled with it
			args = append(args, s.ID, s.Version, s.Total)
		}
	}
	if len(args) == 1 {
		return nil
	}
	reply, err := g.run(ctx, setTotalScript, g.keys(a.ID, "gate", "stock"), args)
	if err != nil {
		return fmt.Errorf("bring the totals of activity %s to its gate: %w", a.ID, err)
	}
	if text(reply[0]) != "open" {
		return notReady(a.ID, reply)
	}
	return nil
}

// End lets the gate of a closed activity expire after closedKept, if nothing of it is
// pending. It may run any number of times; the first one counts.
func (g *Gate) End(ctx context.Context, a Activity) error {
	keys := g.keys(a.ID, "gate", "stock", "orders", "buyers", "keys", "pending")
	reply, err := g.run(ctx, endScript, keys, []any{a.Epoch, closedKept.Milliseconds()})
	if err != nil {
		return fmt.Errorf("give the gate of activity %s an end: %w", a.ID, err)
	}
	if text(reply[0]) != "open" {
		return notReady(a.ID, reply)
	}
	return nil
}
