package consumer

import (
	"context"
	"fmt"

	"seckill/admission"
)

var sqlOrdersOfActivity = statement("orders_of_activity")

// OrderFilter picks orders of one activity. Empty fields pick all.
type OrderFilter struct {
	Activity string // needed
	User     string
	Status   admission.Status
	After    string // id of the last order of the page before
	Limit    int    // orders of a page; needed
}

// OrdersWhere lists decided orders in order of their ids, which rise with time, one
// page at a time.
func (l *Ledger) OrdersWhere(ctx context.Context, f OrderFilter) ([]admission.Row, error) {
	rows, err := l.rows(ctx, sqlOrdersOfActivity, f.Activity, f.User, string(f.Status), f.After, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list orders of activity %s in the ledger: %w", f.Activity, err)
	}
	return rows, nil
}
