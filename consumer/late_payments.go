package consumer

import (
	"context"
	"log/slog"
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

// Round tries each overdue payment once. What does not end now, because a sale is
// paused, say, is tried again in a later round.
func (p *LatePayments) Round(ctx context.Context) {
	late, err := p.Ledger.latePayments(ctx)
	if err != nil && ctx.Err() == nil {
		p.Logger.Warn("late payments wait", "error", err)
	}
	for _, one := range late {
		attempt, cancel := context.WithTimeout(ctx, lateTimeout)
		_, err := p.Service.Pay(attempt, one)
		cancel()
		if err != nil && ctx.Err() == nil {
			p.Logger.Info("a late payment is not finished yet", "payment", one.ID, "order", one.Order, "error", err)
		}
	}
}
