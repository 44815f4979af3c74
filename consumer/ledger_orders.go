package consumer

import (
	"context"
	"fmt"

	"seckill/admission"
)

var (
	sqlOrdersOfActivity = statement("orders_of_activity")
	sqlOrdersSearch     = statement("orders_search")
	sqlOrdersOfBuyerIn  = statement("orders_search_buyer")
)

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

// Statuses are what a decided order can be.
var Statuses = []admission.Status{
	admission.Held, admission.PendingPayment, admission.Confirmed, admission.Paid, admission.Cancelled, admission.Expired, admission.Rejected,
}

// OrderSearch picks decided orders of one activity, or of one buyer. Empty fields pick
// all; activity or user is needed.
type OrderSearch struct {
	Activity string
	User     string
	Status   admission.Status
	Before   string // id of the last order of the page before
	Limit    int    // orders of a page; needed
}

// SearchOrders lists decided orders, newest first, one page at a time.
func (l *Ledger) SearchOrders(ctx context.Context, s OrderSearch) ([]admission.Row, error) {
	statuses := Statuses
	if s.Status != "" {
		statuses = []admission.Status{s.Status}
	}
	var found []admission.Row
	var err error
	if s.User == "" {
		found, err = l.rows(ctx, sqlOrdersSearch, s.Activity, statuses, s.Before, s.Limit)
	} else {
		found, err = l.ordersOfBuyer(ctx, s, statuses)
	}
	if err != nil {
		return nil, fmt.Errorf("search orders in the ledger: %w", err)
	}
	return found, nil
}

func (l *Ledger) ordersOfBuyer(ctx context.Context, s OrderSearch, statuses []admission.Status) ([]admission.Row, error) {
	activities := []string{s.Activity}
	if s.Activity == "" {
		var err error
		if activities, err = l.AllActivities(ctx); err != nil {
			return nil, err
		}
	}
	return l.rows(ctx, sqlOrdersOfBuyerIn, activities, s.User, statuses, s.Before, s.Limit)
}
