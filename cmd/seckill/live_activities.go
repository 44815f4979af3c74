package main

import (
	"context"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// readActivities looks at every activity that operators may want to see.
func (l *lookout) readActivities(ctx context.Context, s *liveSample) error {
	ids, err := l.node.stores.ledger.RecentActivities(ctx, mostLive)
	if err != nil {
		return err
	}
	audit := l.node.stores.audit(l.node.config, "", 0)
	views, closed := []liveActivity{}, map[string]liveActivity{}
	for _, id := range ids {
		view, ok := l.closed[id]
		if !ok || time.Since(view.At) > closedEvery {
			m, err := audit.Moment(ctx, id)
			if err != nil {
				return err
			}
			view = viewMoment(m)
		}
		if view.State == admission.Closed {
			closed[id] = view
		}
		views = append(views, view)
	}
	l.closed, s.Activities = closed, views
	return nil
}

func viewMoment(m consumer.Moment) liveActivity {
	a := m.Activity
	v := liveActivity{
		Activity: a.ID, Title: a.Title, State: a.State, Gate: "none", StartsAt: timeOrNil(a.StartsAt), EndsAt: timeOrNil(a.EndsAt),
		PaymentWindow: a.PaymentWindow.String(), Epoch: a.Epoch, GateEpoch: m.Mark.Epoch, Suspect: a.Suspect,
		At: time.Now().UTC(), Exact: m.Exact, SKUs: []liveSKU{},
	}
	if m.Mark.Present() {
		v.Gate = gateState(a, m.Mark)
	}
	for i, sku := range a.SKUs {
		of := m.SKUs[i]
		units := map[admission.Status]int64{}
		for _, status := range consumer.Statuses {
			units[status] = of.Units[status]
		}
		v.SKUs = append(v.SKUs, liveSKU{
			SKU: sku.ID, Total: sku.Total, Stock: sku.Stock, LimitPerUser: sku.LimitPerUser, Price: sku.Price,
			GateStock: of.GateStock, Undecided: of.Undecided, Held: of.Units[admission.Held], Live: of.Live(),
			ReleaseDue: of.ReleaseDue, Difference: of.Difference, Units: units,
		})
	}
	return v
}
