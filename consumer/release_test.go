package consumer_test

import (
	"testing"
	"time"

	"seckill/consumer"
)

func (s *sale) release() *consumer.Release {
	return &consumer.Release{Ledger: s.ledger, Gate: s.gate, Logger: s.logger}
}

// cancelled makes an order dead in the ledger as a cancellation does, and tells
// nobody.
func (s *sale) cancelled(id string) {
	s.t.Helper()
	s.ended(id, "cancelled")
}

func (s *sale) ended(id, status string) {
	s.t.Helper()
	s.exec(`
		with dead as (
			update orders o set status = $2, release_epoch = a.epoch from activities a
			 where o.id = $1 and a.id = o.activity_id returning o.activity_id, o.sku_id, o.quantity)
		update skus s set stock = stock + dead.quantity from dead
		 where s.activity_id = dead.activity_id and s.sku_id = dead.sku_id`, id, status)
}

func (s *sale) due() int64 {
	s.t.Helper()
	return queryInt(s.t, s, `select count(*) from orders where release_epoch is not null`)
}

// Rule 16: a marked order is released at the gate of its epoch, once, and the mark
// goes; a gate that is not there keeps it; a newer one was filled without it.
func TestReleaseGivesUnitsBackOnce(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	answers := s.crowd(buyers("a1", 10))
	s.books("a1", answers)

	s.cancelled(answers[0].order)
	if r := s.audit("a1", 0); !r.OK || r.Activities[0].SKUs[0].ReleaseDue != 1 {
		t.Errorf("a unit on its way back to the gate: %+v", r)
	}
	must(t, s.release().Round(t.Context()))
	must(t, s.release().Round(t.Context()))
	s.books("a1", answers[1:])
	if s.due() != 0 {
		t.Error("the mark of a released order is still there")
	}
	// The mark comes again, as after a crash before it was cleared: nothing happens.
	s.exec(`update orders set release_epoch = (select epoch from activities) where id = $1`, answers[0].order)
	must(t, s.release().Round(t.Context()))
	s.books("a1", answers[1:])

	// Without its gate the mark stays, and the next gate is filled without the order.
	s.cancelled(answers[1].order)
	must(t, s.redis.Del(t.Context(), s.gateKey("a1", "gate")).Err())
	must(t, s.release().Round(t.Context()))
	if s.due() != 1 {
		t.Error("the mark went although no gate has given the unit back")
	}
	s.openGate("a1")
	must(t, s.release().Round(t.Context()))
	if s.due() != 0 {
		t.Error("the mark stays although a newer gate was filled without the order")
	}
	s.books("a1", answers[2:])
	if r := s.audit("a1", 10*time.Second); !r.OK || !r.AtRest {
		t.Errorf("after all: %+v", r)
	}
}
