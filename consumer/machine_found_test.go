package consumer_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
)

// What the machine has found, each as short as it gets.

// The gate is lost while an order is in flight: its buyer is never told that there is no
// such order, also right after somebody looked at the sale. Red if the answer leans on a
// picture of the gate from before.
func TestLostGateForgetsNoOrder(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	first := s.oneByOne("u")
	if got := s.get("/v1/activities/a1", "u"); got.status != http.StatusOK {
		t.Fatalf("look at the sale: %s", got)
	}
	must(t, s.redis.Del(t.Context(), s.gateKey("a1", "gate"), s.gateKey("a1", "orders"), s.gateKey("a1", "pending")).Err())
	if got := s.get(first[0].location, "u"); got.code != "not-ready" {
		t.Errorf("an accepted order whose gate was lost: %s, want not-ready", got)
	}
}

// A settler without the term takes a message and dies with it, and the rightful one
// settles the next: the position does not pass what nobody has decided. Otherwise the
// order is lost if the gate is lost too. Red if a settler does not count its deliveries.
func TestMessageInAStaleHandIsNotPassed(t *testing.T) {
	t.Parallel()
	s := newMachineSale(t)
	s.open("a1", units("s1", 5, 1))
	stale, err := s.workers[0].TakeHold(t.Context(), 0)
	must(t, err)
	newer, err := s.workers[1].TakeHold(t.Context(), 0)
	must(t, err)
	answers := s.oneByOne("u")
	// It waits for the message, as a settler does, and gets it before the rightful one.
	eventually(t, "the stale one has the message", func() (bool, string) {
		if _, err := stale.Step(t.Context(), 1, consumer.EndFetched); err != nil {
			t.Fatal(err)
		}
		info, err := s.log.JetStream().Consumer(t.Context(), s.log.StreamName(), consumer.ConsumerName(0))
		must(t, err)
		return info.CachedInfo().NumAckPending == 1, "none"
	})
	answers = append(answers, s.oneByOne("v")...)
	eventually(t, "the newer one notices", func() (bool, string) {
		_, err := newer.Step(t.Context(), 1, consumer.EndDone)
		settled, look := s.ledger.Settled(t.Context(), 0)
		must(t, look)
		if rows := queryInt(t, s.sale, `select count(*) from orders`); settled > 0 && rows < 2 {
			t.Fatalf("settled to %d with %d rows", settled, rows)
		}
		return err != nil, "nothing came"
	})
	must(t, newer.Drop(t.Context()))
	newer, err = s.workers[1].TakeHold(t.Context(), 0)
	must(t, err)
	eventually(t, "both are settled, without waiting for AckWait", func() (bool, string) {
		_, err := newer.Step(t.Context(), 2, consumer.EndDone)
		must(t, err)
		return queryInt(t, s.sale, `select count(*) from orders`) == 2, ""
	})
	s.books("a1", answers)
}

// A settler without the term takes a message and sees that it is not its turn: it gives
// the message back. Else it waits for AckWait, unless another message comes after it.
func TestMessageInAStaleHandIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newMachineSale(t)
	s.open("a1", units("s1", 5, 1))
	stale, err := s.workers[0].TakeHold(t.Context(), 0)
	must(t, err)
	answers := s.oneByOne("u")
	eventually(t, "the first order is settled", func() (bool, string) {
		d, err := stale.Step(t.Context(), 1, consumer.EndDone)
		must(t, err)
		return len(d) == 1, "nothing came"
	})
	newer, err := s.workers[1].TakeHold(t.Context(), 0)
	must(t, err)
	answers = append(answers, s.oneByOne("v")...)
	eventually(t, "the stale one gets the second", func() (bool, string) {
		_, err := stale.Step(t.Context(), 1, consumer.EndDone)
		return errors.Is(err, consumer.ErrTaken), fmt.Sprint(err)
	})
	eventually(t, "the newer one settles it, without waiting for AckWait", func() (bool, string) {
		if _, err := newer.Step(t.Context(), 1, consumer.EndDone); err != nil {
			must(t, newer.Drop(t.Context()))
			newer, err = s.workers[1].TakeHold(t.Context(), 0)
			must(t, err)
		}
		n := queryInt(t, s.sale, `select count(*) from orders`)
		return n == 2, fmt.Sprint(n, " are settled")
	})
	s.books("a1", answers)
}

// A delivery goes astray, to a request that nobody waits for any more, and no other
// message follows: the worker notices by the log's count, and settles the order long
// before AckWait. Red if it only looks at what comes.
func TestDeliveryThatWentAstrayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{partitions: 1})
	s.open("a1", units("s1", 100, 1))
	s.startWorker(workerOptions{ackWait: time.Hour})
	var answers []answer
	post := func() {
		answers = append(answers, s.oneByOne(fmt.Sprint("u", len(answers)))...)
	}
	post()
	s.rest("a1")
	other, err := s.log.JetStream().Consumer(t.Context(), s.log.StreamName(), consumer.ConsumerName(0))
	must(t, err)
	eventually(t, "a delivery goes astray", func() (bool, string) {
		// It is the turn of this request when the worker's, which was there before, has ended.
		batch, err := other.Fetch(1, jetstream.FetchMaxWait(10*time.Second))
		must(t, err)
		for {
			post()
			select {
			case m, ok := <-batch.Messages():
				return ok && m != nil, "the worker was first"
			case <-time.After(300 * time.Millisecond): // the worker has this one; another is tried
			}
		}
	})
	s.rest("a1")
	s.books("a1", answers)
}

// Two workers, one after the other, hold an order and die before they have written the
// dead letter: the next one writes it, since else no operator would ever see the order.
// Red if the position moves with the decision, or with finding it made.
func TestHeldOrderGetsItsLetterAfterACrash(t *testing.T) {
	t.Parallel()
	s := newMachineSale(t)
	s.open("a1", units("s1", 5, 2))
	first := s.post(one("a1", poisoned))
	for _, end := range []consumer.End{consumer.EndSettled, consumer.EndSettled, consumer.EndDone} {
		h, err := s.workers[0].TakeHold(t.Context(), 0)
		must(t, err)
		eventually(t, "the order is delivered", func() (bool, string) {
			d, err := h.Step(t.Context(), 1, end)
			must(t, err)
			return len(d) == 1, "nothing came"
		})
		must(t, h.Drop(t.Context()))
	}
	s.held(first.order)
	settled, err := s.ledger.Settled(t.Context(), 0)
	must(t, err)
	if settled != s.lastSeq() {
		t.Errorf("settled to %d, the log ends with %d", settled, s.lastSeq())
	}
}

// A message whose order has no time, of another program, say, is settled, and does not
// stop a rebuild of the gate. Red if the scripts want a time after 1970.
func TestOrderWithoutATimeDoesNotStopARebuild(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 5, 1))
	o := order("u")
	if v := s.reserve(s.epoch(), o); v.Kind != admission.VerdictReserved {
		t.Fatalf("reserved: %+v", v)
	}
	o.At = time.Time{}
	s.append(batchOf(s.epoch(), o))
	s.startWorker(workerOptions{})
	s.rest("a1")
	s.openGate("a1")
	wantCancelled(t, s.cancel("/v1/activities/a1/orders/"+o.ID, "u"))
	must(t, s.release().Round(t.Context()))
	if n := s.stock(); n != 5 {
		t.Errorf("the gate has %d units, want 5", n)
	}
}
