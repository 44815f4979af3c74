package consumer_test

import (
	"fmt"
	"testing"

	"seckill/consumer"
)

// Point 35, the half that is built: a buyer cancelled while the order was in flight,
// which has left a tombstone. The message finds it, and the unit goes back. Red if the
// order becomes live, or stays charged at the gate.
func TestPoint35TombstoneBeforeTheMessage(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	first := s.oneByOne("u")
	s.exec(`insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, epoch, partition, log_seq, term)
		values ($1, 'a1', 's1', 'u', 1, 100, 'cancelled', now(), $2, $3, 0, 0)`, first[0].order, s.epoch(), s.log.Partition("a1"))
	wantCount(t, []answer{s.post(one("a1", "v"))}, map[string]int{"409 sold-out": 1})
	s.startWorker(workerOptions{})
	s.books("a1", nil)
	s.decided(1, 0)
	s.books("a1", s.oneByOne("v"))
	s.decided(2, 1)
	if got := s.get(first[0].location, "u"); got.state != "cancelled" {
		t.Errorf("the buyer who cancelled is told %s", got)
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
