package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"

	"seckill/admission"
)

const (
	// expiryLook is the longest sleep: an order that has to be paid earlier than all
	// others may come at any time.
	expiryLook = 200 * time.Millisecond
	// expiryPage is how many orders one transaction expires, and one run of the gate's
	// script releases.
	expiryPage = admission.MaxBatchOrders
	// expiryTell bounds how long the gates of one page may hold up the next page.
	expiryTell = 500 * time.Millisecond
)

var (
	sqlExpiryDue  = statement("expiry_due")
	sqlExpiryNext = statement("expiry_next")
)

// Expiry ends orders that were not paid in time, by the database's clock alone. It
// needs no traffic, may run anywhere, any number of times; one at a time is enough.
type Expiry struct {
	Ledger  *Ledger
	Gate    *admission.Gate
	Log     *admission.Log
	Tracing *admission.Tracing // nil: none
	Logger  *slog.Logger
}

// Run expires until ctx ends. It sleeps until the next deadline that the ledger has,
// asked anew each time, so nothing adds up under a backlog.
func (e *Expiry) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := e.Round(ctx)
		if err != nil && ctx.Err() == nil {
			e.Logger.Warn("overdue orders could not all be expired; it goes on", "error", err)
			next = expiryLook
		}
		pause(ctx, next)
	}
	return context.Cause(ctx)
}

// Round expires what is overdue, oldest first, gives its units to the gates, and
// returns how long to sleep.
func (e *Expiry) Round(ctx context.Context) (time.Duration, error) {
	traced, step := e.Tracing.Root(ctx, "expire")
	expired, err := e.overdue(traced)
	if step.Traced() && expired > 0 { // one that is not ended is not sent
		step.Set(attribute.Int("seckill.orders", expired))
		step.End(err)
	}
	if err != nil {
		return 0, err
	}
	return e.Ledger.untilExpiry(ctx)
}

// overdue expires all that is overdue, page by page, and counts it.
func (e *Expiry) overdue(ctx context.Context) (expired int, err error) {
	for {
		dead, err := e.Ledger.expire(ctx)
		if err != nil || len(dead) == 0 {
			return expired, err
		}
		expired += len(dead)
		e.tell(ctx, dead)
	}
}

// tell brings the dead orders to their gates at once. What does not arrive is left to
// the release job: the marks are on the rows.
func (e *Expiry) tell(ctx context.Context, dead []move) {
	ctx, cancel := context.WithTimeout(ctx, expiryTell)
	defer cancel()
	lives := map[gateLife][]string{}
	ids := make([]string, len(dead))
	for i, m := range dead {
		ids[i] = m.row.ID
		life := gateLife{m.row.Activity, m.release}
		lives[life] = append(lives[life], m.row.ID)
	}
	for life, ids := range lives {
		done, err := released(ctx, e.Gate, life, ids)
		if err == nil && done {
			err = e.Ledger.clearRelease(ctx, life, ids)
		}
		if err != nil {
			e.Logger.Warn("gate was not told of expired orders; the release job will", "activity", life.activity, "orders", len(ids), "error", err)
		}
	}
	e.Log.Notify(ids)
}

// untilExpiry is the time until the next order is overdue, at most expiryLook.
func (l *Ledger) untilExpiry(ctx context.Context) (time.Duration, error) {
	var left time.Duration
	err := l.pool.QueryRow(ctx, sqlExpiryNext).Scan(&left)
	if errors.Is(err, pgx.ErrNoRows) {
		return expiryLook, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the next deadline of payment: %w", err)
	}
	return min(max(left, 0)+time.Millisecond, expiryLook), nil
}

// expire ends one page of overdue orders and returns them; none: nothing is overdue.
func (l *Ledger) expire(ctx context.Context) ([]move, error) {
	var dead []move
	err := l.moving(ctx, func(ctx context.Context, tx pgx.Tx) error {
		ids, activities, skus, err := readOverdue(ctx, tx)
		if err != nil || len(ids) == 0 {
			dead = nil
			return err
		}
		locks, err := readLocked(ctx, tx, activities, skus, ids)
		if err != nil {
			return err
		}
		dead = make([]move, 0, len(ids))
		for _, row := range locks.rows {
			if row.Status == admission.PendingPayment { // else it was paid or cancelled before the lock
				dead = append(dead, move{row: row, to: admission.Expired, release: locks.epoch(row.Activity)})
			}
		}
		return writeMoves(ctx, tx, 0, dead)
	})
	if err != nil {
		return nil, fmt.Errorf("expire overdue orders: %w", err)
	}
	return dead, nil
}

// readOverdue lists overdue orders, and apart from them what SKUs they are of, each
// once.
func readOverdue(ctx context.Context, tx pgx.Tx) (ids, activities, skus []string, err error) {
	rows, err := tx.Query(ctx, sqlExpiryDue, expiryPage)
	if err != nil {
		return nil, nil, nil, err
	}
	seen := map[skuKey]bool{}
	var id string
	var k skuKey
	_, err = pgx.ForEachRow(rows, []any{&id, &k.activity, &k.sku}, func() error {
		ids = append(ids, id)
		if !seen[k] {
			seen[k] = true
			activities, skus = append(activities, k.activity), append(skus, k.sku)
		}
		return nil
	})
	return ids, activities, skus, err
}
