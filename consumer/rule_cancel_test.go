package consumer_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// cancel asks for a cancellation as the buyer.
func (s *sale) cancel(location, user string) answer {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.http.URL+location+"/cancel", nil)
	must(s.t, err)
	req.Header.Set("X-User-ID", user)
	return s.do(req)
}

// wantCancelled wants 200 with a cancelled order.
func wantCancelled(t *testing.T, got answer) {
	t.Helper()
	if got.status != http.StatusOK || got.state != "cancelled" {
		t.Errorf("a cancellation was answered %s %s", got, got.body)
	}
}

// Rule 15. A cancelled order gives its unit back once, to ledger and gate, and frees the
// limit, before the answer; repeats change nothing; a paid one stays.
func TestRule15CancelGivesBackOnce(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	s.startWorker(workerOptions{})
	first := s.oneByOne("u", "v")
	s.books("a1", first)
	for range 2 {
		wantCancelled(t, s.cancel(first[0].location, "u"))
	}
	if stock := s.stock(); stock != 1 {
		t.Errorf("after the answer the gate has %d units, want 1", stock)
	}
	again := s.oneByOne("u") // whose limit is one
	s.books("a1", append(again, first[1]))
	s.exec(`update orders set status = 'paid' where id = $1`, first[1].order)
	if got := s.cancel(first[1].location, "v"); got.status != http.StatusConflict || got.code != "not-cancellable" {
		t.Errorf("a paid order: %s", got)
	}
	must(t, s.release().Round(t.Context()))
	if s.due() != 0 {
		t.Error("a mark is left although the gate has given the unit back")
	}
	if r := s.audit("a1", 10*time.Second); !r.OK || !r.AtRest {
		t.Errorf("after all: %+v", r)
	}
}

// Rule 15. Nobody cancels the order of another, decided or in flight.
func TestRule15OwnOrdersOnly(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	first := s.oneByOne("u")
	foreign := func() {
		t.Helper()
		for _, got := range []answer{
			s.cancel(first[0].location, "v"),
			s.cancel("/v1/activities/a2/orders/"+first[0].order, "u"),
			s.cancel("/v1/activities/a1/orders/"+admission.NewID(), "u"),
		} {
			if got.status != http.StatusNotFound {
				t.Errorf("not an order of his own: %s", got)
			}
		}
	}
	foreign()
	s.startWorker(workerOptions{})
	s.books("a1", first)
	foreign()
	s.decided(1, 1)
}

// Rule 15. The units were given back in the ledger and the word to the gate got lost:
// the mark on the row is the reminder.
func TestRule15MarkOutlivesALostWord(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	s.startWorker(workerOptions{})
	first := s.oneByOne("u")
	s.books("a1", first)
	_, err := s.ledger.Cancel(t.Context(), admission.Cancellation{ID: first[0].order, Activity: "a1", User: "u"})
	must(t, err)
	if stock := s.stock(); stock != 0 {
		t.Fatalf("the gate has %d units: nothing was lost", stock)
	}
	must(t, s.release().Round(t.Context()))
	s.books("a1", s.oneByOne("v"))
}

// Rules 1 and 15. A cancellation beside a rebuild's snapshot, which has counted the
// order, waits for it and marks the order for the new gate.
func TestRule15CancelWaitsForTheSnapshot(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	stop := s.startWorker(workerOptions{})
	first := s.oneByOne("u")
	s.books("a1", first)
	stop()
	// The snapshot stands still at its COMMIT.
	s.exec(`create function stand() returns trigger language plpgsql as $$
		begin perform pg_advisory_xact_lock_shared(hashtext(current_schema)); return new; end $$`)
	s.exec(`create constraint trigger stand after update of epoch on activities deferrable initially deferred
		for each row execute function stand()`)
	barrier, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = barrier.Rollback(context.Background()) }()
	_, err = barrier.Exec(t.Context(), `select pg_advisory_xact_lock(hashtext(current_schema))`)
	must(t, err)
	n, err := s.nextEpoch()
	must(t, err)
	server, err := s.gate.Server(t.Context(), "a1")
	must(t, err)
	must(t, s.gate.Close(t.Context(), "a1", n))
	taken := make(chan error, 1)
	var snapshot admission.Snapshot
	go func() {
		var err error
		snapshot, err = s.ledger.Snapshot(context.Background(), "a1", n)
		taken <- err
	}()
	s.waiting(1)
	cancelled := make(chan answer, 1)
	go func() { cancelled <- s.cancel(first[0].location, "u") }()
	select {
	case got := <-cancelled:
		t.Errorf("the cancellation did not wait for the snapshot: %s", got)
		cancelled <- got
	case <-wait(func() { s.waiting(2) }):
	}
	must(t, barrier.Rollback(t.Context()))
	must(t, <-taken)
	wantCancelled(t, <-cancelled)
	must(t, s.gate.Fill(t.Context(), n, snapshot))
	must(t, s.gate.Open(t.Context(), n, snapshot, server))
	must(t, s.release().Round(t.Context()))
	if stock := s.stock(); stock != 1 {
		t.Errorf("the new gate has %d units, want 1: the order it was filled with is dead", stock)
	}
}

// A held order is cancelled by its buyer or by an operator: it is dead, the gate has its
// units back, and no replay brings it to life.
func TestCancelHeldOrder(t *testing.T) {
	t.Parallel()
	for _, byBuyer := range []bool{true, false} {
		t.Run(fmt.Sprint("by the buyer ", byBuyer), func(t *testing.T) {
			t.Parallel()
			s, held := heldSale(t)
			s.antidote()
			if byBuyer {
				wantCancelled(t, s.cancel(held.location, "poison"))
			} else if row, err := s.desk().Cancel(t.Context(), admission.Cancellation{ID: held.order}); err != nil || row.Status != admission.Cancelled {
				t.Errorf("the operator's cancellation: %+v, %v", row, err)
			}
			if ruling, err := s.desk().Replay(t.Context(), held.order); err != nil || ruling.Status != admission.Cancelled {
				t.Errorf("a replay of the cancelled order: %+v, %v", ruling, err)
			}
			must(t, s.release().Round(t.Context()))
			s.wantClean(2)
			if stock := s.stock(); stock != 3 {
				t.Errorf("the gate has %d units, want 3", stock)
			}
		})
	}
}

// An operator cancels a paid order and has its money marked to go back, with who and
// why in the activity log.
func TestOperatorCancelsPaidOrder(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	s.startWorker(workerOptions{})
	first := s.oneByOne("u", "v")
	s.books("a1", first)
	s.exec(`update orders set status = 'paid'`)
	ctx := consumer.OnBehalf(t.Context(), consumer.Operator{Name: "ann", Reason: "broken lamp"})
	for i, refund := range []string{"due", ""} {
		c := admission.Cancellation{ID: first[i].order, Refund: refund != ""}
		for range 2 {
			row, err := s.desk().Cancel(ctx, c)
			if err != nil || row.Status != admission.Cancelled || row.Refund != refund {
				t.Errorf("cancelled: %+v, %v; want refund %q", row, err, refund)
			}
		}
	}
	if n := queryInt(t, s, `select count(*) from activity_log where action = 'cancel order' and actor = 'ann' and reason = 'broken lamp'`); n != 2 {
		t.Errorf("the activity log has %d lines, want 2", n)
	}
	s.books("a1", nil)
}
