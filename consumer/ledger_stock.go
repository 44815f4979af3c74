package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// MostUnits is the largest total of a SKU, and the largest change of one.
const MostUnits = 1<<31 - 1

// Refusals of a change of stock.
var (
	ErrNotEnough = errors.New("fewer units than that are free: others are in live or held orders")
	ErrTooMany   = fmt.Errorf("the total would be more than %d", MostUnits)
	ErrNoSKU     = errors.New("the activity has no such SKU")
	ErrDeltaKey  = errors.New("the key was used for another change of stock: use a new key")
)

// StockDelta is a change of what a SKU has in total, by an operator.
type StockDelta struct {
	Activity, SKU string
	Delta         int64  // units, not 0; from -MostUnits to MostUnits
	Key           string // under which it is done once; empty: as often as it is asked
}

// DeltaState is what has become of a change of stock.
type DeltaState string

// The states of a change. A refused one is asked anew under its key.
const (
	DeltaWaiting DeltaState = "waiting" // for a rebuild of the gate
	DeltaApplied DeltaState = "applied"
	DeltaRefused DeltaState = "refused" // as ErrNotEnough says, or the activity was closed
)

// ChangeStock changes total and stock of a SKU by a delta, or records a delta that a
// rebuild has to apply: units of an opened sale are taken away only while its gate is
// closed and all that it admitted is decided, since else an accepted order would be
// rejected for them. It returns the number under which DeltaState tells the outcome.
//
// The gate is not told; see admission.Gate.SetTotals.
func (l *Ledger) ChangeStock(ctx context.Context, d StockDelta) (number int64, state DeltaState, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		a, err := lockActivity(ctx, tx, d.Activity)
		if err != nil {
			return err
		}
		number, state, err = askDelta(ctx, tx, a, d)
		if err != nil || state != DeltaWaiting {
			return err
		}
		if d.Delta < 0 && a.State != admission.Draft {
			return nil
		}
		state, err = applyDelta(ctx, tx, d.Activity, number)
		if err == nil && state == DeltaRefused { // nothing is to be left of it
			err = ErrNotEnough
			if d.Delta > 0 {
				err = ErrTooMany
			}
		}
		return err
	})
	if err != nil {
		return 0, "", fmt.Errorf("change the stock of %s/%s by %+d in the ledger: %w", d.Activity, d.SKU, d.Delta, err)
	}
	return number, state, nil
}

// askDelta records the delta as waiting, or finds what is recorded under its key.
func askDelta(ctx context.Context, tx pgx.Tx, a admission.Activity, d StockDelta) (number int64, state DeltaState, err error) {
	o, _ := ctx.Value(operatorKey{}).(Operator)
	if a.State != admission.Closed && hasSKU(a, d.SKU) {
		err = tx.QueryRow(ctx, sqlDeltaAsk, d.Activity, d.SKU, d.Delta, d.Key, o.Name, o.Reason).Scan(&number)
		if !errors.Is(err, pgx.ErrNoRows) {
			return number, DeltaWaiting, err
		}
	}
	var before StockDelta
	err = tx.QueryRow(ctx, `select id, state, sku_id, delta from stock_deltas where activity_id = $1 and key = $2`, d.Activity, d.Key).
		Scan(&number, &state, &before.SKU, &before.Delta)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && a.State == admission.Closed:
		err = ErrClosed
	case errors.Is(err, pgx.ErrNoRows):
		err = ErrNoSKU
	case err == nil && (before.SKU != d.SKU || before.Delta != d.Delta):
		err = ErrDeltaKey
	case err == nil && state == DeltaRefused: // and closed: else it would be asked anew
		err = ErrClosed
	}
	return number, state, err
}

func hasSKU(a admission.Activity, id string) bool {
	for _, s := range a.SKUs {
		if s.ID == id {
			return true
		}
	}
	return false
}

// applyDelta decides a waiting delta. The caller has locked the activity.
func applyDelta(ctx context.Context, tx pgx.Tx, activity string, number int64) (DeltaState, error) {
	var sku string
	var delta int64
	var o Operator
	err := tx.QueryRow(ctx, `select sku_id, delta, actor, reason from stock_deltas where id = $1`, number).Scan(&sku, &delta, &o.Name, &o.Reason)
	if err != nil {
		return "", err
	}
	state, total := DeltaApplied, int64(0)
	err = tx.QueryRow(ctx, sqlDeltaApply, activity, sku, delta).Scan(&total)
	if errors.Is(err, pgx.ErrNoRows) {
		state, err = DeltaRefused, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, `update stock_deltas set state = $2, decided_at = now() where id = $1`, number, string(state))
	}
	if err == nil && state == DeltaApplied && o.Name != "" {
		err = note(OnBehalf(ctx, o), tx, "change stock", activity, fmt.Sprintf("%s by %+d to a total of %d", sku, delta, total))
	}
	return state, err
}

// takeWaiting decides the deltas of an activity that wait, in the order in which they
// were asked. The gate is closed, and all that it admitted is decided.
func takeWaiting(ctx context.Context, tx pgx.Tx, activity string) error {
	rows, err := tx.Query(ctx, `select id from stock_deltas where activity_id = $1 and state = 'waiting' order by id`, activity)
	if err != nil {
		return err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, number := range numbers {
		if err == nil {
			_, err = applyDelta(ctx, tx, activity, number)
		}
	}
	return err
}

// refuseWaiting refuses what waits for a rebuild that a closed activity does not get.
func refuseWaiting(ctx context.Context, tx pgx.Tx, activity string) error {
	_, err := tx.Exec(ctx, `
		update stock_deltas set state = 'refused', decided_at = now() where activity_id = $1 and state = 'waiting'`, activity)
	return err
}

// DeltaState tells what has become of a change of stock.
func (l *Ledger) DeltaState(ctx context.Context, number int64) (state DeltaState, err error) {
	if err := l.pool.QueryRow(ctx, `select state from stock_deltas where id = $1`, number).Scan(&state); err != nil {
		return "", fmt.Errorf("read change %d of stock in the ledger: %w", number, err)
	}
	return state, nil
}
