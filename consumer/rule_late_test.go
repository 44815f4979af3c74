package consumer_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"seckill/admission"
)

// lateAnswer is what the payment of an expired order is told.
type lateAnswer struct {
	Status     string `json:"status"`
	ReplacedBy string `json:"replaced_by"`
	Refund     string `json:"refund"`
}

func (s *sale) payLate(order, payment string) lateAnswer {
	s.t.Helper()
	var late lateAnswer
	eventually(s.t, "the late payment has an end", func() (bool, string) {
		got := s.pay(order, payment, 100)
		_ = json.Unmarshal([]byte(got.body), &late)
		return got.status == 200, got.body
	})
	if late.Status != "expired" || (late.ReplacedBy == "") == (late.Refund == "") {
		s.t.Errorf("a late payment is told %+v", late)
	}
	return late
}

// Rule 17. A late payment buys a new order, through the gate and once, however many
// repeats come at once; the expired order stays so.
func TestRule17LatePaymentBuysAnew(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	orders := s.toPay(2, 2, "u")
	s.expire(orders[0].order)
	told := make([]lateAnswer, 12)
	var wg sync.WaitGroup
	for n := range told {
		wg.Go(func() { told[n] = s.payLate(orders[0].order, "p1") })
	}
	wg.Wait()
	for _, one := range told {
		if one != told[0] || one.ReplacedBy == "" {
			t.Errorf("repeats are told %+v and %+v, want one new order", told[0], one)
		}
	}
	if n := queryInt(t, s, `select count(*) from orders where status = 'paid' and id = $1`, told[0].ReplacedBy); n != 1 {
		t.Error("the order that replaces the expired one is not paid")
	}
	if n := queryInt(t, s, `select count(*) from orders`); n != 2 {
		t.Errorf("%d orders, want the expired one and the new one", n)
	}
	if stock := s.stock(); stock != 1 {
		t.Errorf("the gate has %d units, want 1", stock)
	}
	s.paidOnce()
	s.books("a1", nil)
}

// Rule 17. The payment comes when the ledger has expired the order and the gate does not
// know yet: neither the order's own unit nor its buyer's limit stands in the way.
func TestRule17LatePaymentBeforeTheGateWasTold(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	orders := s.toPay(1, 1, "u")
	s.ended(orders[0].order, "expired")
	if late := s.payLate(orders[0].order, "p1"); late.ReplacedBy == "" {
		t.Errorf("the unit of the expired order was not to be had: %+v", late)
	}
	must(t, s.release().Round(t.Context()))
	s.paidOnce()
	s.books("a1", nil)
}

// Rule 17. Where there is no unit, or no room under the limit, the money goes back, for
// good: a unit that comes free later changes nothing.
func TestRule17LatePaymentOfNothing(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	orders := s.toPay(2, 1, "u", "v")
	s.expire(orders[0].order)
	s.sellsAgain("w")
	s.rest("a1")
	if late := s.payLate(orders[0].order, "p1"); late.Refund != "due" {
		t.Errorf("no unit is left: %+v", late)
	}
	s.expire(orders[1].order)
	second := s.sellsAgain("v") // who orders again, and then pays the first
	s.rest("a1")
	if late := s.payLate(orders[1].order, "p2"); late.Refund != "due" {
		t.Errorf("the limit is reached: %+v", late)
	}
	wantCancelled(t, s.cancel(second[0].location, "v"))
	for n, o := range orders {
		if late := s.payLate(o.order, fmt.Sprint("p", n+1)); late.Refund != "due" {
			t.Errorf("a refund was taken back: %+v", late)
		}
	}
	s.paidOnce()
	s.books("a1", nil)
}

// Rule 17. One attempt is refused while another has reserved: the refund is final, so
// the reservation must not become an order.
func TestRule17RefundIsFinal(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	orders := s.toPay(1, 1, "u")
	s.expire(orders[0].order)
	late, err := s.ledger.Pay(t.Context(), admission.Payment{ID: "p1", Order: orders[0].order, Amount: 100})
	must(t, err)
	again := admission.Order{ID: late.Replacement, User: "u", SKU: "s1", Quantity: 1}
	s.reserve(s.epoch(), again)
	got, err := s.ledger.FinishLate(t.Context(), "p1", admission.ReasonSoldOut)
	must(t, err)
	if got.State != admission.PaymentRefund {
		t.Fatalf("a refused payment is %s", got.State)
	}
	s.append(batchOf(s.epoch(), again))
	s.rest("a1")
	s.paidOnce()
	s.books("a1", s.sellsAgain("v"))
}
