package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

var sqlOutboxPage = statement("outbox_page")

// change is one change of status that has not been published. The ledger wrote it to
// its outbox in the transaction of the change, in one row with all that the statement
// changed to the same status.
type change struct {
	id            int64 // of the row
	at            time.Time
	admission.Row // with status and reason as the change left them

	traceparent string // of the transaction that made the change, if it was traced
}

// changes reads the oldest rows of the outbox, whole, until there are as many changes as
// wanted, or more.
func (l *Ledger) changes(ctx context.Context, wanted int) ([]change, error) {
	rows, err := l.pool.Query(ctx, sqlOutboxPage, wanted)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	page, err := pgx.CollectRows(rows, scanChange)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return page, nil
}

func scanChange(r pgx.CollectableRow) (change, error) {
	var c change
	var payBefore *time.Time
	err := r.Scan(&c.id, &c.at, &c.ID, &c.Status, &c.Reason,
		&c.Activity, &c.SKU, &c.User, &c.Quantity, &c.Amount, &c.CreatedAt, &c.DecidedAt, &payBefore, &c.Refund, &c.ReplacedBy, &c.traceparent)
	c.PayBefore = fromNull(payBefore)
	return c, err
}

// published removes rows whose events are on disk.
func (l *Ledger) published(ctx context.Context, ids []int64) error {
	if _, err := l.pool.Exec(ctx, `delete from outbox_batches where id = any($1::bigint[])`, ids); err != nil {
		return fmt.Errorf("remove %d published rows from the outbox: %w", len(ids), err)
	}
	return nil
}

// outboxCounted is how far the outbox is counted: the number is for a gauge.
const outboxCounted = 100_000

// Outbox is what waits to be published: how many changes of status, counted up to
// 100,000, and since when the oldest; the zero time if none.
func (l *Ledger) Outbox(ctx context.Context) (waiting int64, since time.Time, err error) {
	var oldest *time.Time
	err = l.pool.QueryRow(ctx, `
		select (select least(coalesce(sum(orders), 0), $1) from (select orders from outbox_batches limit $1) x),
		       (select at from outbox_batches order by id limit 1)`, outboxCounted).
		Scan(&waiting, &oldest)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("count the outbox: %w", err)
	}
	return waiting, fromNull(oldest), nil
}
