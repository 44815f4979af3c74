package consumer_test

import (
	"testing"

	"seckill/admission"
	"seckill/consumer"
)

// A copy made by a replay keeps the epoch of its reservation: an order that the present
// gate has never charged is as stale as it was, although its row is gone.
func TestRule19ReplayKeepsTheEpoch(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	late := admission.NewBatch("a1", s.epoch())
	o := order("u")
	late.Orders = append(late.Orders, o)
	s.openGate("a1")
	_, err := s.log.Append(t.Context(), late)
	must(t, err)
	stale := func() (bool, string) {
		n := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'rejected' and reason = 'stale'`, o.ID)
		return n == 1, "no such row"
	}
	eventually(t, "the late order is stale", stale)
	s.exec(`delete from orders where id = $1`, o.ID)
	summary, _, err := s.replay(consumer.Selection{}, nil)
	wantCounts(t, "the row is lost", summary, err, consumer.ReplayCounts{Matched: 1, Rejected: 1})
	if ok, _ := stale(); !ok {
		t.Error("the replay has made a stale order live")
	}
	s.books("a1", nil)
}
