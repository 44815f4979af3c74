package consumer_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// Point 4. A publish timed out although it was stored, and is sent again so late that
// the duplicate window does not know it; then the sweep sends the order too, under
// another message id. Red if anything but the order's id keeps it from counting twice.
func TestPoint04StoredThreeTimes(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	o := order("u")
	s.reserve(s.epoch(), o)
	b := batchOf(s.epoch(), o)
	s.append(b)
	s.shrinkWindow()
	s.append(b)
	s.append(batchOf(s.epoch(), o))
	if n := s.copies(o.ID); n != 3 {
		t.Fatalf("the log has the order %d times, want 3: nothing was shown", n)
	}
	s.startWorker(workerOptions{})
	s.books("a1", nil)
	s.decided(1, 1)
	if s.stock() != 9 {
		t.Errorf("%d units left, want 9", s.stock())
	}
}

var publishes = regexp.MustCompile(`PUB [a-z0-9_]+\.orders\.`)

// Point 5. A publish timed out and arrives seconds later, when the node has given up:
// the order still has its unit. Red if a timeout gives the unit back: the next buyer
// would get it, and one of two accepted orders would be rejected.
func TestPoint05ArrivesAfterTheTimeout(t *testing.T) {
	t.Parallel()
	lossy := newLossyProxy(t, stacktest.Get(t).Address(stack.NATS), func(piece []byte) fate {
		if publishes.Match(piece) {
			return swallow
		}
		return forward
	}, nil)
	s := newSale(t, saleOptions{natsURL: "nats://" + lossy.address})
	s.open("a1", units("s1", 1, 1))
	lossy.on.Store(true)
	first := s.post(one("a1", "u"))
	wantCount(t, []answer{first}, map[string]int{"503 outcome-unknown": 1})
	other, _ := s.node(admission.Config{})
	wantCount(t, []answer{other.post(one("a1", "v"))}, map[string]int{"409 sold-out": 1})
	p, err := s.gate.Pending(t.Context(), "a1", s.now(), 0)
	must(t, err)
	if len(p.List) != 1 || p.List[0].ID != first.order {
		t.Fatalf("pending: %+v, want the order of the unanswered publish", p.List)
	}
	_, err = s.directLog().Append(t.Context(), batchOf(p.Epoch, p.List...)) // here it comes
	must(t, err)
	lossy.on.Store(false) // and the node, which lives, sends it again
	s.startWorker(workerOptions{})
	again, _ := s.insist(one("a1", "u"))
	wantCount(t, []answer{again, other.post(one("a1", "v"))}, map[string]int{"200": 1, "409 sold-out": 1})
	s.books("a1", []answer{first})
	s.decided(1, 1)
}

// Point 6. The log refuses an append for sure, and the node dies: the reservation stays
// and is appended when the log takes orders again. Red if a refusal, the one case in
// which giving back looks safe, gives back or is forgotten.
func TestPoint06Refused(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1")
	s.limitLog(func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgs = 1 })
	n, die := s.node(admission.Config{})
	refused := n.post(one("a1", "u2"))
	wantCount(t, []answer{refused}, map[string]int{"503 outcome-unknown": 1})
	die()
	r, ok, err := s.gate.Find(t.Context(), "a1", refused.order)
	must(t, err)
	if !ok || r.State != admission.Pending || s.stock() != 8 || s.lastSeq() != 1 {
		t.Errorf("after the refusal: %+v, %d units, %d messages; want pending, 8 and 1", r, s.stock(), s.lastSeq())
	}
	s.startWorker(workerOptions{})
	s.startSweep()
	s.limitLog(func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgs = -1 })
	s.books("a1", answers)
	s.decided(2, 2)
	if n := s.copies(refused.order); n < 1 {
		t.Error("the refused order was decided without the log")
	}
}

// Point 27. The sweep appends an order whose node is only slow, and the node's own
// publish comes after it. Red if the second message of an order decides anything.
func TestPoint27SweepAndLivePublish(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	o := order("u")
	s.reserve(s.epoch(), o)
	sweep := s.sweep()
	eventually(t, "the sweep has appended the order", func() (bool, string) {
		must(t, sweep.Round(t.Context()))
		return s.lastSeq() > 0, ""
	})
	s.append(batchOf(s.epoch(), o))
	if n := s.copies(o.ID); n != 2 {
		t.Fatalf("the log has the order %d times, want twice: nothing was shown", n)
	}
	s.startWorker(workerOptions{})
	s.books("a1", nil)
	s.decided(1, 1)
}

// racingLedger lets things happen right after the sweep has read the ledger.
type racingLedger struct {
	*consumer.Ledger
	marked, read func()
}

func (l *racingLedger) Settled(ctx context.Context, partition int) (uint64, error) {
	seq, err := l.Ledger.Settled(ctx, partition)
	l.marked()
	return seq, err
}

func (l *racingLedger) Orders(ctx context.Context, ids []string) (map[string]admission.Row, error) {
	rows, err := l.Ledger.Orders(ctx, ids)
	l.read()
	return rows, err
}

// Point 28. The sweep reads that the ledger does not know an order; then it is settled;
// then the sweep appends it. Red if the copy is decided anew.
func TestPoint28SweepAndSettlement(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	o, term, done := order("u"), s.take(), false
	s.reserve(s.epoch(), o)
	ledger := &racingLedger{Ledger: s.ledger}
	var seq uint64
	ledger.marked = func() {
		if seq == 0 {
			seq = s.append(batchOf(s.epoch(), o)) // the slow node, at last
		}
	}
	ledger.read = func() {
		if !done {
			done = true
			_, err := s.ledger.Settle(t.Context(), term, delivery(s.epoch(), seq, o), seq)
			must(t, err)
			must(t, s.gate.Settle(t.Context(), "a1", s.epoch(), []admission.Outcome{{ID: o.ID, Live: true}}))
		}
	}
	sweep := s.sweep()
	sweep.Ledger = ledger
	eventually(t, "the sweep has appended the settled order", func() (bool, string) {
		must(t, sweep.Round(t.Context()))
		return seq > 0 && s.lastSeq() > seq, fmt.Sprint(s.lastSeq())
	})
	s.startWorker(workerOptions{})
	s.books("a1", nil)
	s.decided(1, 1)
	if n := s.copies(o.ID); n != 2 || s.stock() != 9 {
		t.Errorf("%d copies and %d units left, want 2 and 9", n, s.stock())
	}
}

// Point 42. The log's disk is full: after the first refusal buyers are turned away
// before the gate, so nothing piles up there, and the sale goes on by itself when there
// is room. Red if a node keeps on reserving, or needs to be started again.
func TestPoint42LogFull(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	answers := s.oneByOne("u1")
	s.limitLog(func(c *jetstream.StreamConfig, state jetstream.StreamState) { c.MaxBytes = int64(state.Bytes) })
	unknown := 0
	eventually(t, "buyers are turned away", func() (bool, string) {
		a := s.post(one("a1", fmt.Sprint("early", unknown)))
		if a.code == "outcome-unknown" {
			unknown++
		}
		return a.code == "overloaded", a.String()
	})
	before := s.stock()
	if unknown == 0 || before != int64(99-unknown) {
		t.Errorf("%d orders of unknown outcome, %d units left", unknown, before)
	}
	wantCount(t, s.crowd(buyers("a1", 50)), map[string]int{"503 overloaded": 50})
	if s.stock() != before || s.lastSeq() != 1 {
		t.Errorf("buyers who were turned away took %d units; the log has %d messages, want 1", before-s.stock(), s.lastSeq())
	}
	s.limitLog(func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxBytes = 256 << 20 })
	s.startWorker(workerOptions{})
	s.startSweep()
	last, _ := s.insist(one("a1", "buyer-0"))
	answers = append(answers, last)
	answers = append(answers, s.crowd(buyers("a1", 50)[1:])...)
	wantCount(t, answers, map[string]int{"202": 51})
	s.books("a1", answers)
	s.decided(int64(51+unknown), int64(51+unknown))
}
