package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// Cancel makes an order dead, once: a live one gives its units back to the stock and
// is marked for the gate's release; a held one is marked too; an order in flight
// leaves a row (a tombstone) that the settlement finds decided. Repeats change nothing.
func (l *Ledger) Cancel(ctx context.Context, c admission.Cancellation) (admission.CancelResult, error) {
	var done admission.CancelResult
	err := l.moving(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		row, locks, err := lockedOrder(ctx, tx, c.ID)
		if errors.Is(err, admission.ErrNoOrder) && c.InFlight != nil {
			done, err = bury(ctx, tx, c)
			return err
		}
		if err != nil {
			return err
		}
		done = admission.CancelResult{Row: row, Was: row.Status, Epoch: locks.epoch(row.Activity)}
		return cancelRow(ctx, tx, c, &done)
	})
	if err != nil {
		return admission.CancelResult{}, fmt.Errorf("cancel order %s: %w", c.ID, err)
	}
	return done, nil
}

// cancelRow cancels the order that was read under its lock.
func cancelRow(ctx context.Context, tx pgx.Tx, c admission.Cancellation, done *admission.CancelResult) error {
	row := done.Row
	switch {
	case c.User != "" && (row.User != c.User || row.Activity != c.Activity):
		return admission.ErrNoOrder
	case row.Status == admission.Cancelled:
		return nil
	case row.Status == admission.Paid && c.User != "":
		return admission.ErrNotCancellable
	case !row.Status.Live() && row.Status != admission.Held:
		return admission.ErrNotCancellable
	}
	dead := move{row: row, to: admission.Cancelled, release: done.Epoch}
	if row.Status == admission.Paid && c.Refund {
		dead.refund = admission.RefundDue
	}
	if err := writeMoves(ctx, tx, 0, []move{dead}); err != nil {
		return err
	}
	done.Row.Status, done.Row.Reason, done.Row.Refund = dead.to, dead.reason, dead.refund
	return note(ctx, tx, "cancel order", row.ID, fmt.Sprintf("%s to cancelled; %d of %s/%s", row.Status, row.Quantity, row.Activity, row.SKU))
}

// bury writes the row of an order that is cancelled before the ledger has decided it.
// No mark is needed: the pending record at the gate is the reminder.
func bury(ctx context.Context, tx pgx.Tx, c admission.Cancellation) (admission.CancelResult, error) {
	row := *c.InFlight
	locks, err := readLocked(ctx, tx, []string{row.Activity}, []string{row.SKU}, []string{row.ID})
	if err != nil {
		return admission.CancelResult{}, err
	}
	if _, decided := locks.rows[row.ID]; decided {
		return admission.CancelResult{}, errRaced
	}
	epoch := locks.epoch(row.Activity)
	row.Status, row.DecidedAt = admission.Cancelled, time.Now().UTC()
	var grave columns
	grave.row(row, epoch)
	if err := insertOrders(ctx, tx, Term{Partition: c.Partition}, grave); err != nil {
		return admission.CancelResult{}, err
	}
	err = note(ctx, tx, "cancel order", row.ID, fmt.Sprintf("accepted to cancelled; %d of %s/%s", row.Quantity, row.Activity, row.SKU))
	return admission.CancelResult{Row: row, Was: admission.Accepted, Epoch: epoch}, err
}
