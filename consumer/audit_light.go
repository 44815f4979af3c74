package consumer

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Light checks the numbers of one activity and nothing else: oversold, negative,
// total = stock + live, and at rest the equation of LawStranded. It reads sums and
// counters only, so it may run every few seconds beside a sale. Orders, buyers and
// the log are not compared: that is Run.
func (a *Audit) Light(ctx context.Context) (Report, error) {
	report, err := a.light(ctx)
	if err != nil {
		return Report{}, a.failed(err)
	}
	return report, nil
}

func (a *Audit) light(ctx context.Context) (Report, error) {
	run := &auditing{Audit: a}
	if err := run.readMarks(ctx); err != nil {
		return Report{}, err
	}
	tx, err := a.Ledger.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Report{}, err
	}
	run.tx = tx
	err = run.readBooks(ctx)
	_ = tx.Rollback(context.WithoutCancel(ctx)) // it has only read
	if err != nil {
		return Report{}, err
	}
	held, err := a.Ledger.Held(ctx, a.Activity)
	if err != nil {
		return Report{}, err
	}
	due, err := a.Ledger.ReleaseDue(ctx, a.Activity)
	if err != nil {
		return Report{}, err
	}
	settled, err := a.logSettled(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, activity := range run.activities {
		if err := run.compareMark(ctx, activity, held[activity.id]); err != nil {
			return Report{}, err
		}
	}
	// A due release may or may not have reached the gate: too light to tell.
	run.moving = run.moving || due > 0 || !settled
	return run.conclude(), nil
}
