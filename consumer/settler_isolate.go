package consumer

import (
	"context"
	"slices"
)

// settleOrIsolate settles deliveries; when something in them cannot be settled as it
// stands, it halves them until the order is found, which alone is held. Then the
// position does not move: a crash between two parts, or before the dead letter is
// written, must not skip anything.
func (s *settler) settleOrIsolate(ctx context.Context, deliveries []Delivery, upTo uint64) ([]Decision, error) {
	decisions, err := s.Ledger.Settle(ctx, s.term, deliveries, upTo)
	if err == nil && !holdsAny(decisions) {
		s.term.Reached = max(s.term.Reached, upTo)
	}
	if err == nil || classify(err) != poison {
		return decisions, err
	}
	first, second := halve(deliveries)
	if second == nil {
		s.Logger.Error("an order cannot be settled as it stands: it is held", "order", first[0].Orders[0].ID, "error", err)
		return s.Ledger.Hold(ctx, s.term, first[0], err)
	}
	decisions, err = s.settleOrIsolate(ctx, first, 0)
	if err != nil {
		return nil, err
	}
	more, err := s.settleOrIsolate(ctx, second, 0)
	return append(decisions, more...), err
}

// halve splits the orders of deliveries into two parts in log order; the second is
// nil when there is only one order.
func halve(deliveries []Delivery) (first, second []Delivery) {
	orders := 0
	for _, d := range deliveries {
		orders += len(d.Orders)
	}
	if orders < 2 {
		return withOrders(deliveries), nil
	}
	left := orders / 2
	for _, d := range deliveries {
		n := min(left, len(d.Orders))
		left -= n
		front, back := d, d
		front.Orders, back.Orders = d.Orders[:n], d.Orders[n:]
		first, second = append(first, front), append(second, back)
	}
	return withOrders(first), withOrders(second)
}

func withOrders(deliveries []Delivery) []Delivery {
	return slices.DeleteFunc(slices.Clone(deliveries), func(d Delivery) bool { return len(d.Orders) == 0 })
}
