package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"seckill/admission"
)

const (
	// lateEvery is the pause between two rounds.
	lateEvery = time.Second
	// lateTimeout bounds one attempt to finish a payment.
	lateTimeout = 3 * time.Second
)

// LatePayments finishes late payments whose outcome was not learned: the node died, or
// gate or log did not answer. It may run anywhere; one at a time is enough.
type LatePayments struct {
	Ledger  *Ledger
	Service *admission.Service
	Logger  *slog.Logger
}

// Run finishes payments until ctx ends.
func (p *LatePayments) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		p.Round(ctx)
		pause(ctx, lateEvery)
	}
	return context.Cause(ctx)
}

// Round tries a page of overdue payments at once, so it takes no longer than one. What does not end now, because a sale is
// paused, say, is tried again in a later round.
func (p *LatePayments) Round(ctx context.Context) {
	late, err := p.Ledger.latePayments(ctx)
	if err != nil && ctx.Err() == nil {
		p.Logger.Warn("late payments wait", "error", err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, one := range late {
		all.Go(func() {
			attempt, cancel := context.WithTimeout(ctx, lateTimeout)
			defer cancel()
			if _, err := p.Service.Pay(attempt, one); err != nil && ctx.Err() == nil {
				p.Logger.Info("a late payment is not finished yet", "payment", one.ID, "order", one.Order, "error", err)
			}
		})
	}
}
