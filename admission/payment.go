package admission

import (
	"context"
	"errors"
)

// Payment is the word of whoever takes the money that it was taken.
type Payment struct {
	ID     string // as the payment service calls it; the same for every repeat
	Order  string
	Amount int64 // in the smallest unit of money
}

// PaymentState is what has become of a payment.
type PaymentState string

// The states of a payment. Placing is the only one that changes.
const (
	PaymentPaid    PaymentState = "paid"    // the order, or the one that replaces it
	PaymentPlacing PaymentState = "placing" // it came late, and is to buy a new order
	PaymentRefund  PaymentState = "refund"  // it came late and bought nothing
)

// PaymentResult is a payment as the ledger has it, and its order.
type PaymentResult struct {
	Row         Row
	State       PaymentState
	Replacement string // id under which a late payment buys, the same at every attempt
	Epoch       int64  // of the gate that may still have the order charged; 0: none
}

// Pay takes a payment in, once whatever the repeats, and returns its order. An order
// that has expired stays so: the payment buys a new one through the gate, which then
// replaces it, or it has to be refunded. CodeUnknown: that is not known yet; ask again,
// or leave it to the job that finishes late payments.
func (s *Service) Pay(ctx context.Context, p Payment) (Row, error) {
	got, err := s.ledger.Pay(ctx, p)
	if err == nil && got.State == PaymentPlacing {
		got, err = s.buyLate(ctx, p, got)
	}
	if err != nil {
		return Row{}, AsProblem(err)
	}
	if got.State == PaymentPlacing {
		return Row{}, NewProblem(CodeUnknown, "The payment came late; whether it buys a new order is not known yet. Send it again in a moment.")
	}
	s.log.Notify([]string{got.Row.ID, got.Replacement})
	return got.Row, nil
}

// buyLate places the order that a late payment buys, as any order is placed, and
// brings its end into the ledger. Every attempt asks for the same order id, so that
// however many ask, and whatever they do not learn, one unit at most is bought.
func (s *Service) buyLate(ctx context.Context, p Payment, late PaymentResult) (PaymentResult, error) {
	row := late.Row
	if err := s.forget(ctx, late); err != nil {
		return late, err
	}
	a := Ask{Activity: row.Activity, User: row.User, SKU: row.SKU, Quantity: row.Quantity}
	placed, err := s.placeAs(ctx, a, late.Replacement)
	if err == nil && placed.ID != late.Replacement {
		err = NewProblem(CodeLimitReached, "The buyer has another order by now.")
	}
	refused := refusedForGood(err)
	if err != nil && refused == "" {
		return late, err
	}
	if err == nil {
		// Whatever this says, the ledger is asked: it decides.
		_, _ = s.Wait(ctx, row.Activity, row.User, late.Replacement)
	}
	return s.ledger.FinishLate(ctx, p.ID, refused)
}

// forget makes sure that the gate has the expired order no longer charged: its own unit
// and the buyer's own limit must not be what refuses the new one.
func (s *Service) forget(ctx context.Context, late PaymentResult) error {
	if late.Epoch == 0 {
		return &NotReadyError{Activity: late.Row.Activity}
	}
	return s.gate.Settle(ctx, late.Row.Activity, late.Epoch, []Outcome{{ID: late.Row.ID}})
}

// refusedForGood is why a late payment buys nothing: the reason of the order that it
// did not get. Empty: there is no such answer yet.
func refusedForGood(err error) string {
	var p *Problem
	if !errors.As(err, &p) {
		return ""
	}
	switch p.Code {
	case CodeSoldOut:
		return ReasonSoldOut
	case CodeLimitReached:
		return ReasonLimit
	case CodeEnded, CodeNotFound:
		return ReasonDropped
	}
	return ""
}
