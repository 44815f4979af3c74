package consumer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// publisher is the job of a worker process that publishes events.
func (s *sale) publisher() *consumer.Events {
	s.t.Helper()
	e, err := consumer.NewEvents(s.ledger, s.nats, consumer.EventsConfig{
		Namespace: s.namespace, Replicas: 1, MaxBytes: 64 << 20, MaxAge: time.Hour,
	}, s.logger)
	must(s.t, err)
	must(s.t, e.Create(s.t.Context()))
	return e
}

// publishAll publishes until the outbox is empty.
func (s *sale) publishAll(e *consumer.Events) {
	s.t.Helper()
	eventually(s.t, "the outbox is empty", func() (bool, string) {
		n, err := e.Round(s.t.Context())
		waiting, _, _ := s.ledger.Outbox(s.t.Context())
		return n == 0 && err == nil && waiting == 0, fmt.Sprint(waiting, " wait; ", err)
	})
}

// stored is an event with the subject it came under.
type stored struct {
	consumer.Event
	subject, batch string
}

// events reads the stream: what it has of each order, in its order.
func (s *sale) events() map[string][]stored {
	s.t.Helper()
	stream, err := s.log.JetStream().Stream(s.t.Context(), strings.ToUpper(s.namespace)+"_EVENTS")
	must(s.t, err)
	info, err := stream.Info(s.t.Context())
	must(s.t, err)
	of := map[string][]stored{}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := stream.GetMsg(s.t.Context(), seq)
		must(s.t, err)
		e := stored{subject: m.Subject, batch: m.Header.Get("Nats-Batch-Id")}
		must(s.t, json.Unmarshal(m.Data, &e.Event))
		if kind := m.Header.Get("Content-Type"); kind != "application/cloudevents+json" {
			s.t.Errorf("event %s has content type %q", e.ID, kind)
		}
		of[e.Subject] = append(of[e.Subject], e)
	}
	return of
}

// told wants the events of every order of the ledger to be complete and in order:
// from a decision, by allowed moves, to the status that the row has.
func (s *sale) told() map[string][]stored {
	s.t.Helper()
	of := s.events()
	rows, err := s.pool.Query(s.t.Context(), `select id::text, status from orders`)
	must(s.t, err)
	var id, status string
	_, err = pgx.ForEachRow(rows, []any{&id, &status}, func() error {
		if err := chain(of[id], status); err != nil {
			s.t.Errorf("order %s: %v", id, err)
		}
		return nil
	})
	must(s.t, err)
	return of
}

// moves are the changes that an order may make; "" is before its decision.
var moves = map[admission.Status]string{
	"": "held pending_payment confirmed rejected cancelled", "held": "pending_payment confirmed rejected cancelled",
	"pending_payment": "paid expired cancelled", "confirmed": "paid cancelled", "paid": "cancelled",
	"expired": "expired", // again, with what became of a late payment
}

func chain(events []stored, last string) error {
	var was admission.Status
	sequence := ""
	for _, e := range events {
		now := e.Data.Status
		if !slices.Contains(strings.Fields(moves[was]), string(now)) {
			return fmt.Errorf("event %q follows %q", now, was)
		}
		if e.Sequence <= sequence {
			return fmt.Errorf("sequence %s follows %s", e.Sequence, sequence)
		}
		was, sequence = now, e.Sequence
	}
	if string(was) != last {
		return fmt.Errorf("the last event says %q, the ledger %q", was, last)
	}
	return nil
}

func statuses(events []stored) string {
	var all []string
	for _, e := range events {
		all = append(all, string(e.Data.Status))
	}
	return strings.Join(all, " ")
}

// Whatever changes an order's status, the shop behind is told, once and in order.
func TestEventsOfEveryChange(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	s.put("a1", admission.Activity{SKUs: []admission.SKU{units("s1", 40, 1)}})
	s.openGate("a1")
	var asks []ask
	for i := range 40 {
		asks = append(asks, one("a1", fmt.Sprint("buyer-", i)))
	}
	ids := accepted(s.crowd(asks))
	s.rest("a1")
	e := s.publisher()
	paid, refunded := ids[:10], ids[:5]
	s.exec(`update orders set status = 'paid' where id = any($1::uuid[])`, paid)
	s.exec(`update orders set release_epoch = null, amount = amount where true`) // no change of status, no event
	s.publishAll(e)
	s.exec(`update orders set status = 'cancelled' where id = any($1::uuid[])`, refunded)
	s.publishAll(e)

	of := s.told()
	for i, id := range ids {
		if first := of[id][0].batch; first == "" || first != of[ids[0]][0].batch {
			t.Errorf("order %d: its first event came with batch %q, that of the first with %q: want one, of all that waited", i, first, of[ids[0]][0].batch)
		}
		want := "confirmed"
		if i < 10 {
			want += " paid"
		}
		if i < 5 {
			want += " cancelled"
		}
		if got := statuses(of[id]); got != want {
			t.Errorf("order %d: events %q, want %q", i, got, want)
		}
	}
	first := of[ids[0]][0]
	row, err := s.ledger.Orders(t.Context(), ids[:1])
	must(t, err)
	d := first.Data
	if first.SpecVersion != "1.0" || first.Type != "seckill.order.confirmed" || first.Source != "/"+s.namespace+"/activities/a1" ||
		first.subject != s.namespace+".events.a1.confirmed" || d.User != row[ids[0]].User || d.Amount != 100 || d.SKU != "s1" || d.Quantity != 1 {
		t.Errorf("event: %+v, for %+v", first, row[ids[0]])
	}
}

// A transaction that is undone tells nobody anything; one that is done does, also
// when it writes through another search path.
func TestEventsAreOfTheTransaction(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	s.open("a1", units("s1", 1, 1))
	id := s.post(one("a1", "ann")).order
	s.rest("a1")
	e := s.publisher()
	s.publishAll(e)
	tx, err := s.pool.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `update orders set status = 'paid'`)
	must(t, err)
	must(t, tx.Rollback(t.Context()))
	other, err := pgx.Connect(t.Context(), s.servers.PostgresURL())
	must(t, err)
	defer other.Close(t.Context())
	_, err = other.Exec(t.Context(), `update `+s.namespace+`.orders set status = 'cancelled'`)
	must(t, err)
	s.publishAll(e)
	if got := statuses(s.told()[id]); got != "confirmed cancelled" {
		t.Errorf("events: %q", got)
	}
}

// The next event of an order waits for the one before, which the stream refuses for
// a while; other orders' events go on.
func TestEventsWaitForTheirPredecessor(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	s.open("a1", units("s1", 3, 1))
	ids := accepted(s.crowd([]ask{one("a1", "ann"), one("a1", "bob"), one("a1", "cid")}))
	s.rest("a1")
	s.exec(`update orders set status = 'paid' where id = any($1::uuid[])`, ids[1:2])
	e := s.publisher()
	stream, err := s.log.JetStream().Stream(t.Context(), e.StreamName())
	must(t, err)
	open := stream.CachedInfo().Config
	full := open
	full.MaxMsgsPerSubject, full.DiscardNewPerSubject = 1, true
	_, err = s.log.JetStream().UpdateStream(t.Context(), full)
	must(t, err)
	for range 3 {
		if _, err := e.Round(t.Context()); err == nil {
			t.Error("no error while the stream refuses an event")
		}
	}
	if n, _, err := s.ledger.Outbox(t.Context()); err != nil || n < 2 {
		t.Errorf("%d wait (%v)", n, err)
	}
	_, err = s.log.JetStream().UpdateStream(t.Context(), open)
	must(t, err)
	s.publishAll(e)
	s.told()
}

// What is published again, because the publisher died before it could remove the row
// or the ledger fell back, is dropped by the stream. A number that a fallen-back
// ledger gives out again is another event all the same.
func TestEventsPublishedAgain(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	s.open("a1", units("s1", 3, 1))
	ids := accepted(s.crowd([]ask{one("a1", "ann"), one("a1", "bob")}))
	s.rest("a1")
	e := s.publisher()
	s.exec(`create table older as select id, order_ids, status, reason, at from outbox_batches`)
	s.publishAll(e)
	s.exec(`insert into outbox_batches (id, order_ids, status, reason, at) overriding system value table older`)
	s.publishAll(e)
	s.told()
	s.exec(`alter table outbox_batches alter id restart with 1`)
	third := s.post(one("a1", "cid")).order
	s.rest("a1")
	s.publishAll(e)
	if got := statuses(s.told()[third]); got != "confirmed" {
		t.Errorf("events of the order under a number given out twice: %q", got)
	}
	if n := queryInt(t, s, `select count(*) from orders where id = any($1::uuid[])`, ids); n != 2 {
		t.Errorf("%d orders", n)
	}
}

// The log is away: changes wait in the ledger, and nothing is lost. The stream is
// lost with it: it begins anew.
func TestEventsWaitForTheLog(t *testing.T) {
	t.Parallel()
	own := stacktest.New(t)
	s := newSale(t, saleOptions{servers: own})
	s.startWorker(workerOptions{})
	s.open("a1", units("s1", 50, 1))
	var asks []ask
	for i := range 50 {
		asks = append(asks, one("a1", fmt.Sprint("buyer-", i)))
	}
	s.crowd(asks)
	s.rest("a1")
	e := s.publisher()
	must(t, own.Kill(stack.NATS))
	if n, err := e.Round(t.Context()); n != 0 || err == nil {
		t.Errorf("%d published while the log was away (%v)", n, err)
	}
	s.exec(`update orders set status = 'paid'`)
	must(t, own.Start(t.Context(), stack.NATS))
	s.publishAll(e)
	s.told()
	must(t, s.log.JetStream().DeleteStream(t.Context(), e.StreamName()))
	s.exec(`update orders set status = 'cancelled'`)
	s.publishAll(e)
	for id, events := range s.events() {
		if statuses(events) != "cancelled" {
			t.Errorf("order %s: %q in the stream made anew", id, statuses(events))
		}
	}
}
