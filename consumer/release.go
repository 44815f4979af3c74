package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

const (
	// releaseEvery is the pause between two rounds. Whoever marks a row also tells
	// the gate at once, so this only bounds how long a lost word strands a unit.
	releaseEvery = 500 * time.Millisecond
	// releasePage is how many orders one run of the gate's script releases.
	releasePage = admission.MaxBatchOrders
)

// Release gives units back to the gates: those of dead orders whose row says, by its
// release_epoch, that the gate of that epoch still has them charged. It may run
// anywhere, any number of times; one at a time is enough.
type Release struct {
	Ledger *Ledger
	Gate   *admission.Gate
	Logger *slog.Logger
}

// Run releases until ctx ends.
func (r *Release) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.Round(ctx); err != nil && ctx.Err() == nil {
			r.Logger.Warn("units could not all be given back to their gates; it goes on", "error", err)
		}
		pause(ctx, releaseEvery)
	}
	return context.Cause(ctx)
}

// gateLife is one life of the gate of an activity.
type gateLife struct {
	activity string
	epoch    int64
}

// Round gives back everything that is due now. It goes on past a gate that fails
// and returns all errors. What a gate that is absent or being rebuilt has charged
// stays due: its next life is filled without it, and then clears the mark.
func (r *Release) Round(ctx context.Context) error {
	lives, err := r.Ledger.releaseLives(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, life := range lives {
		errs = append(errs, r.life(ctx, life))
	}
	return errors.Join(errs...)
}

func (r *Release) life(ctx context.Context, life gateLife) error {
	for after := ""; ; {
		ids, err := r.Ledger.releaseDue(ctx, life, after)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		done, err := released(ctx, r.Gate, life, ids)
		if err == nil && !done {
			done, err = r.ended(ctx, life.activity)
		}
		if err != nil || !done {
			return err
		}
		if err := r.Ledger.clearRelease(ctx, life, ids); err != nil {
			return err
		}
	}
}

// ended says whether the gate of a closed activity is gone for good: nothing will be
// sold of what comes back.
func (r *Release) ended(ctx context.Context, activity string) (bool, error) {
	a, err := r.Ledger.Activity(ctx, activity)
	if err != nil || a.State != admission.Closed {
		return false, err
	}
	view, err := r.Gate.View(ctx, activity)
	return err == nil && view.Epoch == 0, err
}

// released tells a gate that orders are dead and reports whether it needs to be told
// no more: it has given the units back, or is of a newer life, which was filled
// without them.
func released(ctx context.Context, gate *admission.Gate, life gateLife, ids []string) (bool, error) {
	outcomes := make([]admission.Outcome, len(ids))
	for i, id := range ids {
		outcomes[i] = admission.Outcome{ID: id}
	}
	err := gate.Settle(ctx, life.activity, life.epoch, outcomes)
	var notReady *admission.NotReadyError
	if !errors.As(err, &notReady) {
		return err == nil, err
	}
	now, _ := strconv.ParseInt(notReady.Epoch, 10, 64) // empty: there is no gate
	return now > life.epoch, nil
}

var (
	sqlReleaseLives = statement("release_lives")
	sqlReleaseDue   = statement("release_due")
)

// releaseLives lists which gates have units to get back.
func (l *Ledger) releaseLives(ctx context.Context) ([]gateLife, error) {
	rows, err := l.pool.Query(ctx, sqlReleaseLives)
	if err != nil {
		return nil, fmt.Errorf("list the gates that have units to get back: %w", err)
	}
	lives, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (gateLife, error) {
		var life gateLife
		return life, row.Scan(&life.activity, &life.epoch)
	})
	if err != nil {
		return nil, fmt.Errorf("list the gates that have units to get back: %w", err)
	}
	return lives, nil
}

// releaseDue lists a page of the orders whose units a gate has to get back, in order
// of their ids.
func (l *Ledger) releaseDue(ctx context.Context, life gateLife, after string) ([]string, error) {
	ids, err := l.ids(ctx, "list the orders of activity "+life.activity+" to be released", `
		select id::text from orders
		 where activity_id = $1 and release_epoch = $2 and ($3 = '' or id > nullif($3, '')::uuid)
		 order by id limit $4`, life.activity, life.epoch, after, releasePage)
	return ids, err
}

// clearRelease removes the marks of orders that a gate has given back, unless they
// are another gate's by now.
func (l *Ledger) clearRelease(ctx context.Context, life gateLife, ids []string) error {
	_, err := l.pool.Exec(ctx, `
		update orders set release_epoch = null
		 where id = any($1::uuid[]) and activity_id = $2 and release_epoch = $3`, ids, life.activity, life.epoch)
	if err != nil {
		return fmt.Errorf("note that %d orders of activity %s are released: %w", len(ids), life.activity, err)
	}
	return nil
}
