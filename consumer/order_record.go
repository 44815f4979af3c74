package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

var sqlOrderRecord = statement("order_record")

// OrderRecord is what the ledger knows of one order beside what its buyer sees.
type OrderRecord struct {
	Partition    int    `json:"partition"`
	LogSeq       uint64 `json:"log_seq" doc:"message of the order log from which it was decided; 0: it was not"`
	Term         int64  `json:"term" doc:"of the settler that decided it"`
	Epoch        int64  `json:"epoch" doc:"of its reservation"`
	ReleaseEpoch *int64 `json:"release_epoch" doc:"of the gate that has yet to give its units back"`
	Key          string `json:"key,omitempty" doc:"the buyer's Idempotency-Key"`

	// ChangedAt is when status, refund or replacement changed last after the first
	// decision; zero: never, or before this release kept it.
	ChangedAt time.Time     `json:"-"`
	Payment   *OrderPayment `json:"-"` // nil: none was taken in
	Replaces  string        `json:"-"` // id of the expired order whose late payment bought this one
	// EventSince is the oldest of its changes whose event is not published; zero: none.
	EventSince time.Time `json:"-"`
}

// OrderPayment is the payment that was taken in for an order.
type OrderPayment struct {
	ID     string
	Amount int64
	State  admission.PaymentState
	At     time.Time
}

// Record reads the record of a decided order; ErrNoOrder.
func (l *Ledger) Record(ctx context.Context, id string) (OrderRecord, error) {
	var r OrderRecord
	var p OrderPayment
	var changed, paid, waiting *time.Time
	err := l.pool.QueryRow(ctx, sqlOrderRecord, id).Scan(&r.Partition, &r.LogSeq, &r.Term, &r.Epoch, &r.ReleaseEpoch, &r.Key,
		&changed, &p.ID, &p.Amount, &p.State, &paid, &r.Replaces, &waiting)
	if errors.Is(err, pgx.ErrNoRows) {
		err = admission.ErrNoOrder
	}
	if err != nil {
		return r, fmt.Errorf("read the record of order %s: %w", id, err)
	}
	r.ChangedAt, r.EventSince = fromNull(changed), fromNull(waiting)
	if paid != nil {
		p.At = fromNull(paid)
		r.Payment = &p
	}
	return r, nil
}
