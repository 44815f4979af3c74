package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// NextEpoch mints the number of a new rebuild, if last is still the newest. Numbers
// never repeat and never go back, whatever happens to Redis; and of several that open
// an activity at once, one begins.
func (l *Ledger) NextEpoch(ctx context.Context, id string, last int64) (n int64, err error) {
	err = l.pool.QueryRow(ctx, `
		update activities set last_epoch = greatest(last_epoch + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint)
		 where id = $1 and last_epoch = $2 returning last_epoch`, id, last).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		err = admission.ErrSuperseded
	}
	if err != nil {
		return 0, fmt.Errorf("mint an epoch for activity %s: %w", id, err)
	}
	return n, nil
}

// Snapshot begins epoch n, takes away the units that wait for it, and reads, in the
// same transaction, what the gate is to be filled with. From here on an order of an
// older epoch without a row is stale.
func (l *Ledger) Snapshot(ctx context.Context, id string, n int64) (admission.Snapshot, error) {
	var s admission.Snapshot
	err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		a, err := lockActivity(ctx, tx, id)
		if err != nil {
			return err
		}
		if a.LastEpoch != n {
			return admission.ErrSuperseded
		}
		if _, err := tx.Exec(ctx, `update activities set epoch = $2, suspect = '' where id = $1`, id, n); err != nil {
			return err
		}
		if a.Taking {
			if err := takeWaiting(ctx, tx, id); err != nil {
				return err
			}
		}
		if s.Activity, err = readActivity(ctx, tx, id); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sqlSnapshotRows, id)
		if err != nil {
			return err
		}
		s.Rows, err = pgx.CollectRows(rows, scanRow)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("take the snapshot of activity %s for epoch %d: %w", id, n, err)
	}
	return s, nil
}
