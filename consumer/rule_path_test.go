package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// messages reads the whole log.
func (s *sale) messages() []admission.Batch {
	s.t.Helper()
	stream, err := s.log.JetStream().Stream(s.t.Context(), s.log.StreamName())
	must(s.t, err)
	var all []admission.Batch
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		msg, err := stream.GetMsg(s.t.Context(), seq)
		must(s.t, err)
		b, err := admission.DecodeBatch(msg.Data)
		must(s.t, err)
		all = append(all, b)
	}
	return all
}

// A pending order is appended under the epoch of its reservation, by the rebuild of
// another epoch too; so it is decided before the snapshot, and live.
func TestRule04And22PendingIsDecidedBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	e, o := s.epoch(), order("u")
	s.reserve(e, o) // and its node dies
	s.startWorker(workerOptions{})
	s.openGate("a1")
	n := s.epoch()
	all := s.messages()
	if len(all) != 1 || all[0].Epoch != e || all[0].Orders[0].ID != o.ID {
		t.Fatalf("the log has %+v, want the order under epoch %d", all, e)
	}
	if got := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'confirmed'`, o.ID); got != 1 {
		t.Error("the pending order is not live")
	}
	if n == e || s.stock() != 9 {
		t.Errorf("epoch %d after %d, %d units at the new gate, want 9", n, e, s.stock())
	}
	s.books("a1", nil)
}

// A rebuild waits out the publish deadline: an append that was under way when the
// gate was closed, and would earn a 202, still counts.
func TestRule09And22AppendUnderWayCounts(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	e, o := s.epoch(), order("u")
	began := time.Now()
	v := s.reserve(e, o)
	// Redis loses the reservation: only the append that is under way knows it.
	must(t, s.redis.Del(t.Context(), s.namespace+":{a1/0}:gate", s.namespace+":{a1/0}:pending", s.namespace+":{a1/0}:orders").Err())
	done := make(chan error, 1)
	go func() {
		_, err := s.rebuild().Run(context.Background(), "a1")
		done <- err
	}()
	eventually(t, "the gate is closed", func() (bool, string) {
		view, err := s.gate.View(t.Context(), "a1")
		return err == nil && view.State == "closed", fmt.Sprint(view, err)
	})
	b := admission.NewBatch("a1", e)
	b.Orders = append(b.Orders, v.Reservation.Order)
	ctx, cancel := context.WithDeadline(t.Context(), began.Add(admission.PublishDeadline))
	defer cancel()
	if _, err := s.log.Append(ctx, b); err != nil {
		t.Fatalf("the append took longer than the deadline: nothing can be shown: %v", err)
	}
	s.rebuiltBy("a1", func() error { return <-done })
	if got := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'confirmed'`, o.ID); got != 1 {
		t.Error("an order whose ack came within the deadline is not live")
	}
	s.books("a1", nil)
}

// A rebuild waits until the log is settled as far as it was: no worker, no new gate.
func TestRule22WaitsForTheBacklog(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.crowd(buyers("a1", 5))
	must(t, s.redis.Del(t.Context(), s.namespace+":{a1/0}:gate", s.namespace+":{a1/0}:pending", s.namespace+":{a1/0}:orders").Err())
	ctx, cancel := context.WithTimeout(t.Context(), admission.PublishDeadline+time.Second)
	defer cancel()
	if _, err := s.rebuild().Run(ctx, "a1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a rebuild ended with %v while orders were undecided", err)
	}
	s.startWorker(workerOptions{}) // brings a rebuilder too
	eventually(t, "the gate is open again", func() (bool, string) {
		view, err := s.gate.View(t.Context(), "a1")
		return err == nil && view.Ready(s.epoch()), fmt.Sprint(view, err)
	})
	s.books("a1", answers)
}

// A node that knows an older epoch reads it again, and the buyer notices nothing.
func TestRule06OlderEpochIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	s.startWorker(workerOptions{})
	first := s.post(one("a1", "u"))
	s.openGate("a1")
	second, again := s.post(one("a1", "v")), s.post(one("a1", "u"))
	wantCount(t, []answer{first, second, again}, map[string]int{"202": 2, "200": 1})
	s.books("a1", []answer{first, second})
}

// A missing ack is unknown: the same bytes are sent again under the same message id,
// and the log has them once.
func TestRule07ResendsTheSameMessage(t *testing.T) {
	t.Parallel()
	var once atomic.Bool
	lossy := newLossyProxy(t, stacktest.Get(t).Address(stack.NATS), nil, func(piece []byte) fate {
		if bytes.Contains(piece, []byte(`_ORDERS`)) && bytes.Contains(piece, []byte(`"seq"`)) && once.CompareAndSwap(false, true) {
			return swallow
		}
		return forward
	})
	s := newSale(t, saleOptions{natsURL: "nats://" + lossy.address})
	s.open("a1", units("s1", 10, 1))
	lossy.on.Store(true)
	a := s.post(one("a1", "u"))
	if a.status != http.StatusAccepted || lossy.lost.Load() != 1 {
		t.Fatalf("with one ack swallowed (%d): %v, want 202", lossy.lost.Load(), a)
	}
	if all := s.messages(); len(all) != 1 {
		t.Errorf("the log has %d messages, want one", len(all))
	}
}

// A request that finds its reservation pending has it appended before it answers: the
// node that reserved may have died before it could.
func TestRule08RepeatAppendsAgain(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	o := order("u")
	s.reserve(s.epoch(), o)
	a := s.post(one("a1", "u"))
	if a.status != http.StatusOK || a.order != o.ID {
		t.Fatalf("%v, want 200 and order %s", a, o.ID)
	}
	all := s.messages()
	if len(all) != 1 || all[0].Orders[0].ID != o.ID {
		t.Errorf("the log has %+v, want the order that was answered", all)
	}
}

// Nothing is acknowledged to the log before the ledger has committed.
func TestRule12NoAckBeforeCommit(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.crowd(buyers("a1", 5))
	exec(t, s, `create function stop() returns trigger language plpgsql as $$
		begin raise sqlstate '57P03' using message = 'not now'; end $$`)
	exec(t, s, `create trigger stop before insert on orders for each row execute function stop()`)
	s.startWorker(workerOptions{})
	stream, err := s.log.JetStream().Stream(t.Context(), s.log.StreamName())
	must(t, err)
	name := consumer.ConsumerName(s.log.Partition("a1"))
	eventually(t, "the messages are in a worker's hands", func() (bool, string) {
		c, err := stream.Consumer(t.Context(), name)
		if err != nil {
			return false, err.Error()
		}
		info := c.CachedInfo()
		return info.NumAckPending > 0 && info.NumPending == 0, fmt.Sprint(info.NumAckPending)
	})
	c, err := stream.Consumer(t.Context(), name)
	must(t, err)
	if floor := c.CachedInfo().AckFloor.Stream; floor != 0 {
		t.Errorf("acknowledged up to %d before any commit", floor)
	}
	exec(t, s, `drop trigger stop on orders`)
	s.books("a1", answers)
}

// A gate that admits in its epoch what the ledger has to reject lies, and is rebuilt.
func TestRule14LyingGateIsRebuilt(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	e := s.epoch()
	must(t, s.redis.HIncrBy(t.Context(), s.namespace+":{a1/0}:stock", "s1", 1).Err())
	answers := s.crowd(buyers("a1", 11))
	wantCount(t, answers, map[string]int{"202": 11})
	s.startWorker(workerOptions{})
	s.startSweep()
	eventually(t, "the gate is rebuilt", func() (bool, string) {
		view, err := s.gate.View(t.Context(), "a1")
		return err == nil && view.Epoch > e && view.Ready(s.epoch()), fmt.Sprint(view, err)
	})
	s.books("a1", nil)
	if n := queryInt(t, s, `select count(*) from orders where status = 'rejected' and reason = 'sold-out'`); n != 1 {
		t.Errorf("%d orders rejected, want the one too many", n)
	}
}

// The sweep appends what is missing, once the log is settled beyond it, and does not
// append a backlog twice.
func TestRule18SweepLeavesABacklogAlone(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.crowd(buyers("a1", 5))
	lost := order("lost")
	s.reserve(s.epoch(), lost)
	before := len(s.messages())
	sweep := &admission.Sweep{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: s.logger}
	overdue := time.Now().Add(admission.PublishDeadline + 1500*time.Millisecond)
	for time.Now().Before(overdue.Add(time.Second)) { // long after everything is overdue
		must(t, sweep.Round(t.Context()))
	}
	if n := len(s.messages()); n != before {
		t.Fatalf("the sweep appended %d messages of a backlog", n-before)
	}
	s.startWorker(workerOptions{})
	eventually(t, "the lost order is appended and decided", func() (bool, string) {
		must(t, sweep.Round(t.Context()))
		n := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'confirmed'`, lost.ID)
		return n == 1, fmt.Sprint(n)
	})
	s.books("a1", answers)
}
