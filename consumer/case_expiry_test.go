package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// openWithWindow opens a sale whose orders have to be paid.
func (s *sale) openWithWindow(id string, window time.Duration, skus ...admission.SKU) {
	s.t.Helper()
	s.put(id, admission.Activity{SKUs: skus, PaymentWindow: window})
	s.openGate(id)
}

func (s *sale) expiry() *consumer.Expiry {
	return &consumer.Expiry{Ledger: s.ledger, Gate: s.gate, Log: s.log, Logger: s.logger}
}

// startExpiry expires until the test ends.
func (s *sale) startExpiry() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.expiry().Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-done })
}

// noteLate has the ledger note, by its own clock, how late an order expired.
func (s *sale) noteLate() {
	s.t.Helper()
	s.exec(`create table late (id uuid, due timestamptz, by interval)`)
	s.exec(`create function note_late() returns trigger language plpgsql as $$
		begin insert into late values (new.id, old.pay_before, clock_timestamp() - old.pay_before); return new; end $$`)
	s.exec(`create trigger note_late after update on orders for each row when (new.status = 'expired' and old.status <> 'expired') execute function note_late()`)
}

// No traffic at all: unpaid orders expire at their deadline, not before it, and not
// much later than a second after it; their units are at the gate again. Red without the job.
func TestCase15ExpiresWithoutTraffic(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.openWithWindow("a1", 1500*time.Millisecond, units("s1", 20, 1))
	s.noteLate()
	s.startWorker(workerOptions{})
	s.startExpiry()
	answers := s.crowd(buyers("a1", 20))
	wantCount(t, answers, map[string]int{"202": 20})
	eventually(t, "all have expired", func() (bool, string) {
		n := queryInt(t, s, `select count(*) from orders where status = 'expired'`)
		return n == 20, fmt.Sprint(n)
	})
	if n := queryInt(t, s, `select count(*) from late where by < interval '0' or by > interval '3 seconds'`); n != 0 { // one is promised, on a machine that is not busy
		t.Errorf("%d orders expired before their deadline, or more than three seconds after it", n)
	}
	eventually(t, "the units are at the gate", func() (bool, string) { n := s.stock(); return n == 20, fmt.Sprint(n) })
	s.books("a1", nil)
}

// One order is cancelled 20 times at once by its buyer and an operator, expires, and is
// refunded by an operator, all at the same moment, 20 times over: exactly its quantity
// comes back, once.
func TestCase13CancelExpiryRefundOnce(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.openWithWindow("a1", time.Hour, units("s1", 10, 10))
	s.startWorker(workerOptions{})
	for round := range 20 {
		user := fmt.Sprint("u", round)
		a := s.post(ask{activity: "a1", user: user, body: `{"sku":"s1","quantity":3}`})
		if a.status != 202 {
			t.Fatalf("round %d: %s", round, a)
		}
		s.rest("a1")
		s.exec(`update orders set pay_before = now() where id = $1`, a.order)
		done := make(chan struct{})
		for i := range 22 {
			go func() {
				defer func() { done <- struct{}{} }()
				switch {
				case i < 19:
					s.cancel(a.location, user)
				case i < 21:
					_, _ = s.desk().Cancel(context.Background(), admission.Cancellation{ID: a.order, Refund: true})
				default:
					_, _ = s.expiry().Round(context.Background())
				}
			}()
		}
		for range 22 {
			<-done
		}
		must(t, s.release().Round(t.Context()))
		if stock := s.stock(); stock != 10 {
			t.Fatalf("round %d: the gate has %d units, want 10", round, stock)
		}
		s.books("a1", nil)
	}
}
