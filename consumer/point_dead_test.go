package consumer_test

import (
	"fmt"
	"testing"

	"seckill/admission"
	"seckill/consumer"
)

// Point 35. A buyer cancels while the order is in flight, which leaves a tombstone: the
// unit goes back and the limit is freed before the answer. The message finds the order
// decided; so do a copy of it, a replay and a rebuild. Red if the order becomes live, or
// stays charged at the gate.
func TestPoint35TombstoneBeforeTheMessage(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	first := s.post(ask{activity: "a1", user: "u", key: "k", body: `{"sku":"s1","quantity":1}`})
	wantCount(t, []answer{s.post(one("a1", "v"))}, map[string]int{"409 sold-out": 1})
	for range 2 {
		wantCancelled(t, s.cancel(first.location, "u"))
	}
	second := s.sellsAgain("v")
	stop := s.startWorker(workerOptions{})
	s.books("a1", second)
	s.decided(2, 1)
	if got := s.get(first.location, "u"); got.state != "cancelled" {
		t.Errorf("the buyer who cancelled is told %s", got)
	}
	s.append(batchOf(s.epoch(), s.messages()[0].Orders...))
	s.rest("a1")
	must(t, s.redis.Del(t.Context(), s.gateKey("a1", "gate"), s.gateKey("a1", "orders"), s.gateKey("a1", "keys")).Err())
	s.openGate("a1")
	again := s.post(ask{activity: "a1", user: "u", key: "k", body: `{"sku":"s1","quantity":1}`})
	if again.status != 200 || again.order != first.order || again.state != "cancelled" {
		t.Errorf("the same key after all: %s %s", again, again.state)
	}
	stop()
	summary, _, err := s.replay(consumer.Selection{Mode: consumer.ReplayApply}, nil)
	wantCounts(t, "everything", summary, err, consumer.ReplayCounts{Matched: 3, Already: 3})
	s.books("a1", second)
	s.decided(2, 1)
}

// Point 35. The append of the cancelled order was never seen: its reservation was all
// there was, and the word to the gate got lost too. The sweep finds the tombstone.
func TestPoint35TombstoneWithoutAMessage(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	o := order("u")
	if v := s.reserve(s.epoch(), o); v.Kind != admission.VerdictReserved {
		t.Fatalf("reserved: %+v", v)
	}
	row := admission.Row{ID: o.ID, Activity: "a1", SKU: "s1", User: "u", Quantity: 1, CreatedAt: s.now()}
	_, err := s.ledger.Cancel(t.Context(), admission.Cancellation{ID: o.ID, Activity: "a1", User: "u", InFlight: &row})
	must(t, err)
	if stock := s.stock(); stock != 0 {
		t.Fatalf("the gate has %d units: nothing was lost", stock)
	}
	s.startWorker(workerOptions{})
	s.startSweep()
	s.books("a1", nil)
	s.decided(1, 0)
	if n := s.copies(o.ID); n != 0 {
		t.Errorf("the cancelled order was appended %d times", n)
	}
	s.books("a1", s.oneByOne("v"))
}

// Point 35. A buyer cancels at the moment in which the order is settled, again and again:
// whoever is first, the order is dead and the unit back once.
func TestPoint35CancelBesideTheSettlement(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 3, 1))
	s.startWorker(workerOptions{})
	for range 60 {
		first := s.oneByOne("u", "v", "w")
		done := make(chan answer, len(first))
		for i, user := range []string{"u", "v", "w"} {
			go func() { done <- s.cancel(first[i].location, user) }()
		}
		for range first {
			wantCancelled(t, <-done)
		}
	}
	must(t, s.release().Round(t.Context()))
	s.books("a1", nil)
	s.decided(180, 0)
	if stock := s.stock(); stock != 3 {
		t.Errorf("the gate has %d units, want 3", stock)
	}
}

// Point 34. Everything is replayed after an order was cancelled and its unit sold to
// another buyer. Red if the old message brings the dead order back to life.
func TestPoint34ReplayAfterCancellation(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	stop := s.startWorker(workerOptions{})
	first := s.oneByOne("u")
	s.books("a1", first)
	s.cancelled(first[0].order)
	must(t, s.release().Round(t.Context()))
	second := s.oneByOne("v")
	s.books("a1", second)
	for _, mode := range []string{consumer.ReplayRepublish, consumer.ReplayApply} {
		if mode == consumer.ReplayApply {
			stop()
		}
		summary, _, err := s.replay(consumer.Selection{Mode: mode}, nil)
		wantCounts(t, fmt.Sprint("everything by ", mode), summary, err, consumer.ReplayCounts{Matched: 2, Already: 2})
		s.books("a1", second)
		s.decided(2, 1)
	}
}
