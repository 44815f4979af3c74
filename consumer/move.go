package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// An order's status is written in two places only: insertOrders writes the first one,
// writeMoves every later one.

// move is one step of an order from its status to another. Whoever makes one has read
// the order under the locks of readLocked, or of a settlement.
type move struct {
	row     admission.Row // as it was read
	to      admission.Status
	reason  string
	window  time.Duration // to pay in, which begins now; 0: none begins
	release int64         // epoch of the gate that has the units to give back; 0: none
	refund  string        // due, or empty
}

// writeMoves writes moves and gives the units of live orders that are dead now
// back to the stock. errRaced: one of them had another status than was read.
func writeMoves(ctx context.Context, tx pgx.Tx, term int64, moves []move) error {
	if len(moves) == 0 {
		return nil
	}
	var ids, was, to, reasons, refunds []string
	var amounts, releases []int64
	var windows []time.Duration
	back := map[skuKey]int64{}
	for _, m := range moves {
		ids, was, to = append(ids, m.row.ID), append(was, string(m.row.Status)), append(to, string(m.to))
		reasons, refunds = append(reasons, m.reason), append(refunds, m.refund)
		amounts, releases, windows = append(amounts, m.row.Amount), append(releases, m.release), append(windows, m.window)
		if m.row.Status.Live() && !m.to.Live() {
			back[skuKey{m.row.Activity, m.row.SKU}] -= m.row.Quantity
		}
	}
	tag, err := tx.Exec(ctx, sqlMove, ids, was, to, reasons, amounts, windows, releases, refunds, term)
	if err != nil {
		return fmt.Errorf("move %d orders: %w", len(ids), err)
	}
	if int(tag.RowsAffected()) != len(ids) {
		return errRaced
	}
	return takeUnits(ctx, tx, back)
}

// takeUnits moves units out of the stock, or (negative) back into it.
func takeUnits(ctx context.Context, tx pgx.Tx, taken map[skuKey]int64) error {
	if len(taken) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, sqlStock, stockArgs(taken)...)
	return stockGuard(tag, err, len(taken))
}

// locked is what a move has read after it locked the SKU rows.
type locked struct {
	rows       map[string]admission.Row // by order id
	activities map[string]activityRow
}

// epoch is that of the gate which has an order of the activity charged, if any has;
// 0: no gate is believed.
func (l locked) epoch(activity string) int64 { return l.activities[activity].epoch }

// readLocked locks the SKU rows of the named orders and reads the orders in a new
// statement after that. The names are those of skus of activities, pair by pair.
func readLocked(ctx context.Context, tx pgx.Tx, activities, skus, ids []string) (locked, error) {
	var batch pgx.Batch
	batch.Queue(sqlLockForMove, activities, skus)
	batch.Queue(sqlActivities, activities)
	batch.Queue(sqlOrdersByID, ids)
	results := tx.SendBatch(ctx, &batch)
	defer func() { _ = results.Close() }()
	l := locked{rows: map[string]admission.Row{}}
	if _, err := results.Exec(); err != nil {
		return l, fmt.Errorf("lock the SKUs: %w", err)
	}
	var err error
	if l.activities, err = scanActivities(results); err != nil {
		return l, fmt.Errorf("read the activities: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return l, fmt.Errorf("read the orders: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return l, fmt.Errorf("read the orders: %w", err)
	}
	for _, row := range found {
		l.rows[row.ID] = row
	}
	return l, results.Close()
}

// lockedOrder locks one order that has a row, and reads it; ErrNoOrder.
func lockedOrder(ctx context.Context, tx pgx.Tx, id string) (admission.Row, locked, error) {
	var activity, sku string
	err := tx.QueryRow(ctx, `select activity_id, sku_id from orders where id = $1`, id).Scan(&activity, &sku)
	if errors.Is(err, pgx.ErrNoRows) {
		return admission.Row{}, locked{}, admission.ErrNoOrder
	}
	if err != nil {
		return admission.Row{}, locked{}, fmt.Errorf("look the order up: %w", err)
	}
	l, err := readLocked(ctx, tx, []string{activity}, []string{sku}, []string{id})
	return l.rows[id], l, err
}

// mostRaces bounds how often a move is tried that somebody else was in the way of.
const mostRaces = 3

// moving runs a move in one transaction, anew if somebody else was in the way.
func (l *Ledger) moving(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			if err := tellTrace(ctx, tx); err != nil {
				return err
			}
			return do(ctx, tx)
		})
		if attempt < mostRaces && (errors.Is(err, errRaced) || classify(err) == contention) {
			continue
		}
		return err
	}
}
