package consumer_test

import (
	"slices"
	"testing"
	"time"

	"seckill/admission"
)

// Point 18. Redis comes back in an older state, and nothing about the server tells: the
// gate sells units again that are sold. The ledger rejects the excess, each order with
// its reason, and has the gate rebuilt. Red if the ledger takes the gate's word. (A
// server that is another one: TestCase27ScriptsFlushedRedisRestarted,
// TestRule25OtherServerAdmitsNobody.)
func TestPoint18RedisRolledBack(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	e := s.epoch()
	stop := s.startWorker(workerOptions{})
	sold := s.oneByOne("u0", "u1", "u2", "u3", "u4", "u5")
	s.books("a1", sold)
	restore := s.copyGate()
	sold = append(sold, s.oneByOne("u6", "u7", "u8", "u9")...)
	s.books("a1", sold)
	stop()
	restore()
	excess := s.oneByOne("v0", "v1", "v2", "v3")
	s.startWorker(workerOptions{})
	s.startSweep()
	s.rebuiltSince(e)
	s.books("a1", sold)
	s.decided(14, 10)
	for _, a := range excess {
		if n := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'rejected' and reason = 'sold-out'`, a.order); n != 1 {
			t.Errorf("order %s is lost: it has no decision with its reason", a.order)
		}
	}
	wantCount(t, s.crowd(buyers("a1", 5)), map[string]int{"409 sold-out": 5})
}

// Point 19. Redis has forgotten the reservation of an order that is in flight, and its
// buyer gets another one: the ledger lets the first live and rejects the second, whose
// release does not touch the first. Red if both live, or if the buyer may buy again.
func TestPoint19ReservationForgotten(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	e := s.epoch()
	restore := s.copyGate()
	first := s.oneByOne("u")
	restore()
	second := s.oneByOne("u")
	if first[0].order == second[0].order {
		t.Fatal("the gate has not forgotten: nothing was shown")
	}
	s.startWorker(workerOptions{})
	s.startSweep()
	s.rebuiltSince(e)
	s.books("a1", first)
	s.decided(2, 1)
	if n := queryInt(t, s, `select count(*) from orders where id = $1 and reason = 'limit-reached'`, second[0].order); n != 1 {
		t.Error("the second order is not rejected for the limit")
	}
	again := s.post(one("a1", "u"))
	if again.status != 200 || again.order != first[0].order || s.stock() != 9 {
		t.Errorf("the buyer asks again: %v with %d units left, want order %s and 9", again, s.stock(), first[0].order)
	}
}

// Point 21. Log and gate both lose an order that was answered, which an order log that
// syncs always excludes: no store knows it any more. Nothing is made up: its buyer is
// told that there is none, the books are right, and no unit is stranded. Red if the
// rebuilt gate charges for what has no row.
func TestPoint21LostEverywhere(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	e := s.epoch()
	lost := s.oneByOne("u")
	must(t, s.log.JetStream().DeleteStream(t.Context(), s.log.StreamName()))
	for _, what := range []string{"gate", "stock", "orders", "buyers", "keys", "pending"} {
		must(t, s.redis.Del(t.Context(), s.gateKey("a1", what)).Err())
	}
	s.startWorker(workerOptions{})
	s.rebuiltSince(e)
	if got := s.get(lost[0].location, "u"); got.status != 404 {
		t.Errorf("the buyer reads the order: %v, want 404", got)
	}
	s.books("a1", nil)
	s.decided(0, 0)
	again, _ := s.insist(one("a1", "u"))
	wantCount(t, []answer{again}, map[string]int{"202": 1})
	s.books("a1", []answer{again})
	s.decided(1, 1)
}

// Point 29. A release is late: meanwhile its buyer has another order. It acts by order
// id, and the order it names is released already. Red if it acts by buyer, or twice.
func TestPoint29LateReleaseOfTheSameBuyer(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	first := s.oneByOne("u")
	s.books("a1", first)
	s.cancelled(first[0].order)
	must(t, s.release().Round(t.Context()))
	second := s.oneByOne("u")
	for range 2 {
		must(t, s.gate.Settle(t.Context(), "a1", s.epoch(), []admission.Outcome{{ID: first[0].order}}))
	}
	again := s.post(one("a1", "u"))
	if again.status != 200 || again.order != second[0].order || s.stock() != 9 {
		t.Errorf("after the late release: %v with %d units left, want order %s and 9", again, s.stock(), second[0].order)
	}
	s.books("a1", second)
	s.decided(2, 1)
}

// Point 31. A failover of Redis swallows a release, and the mark on the row is gone: no
// job will ever bring the unit back. The audit finds the equation wrong, and a rebuild
// mends it. Red if the unit can be stranded without being seen.
func TestPoint31ReleaseSwallowed(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	e := s.epoch()
	s.startWorker(workerOptions{})
	answers := s.oneByOne("u1", "u2", "u3")
	s.books("a1", answers)
	restore := s.copyGate()
	s.cancelled(answers[0].order)
	must(t, s.release().Round(t.Context()))
	restore()
	must(t, s.release().Round(t.Context())) // nothing is due any more
	if got := s.stock(); got != 7 || s.due() != 0 {
		t.Fatalf("%d units at the gate, %d due: nothing was shown", got, s.due())
	}
	r := s.audit("a1", 30*time.Second)
	if got := found(r); r.OK || !slices.Contains(got, "stranded s1") {
		t.Errorf("the audit found %q, want a stranded unit", got)
	}
	must(t, s.ledger.Suspect(t.Context(), "a1", e, "found by an audit"))
	s.rebuiltSince(e)
	s.books("a1", answers[1:])
	s.wantClean(2)
	if got := s.stock(); got != 8 {
		t.Errorf("%d units left, want 8", got)
	}
}
