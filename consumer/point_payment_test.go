package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"seckill/admission"
)

// Point 36. A cancellation and a payment of one order at once: one wins, and the other
// is told so.
func TestPoint36CancellationBesidePayment(t *testing.T) {
	t.Parallel()
	const rounds = 60
	s := newSale(t, saleOptions{})
	s.openWithWindow("a1", time.Hour, units("s1", rounds, 1))
	s.startWorker(workerOptions{})
	asks := buyers("a1", rounds)
	orders := s.crowd(asks)
	s.rest("a1")
	for n, o := range orders {
		var wg sync.WaitGroup
		var cancelled, paid answer
		wg.Go(func() { cancelled = s.cancel(o.location, asks[n].user) })
		wg.Go(func() { paid = s.pay(o.order, fmt.Sprint("p", n), 100) })
		wg.Wait()
		first := paid.state == "paid" && cancelled.code == "not-cancellable"
		second := cancelled.state == "cancelled" && paid.code == "not-payable"
		if first == second {
			t.Errorf("round %d: the cancellation was told %s %s, the payment %s %s", n, cancelled, cancelled.body, paid, paid.body)
		}
	}
	s.paidOnce()
	s.books("a1", nil)
}

// Point 37. The node dies while a late payment is being placed, at each of its steps:
// the job buys what was to be bought, once.
func TestPoint37LatePaymentOutlivesItsNode(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	orders := s.toPay(3, 1, "u", "v", "w")
	for n, o := range orders {
		s.expire(o.order)
		late, err := s.ledger.Pay(context.Background(), admission.Payment{ID: fmt.Sprint("p", n), Order: o.order, Amount: 100})
		must(t, err)
		if late.State != admission.PaymentPlacing {
			t.Fatalf("a late payment is %s", late.State)
		}
		again := admission.Order{ID: late.Replacement, User: late.Row.User, SKU: "s1", Quantity: 1}
		if n > 0 { // it died after it had asked the gate
			s.reserve(s.epoch(), again)
		}
		if n > 1 { // it died after the append
			s.append(batchOf(s.epoch(), again))
		}
	}
	s.finishLate()
	for _, o := range orders {
		if got := s.pay(o.order, "p"+o.order, 100); got.code != "not-payable" {
			t.Errorf("another payment of the same order: %s %s", got, got.body)
		}
	}
	if n := queryInt(t, s, `select count(*) from orders where status = 'paid'`); n != 3 {
		t.Errorf("%d orders are paid, want the three that were bought late", n)
	}
	s.paidOnce()
	s.books("a1", nil)
}
