package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// ErrNotHeld says that an order does not wait for an operator: it has been decided,
// or the ledger does not know it.
var ErrNotHeld = errors.New("the order is not held")

// decideHeld writes the outcomes of orders that were held; errRaced if one of them
// is not any more. A rejected one may be charged at the gate without being pending
// there (a rebuild counts held orders), so it is marked.
func decideHeld(ctx context.Context, tx pgx.Tx, term Term, b *book, decisions []Decision) error {
	var moves []move
	for i := range decisions {
		d := &decisions[i]
		if !d.Reopened {
			continue
		}
		decided := move{row: b.row(d), to: d.Status, reason: d.Reason, window: b.window(d)}
		decided.row.Status = admission.Held
		if !d.Status.Live() {
			decided.release = d.Epoch
		}
		moves = append(moves, decided)
		if err := note(ctx, tx, "replay dead letter", d.ID, "held to "+string(d.Status)+" "+d.Reason); err != nil {
			return err
		}
	}
	return writeMoves(ctx, tx, term.Number, moves)
}

// HeldOrder is a held order as its row has it.
type HeldOrder struct {
	admission.Order
	Activity string
	Epoch    int64 // of the reservation
	Seq      uint64
}

// delivery is the order as a replay brings it.
func (h HeldOrder) delivery() Delivery {
	b := admission.NewBatch(h.Activity, h.Epoch)
	b.Orders, b.Replay = []admission.Order{h.Order}, &admission.Replayed{Held: true}
	return Delivery{Batch: b, Seq: h.Seq}
}

// HeldOrders reads those of the given orders that are held.
func (l *Ledger) HeldOrders(ctx context.Context, ids []string) (map[string]HeldOrder, error) {
	rows, err := l.pool.Query(ctx, `
		select id::text, activity_id, sku_id, user_id, quantity, coalesce(key, ''), created_at, epoch, log_seq
		  from orders where id = any($1::uuid[]) and status = 'held'`, ids)
	if err != nil {
		return nil, fmt.Errorf("read which of %d orders are held: %w", len(ids), err)
	}
	held := map[string]HeldOrder{}
	var h HeldOrder
	var seq int64
	fields := []any{&h.ID, &h.Activity, &h.SKU, &h.User, &h.Quantity, &h.Key, &h.At, &h.Epoch, &seq}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		h.At, h.Seq = h.At.UTC(), uint64(seq)
		held[h.ID] = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which of %d orders are held: %w", len(ids), err)
	}
	return held, nil
}

// DecideHeld decides a held order now, by limit and stock, whatever its epoch. It
// settles no partition and so needs no term: the row, which must still be held, is
// the guard. ErrNotHeld: it is decided, or there is no such order.
func (l *Ledger) DecideHeld(ctx context.Context, id string) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	held, err := l.HeldOrders(ctx, []string{id})
	if err != nil {
		return Decision{}, err
	}
	h, ok := held[id]
	if !ok {
		return Decision{}, fmt.Errorf("decide order %s: %w", id, ErrNotHeld)
	}
	decisions, err := l.settleOr(ctx, Term{operator: true}, []Delivery{h.delivery()}, 0, "")
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], nil
}

// DropHeld rejects a held order for good and marks its units to be given back at the
// gate. It returns the decision; ErrNotHeld.
func (l *Ledger) DropHeld(ctx context.Context, id string) (Decision, error) {
	d := Decision{Status: admission.Rejected, Reason: admission.ReasonDropped, Reopened: true}
	err := l.moving(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, locks, err := lockedOrder(ctx, tx, id)
		if errors.Is(err, admission.ErrNoOrder) || err == nil && row.Status != admission.Held {
			return ErrNotHeld
		}
		if err != nil {
			return err
		}
		d.Order = admission.Order{ID: row.ID, User: row.User, SKU: row.SKU, Quantity: row.Quantity, Key: row.Key, At: row.CreatedAt}
		d.Activity, d.Epoch = row.Activity, locks.epoch(row.Activity)
		if err := writeMoves(ctx, tx, 0, []move{{row: row, to: d.Status, reason: d.Reason, release: d.Epoch}}); err != nil {
			return err
		}
		return note(ctx, tx, "drop dead letter", id, fmt.Sprintf("held to rejected; %d of %s/%s", d.Quantity, d.Activity, d.SKU))
	})
	if err != nil {
		return Decision{}, fmt.Errorf("drop order %s: %w", id, err)
	}
	return d, nil
}
