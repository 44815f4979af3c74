package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

var sqlPayment = statement("payment")

// payment is a row of the table of that name.
type payment struct {
	admission.Payment
	state       admission.PaymentState
	replacement string
}

// Pay takes a payment in, once: an order that waits for it, or is confirmed, becomes
// paid; an expired one stays so, and the payment is noted as one that is to buy another
// order, under an id that every later attempt uses. Both happen under the lock of the
// order's SKU, as its expiry does, so one of the two is first.
func (l *Ledger) Pay(ctx context.Context, p admission.Payment) (admission.PaymentResult, error) {
	var done admission.PaymentResult
	err := l.moving(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, locks, err := lockedOrder(ctx, tx, p.Order)
		if err != nil {
			return err
		}
		done = admission.PaymentResult{Row: row, Epoch: locks.epoch(row.Activity)}
		known, err := readPayment(ctx, tx, p.ID, p.Order)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return takePayment(ctx, tx, p, &done)
		case err != nil:
			return fmt.Errorf("read the payment: %w", err)
		}
		done.State, done.Replacement = known.state, known.replacement
		return sameAs(known, p)
	})
	if err != nil {
		return admission.PaymentResult{}, fmt.Errorf("payment %s of order %s: %w", p.ID, p.Order, err)
	}
	return done, nil
}

// readPayment reads the payment of an id, else that of an order; pgx.ErrNoRows.
func readPayment(ctx context.Context, tx pgx.Tx, id, order string) (payment, error) {
	var p payment
	err := tx.QueryRow(ctx, sqlPayment, id, order).Scan(&p.ID, &p.Order, &p.Amount, &p.state, &p.replacement)
	return p, err
}

// sameAs refuses what is not a repeat of a known payment.
func sameAs(known payment, p admission.Payment) error {
	switch {
	case known.ID != p.ID:
		return fmt.Errorf("it was paid by another payment: %w", admission.ErrNotPayable)
	case known.Order != p.Order:
		return fmt.Errorf("that payment was for another order: %w", admission.ErrNotPayable)
	case known.Amount != p.Amount:
		return fmt.Errorf("that payment was of %d before: %w", known.Amount, admission.ErrAmount)
	}
	return nil
}

func takePayment(ctx context.Context, tx pgx.Tx, p admission.Payment, done *admission.PaymentResult) error {
	row := done.Row
	payable := row.Status == admission.PendingPayment || row.Status == admission.Confirmed || row.Status == admission.Expired
	switch {
	case !payable:
		return fmt.Errorf("it is %s: %w", row.Status, admission.ErrNotPayable)
	case row.Amount != p.Amount:
		return fmt.Errorf("%d is to be paid: %w", row.Amount, admission.ErrAmount)
	case row.Status == admission.Expired:
		done.State, done.Replacement = admission.PaymentPlacing, admission.NewID()
	default:
		done.State = admission.PaymentPaid
		if err := writeMoves(ctx, tx, 0, []move{{row: row, to: admission.Paid}}); err != nil {
			return err
		}
		done.Row.Status = admission.Paid
	}
	tag, err := tx.Exec(ctx, `
		insert into payments (id, order_id, amount, state, replacement) values ($1, $2, $3, $4, nullif($5, '')::uuid)
		    on conflict do nothing`, p.ID, p.Order, p.Amount, done.State, done.Replacement)
	if err != nil {
		return fmt.Errorf("note the payment: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errRaced // the same id came for another order meanwhile
	}
	return nil
}

// FinishLate ends a late payment by what became of the order that it was to buy.
func (l *Ledger) FinishLate(ctx context.Context, id, refused string) (admission.PaymentResult, error) {
	ctx = OnBehalf(ctx, Operator{Name: "payments", Reason: "payment " + id + " came late"})
	var done admission.PaymentResult
	err := l.moving(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var late lateOrder
		err := tx.QueryRow(ctx, `
			select o.id::text, o.activity_id, o.sku_id, o.partition, coalesce(p.replacement::text, '')
			  from payments p join orders o on o.id = p.order_id where p.id = $1`, id).
			Scan(&late.order, &late.activity, &late.sku, &late.partition, &late.replacement)
		if err != nil {
			return fmt.Errorf("read the payment: %w", err)
		}
		done, err = late.finish(ctx, tx, id, refused)
		return err
	})
	if err != nil {
		return admission.PaymentResult{}, fmt.Errorf("finish late payment %s: %w", id, err)
	}
	return done, nil
}

// lateOrder is the expired order of a late payment, and the id under which that buys.
type lateOrder struct {
	order, replacement, activity, sku string
	partition                         int
}

func (o lateOrder) finish(ctx context.Context, tx pgx.Tx, id, refused string) (admission.PaymentResult, error) {
	locks, err := readLocked(ctx, tx, []string{o.activity}, []string{o.sku}, []string{o.order, o.replacement})
	if err != nil {
		return admission.PaymentResult{}, err
	}
	known, err := readPayment(ctx, tx, id, o.order)
	if err != nil {
		return admission.PaymentResult{}, fmt.Errorf("read the payment: %w", err)
	}
	done := admission.PaymentResult{Row: locks.rows[o.order], State: known.state, Replacement: o.replacement}
	if known.state != admission.PaymentPlacing {
		return done, nil
	}
	bought, decided := locks.rows[o.replacement]
	switch {
	case decided && (bought.Status == admission.PendingPayment || bought.Status == admission.Confirmed):
		done.State, done.Row.ReplacedBy = admission.PaymentPaid, bought.ID
		err = writeMoves(ctx, tx, 0, []move{{row: bought, to: admission.Paid}})
	case decided && bought.Status == admission.Held, !decided && refused == "":
		return done, nil // still to come
	case !decided:
		done.State, done.Row.Refund = admission.PaymentRefund, admission.RefundDue
		err = o.refuse(ctx, tx, done.Row, locks.epoch(o.activity), refused)
	default:
		done.State, done.Row.Refund = admission.PaymentRefund, admission.RefundDue
	}
	if err != nil {
		return done, err
	}
	return done, o.note(ctx, tx, id, done)
}

// refuse writes the row of the order that was not to be had. Without it another attempt
// that is under way could still buy it, beside the refund.
func (o lateOrder) refuse(ctx context.Context, tx pgx.Tx, like admission.Row, epoch int64, reason string) error {
	now := time.Now().UTC()
	row := admission.Row{
		ID: o.replacement, Activity: like.Activity, SKU: like.SKU, User: like.User, Quantity: like.Quantity, Amount: like.Amount,
		Status: admission.Rejected, Reason: reason, CreatedAt: now, DecidedAt: now,
	}
	var grave columns
	grave.row(row, epoch)
	return insertOrders(ctx, tx, Term{Partition: o.partition}, grave)
}

// note writes how a late payment ended on the payment and on the expired order, which
// stays expired.
func (o lateOrder) note(ctx context.Context, tx pgx.Tx, id string, done admission.PaymentResult) error {
	_, err := tx.Exec(ctx, `update payments set state = $2, updated_at = now() where id = $1`, id, done.State)
	if err != nil {
		return fmt.Errorf("write how the payment ended: %w", err)
	}
	_, err = tx.Exec(ctx, `
		update orders set refund = nullif($2, ''), replaced_by = nullif($3, '')::uuid, changed_at = now() where id = $1`,
		o.order, done.Row.Refund, done.Row.ReplacedBy)
	if err != nil {
		return fmt.Errorf("write how the payment ended to the order: %w", err)
	}
	end := "a refund is due"
	if done.State == admission.PaymentPaid {
		end = "it bought order " + o.replacement
	}
	return note(ctx, tx, "late payment", o.order, end)
}

// latePage is how many late payments are tried at once.
const latePage = 16

// latePayments lists payments that are placing for longer than they should, those that
// were tried longest ago first, and notes that they are tried now.
func (l *Ledger) latePayments(ctx context.Context) ([]admission.Payment, error) {
	rows, err := l.pool.Query(ctx, `
		update payments p set updated_at = now()
		  from (select id from payments where state = 'placing' and updated_at < now() - interval '2 seconds'
		         order by updated_at limit $1) d
		 where p.id = d.id
		returning p.id, p.order_id::text, p.amount`, latePage)
	if err != nil {
		return nil, fmt.Errorf("list late payments: %w", err)
	}
	late, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p admission.Payment, err error) {
		return p, row.Scan(&p.ID, &p.Order, &p.Amount)
	})
	if err != nil {
		return nil, fmt.Errorf("list late payments: %w", err)
	}
	return late, nil
}
