package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// counter reads a counter by its name; labels do not matter, all are added up.
func counter(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	must(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// An order that always fails to settle, in the middle of a batch: it alone becomes a
// dead letter with its reason, its buyer sees it, the others settle.
func TestCase21PoisonOrder(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 100, 1))
	exec(t, s, `create function refuse() returns trigger language plpgsql as $$
		begin
			if new.user_id = 'buyer-13' and new.status = 'confirmed' then raise sqlstate '22000' using message = 'unlucky'; end if;
			return new;
		end $$`)
	exec(t, s, `create trigger refuse before insert on orders for each row execute function refuse()`)
	answers := s.crowd(buyers("a1", 40)) // one batch or a few, in the log
	wantCount(t, answers, map[string]int{"202": 40})
	registry := prometheus.NewRegistry()
	s.startWorker(workerOptions{metrics: consumer.NewMetrics(registry)})
	eventually(t, "every order has a row", func() (bool, string) {
		n := queryInt(t, s, `select count(*) from orders`)
		return n == 40, fmt.Sprint(n)
	})
	if n := queryInt(t, s, `select count(*) from orders where status = 'confirmed' and user_id <> 'buyer-13'`); n != 39 {
		t.Errorf("%d of the 39 others are confirmed", n)
	}
	shown := s.get(answers[13].location, "buyer-13")
	if shown.state != "held" || strings.Contains(shown.body, "unlucky") {
		t.Errorf("the buyer sees %s, want held, and nothing of the ledger's words", shown.body)
	}
	if n := queryInt(t, s, `select count(*) from orders where user_id = 'buyer-13' and status = 'held' and reason like '%unlucky%'`); n != 1 {
		t.Error("the row does not say why the order is held")
	}
	eventually(t, "the dead letter is kept", func() (bool, string) {
		stream, err := s.log.JetStream().Stream(t.Context(), deadStream(s))
		if err != nil {
			return false, err.Error()
		}
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 1, fmt.Sprint(info, err)
	})
	if n := counter(t, registry, "seckill_redelivered_total"); n != 0 {
		t.Errorf("%v redeliveries, want none: a poison order burns no deliveries", n)
	}
}

func exec(t *testing.T, s *sale, sql string) {
	t.Helper()
	_, err := s.pool.Exec(t.Context(), sql)
	must(t, err)
}

// Postgres is away for several times the AckWait: no dead letter, and all is settled
// after it is back. Admission goes on meanwhile.
func TestCase22PostgresAway(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	s := newSale(t, saleOptions{servers: servers})
	s.open("a1", units("s1", 1000, 1))
	s.startWorker(workerOptions{ackWait: time.Second})
	s.startSweep()
	answers := s.crowd(buyers("a1", 100))
	must(t, servers.Kill(stack.Postgres))
	away := buyers("a1", 200)[100:]
	answers = append(answers, s.crowd(away)...)
	wantCount(t, answers, map[string]int{"202": 200})
	time.Sleep(5 * time.Second) // the outage itself
	must(t, servers.Start(t.Context(), stack.Postgres))
	s.books("a1", answers)
	stream, err := s.log.JetStream().Stream(t.Context(), deadStream(s))
	must(t, err)
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Errorf("dead letters after an outage: %v %v", info.State.Msgs, err)
	}
}

// The durable consumer is deleted under load: it is made again and nothing is lost.
func TestCase34ConsumerDeleted(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 600, 1))
	s.startWorker(workerOptions{})
	s.startSweep()
	answers := s.crowd(buyers("a1", 200))
	name := consumer.ConsumerName(s.log.Partition("a1"))
	eventually(t, "the consumer is there and deleted", func() (bool, string) {
		err := s.log.JetStream().DeleteConsumer(t.Context(), s.log.StreamName(), name)
		return err == nil, fmt.Sprint(err)
	})
	answers = append(answers, s.crowd(buyers("a1", 500)[200:])...)
	wantCount(t, answers, map[string]int{"202": 500})
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders`); n != 500 {
		t.Errorf("%d rows for 500 orders", n)
	}
}

// The log is deleted under load: a new one begins, what the gate has pending is
// appended again, and what the ledger has stays.
func TestLogMadeAnew(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 600, 1))
	stop := s.startWorker(workerOptions{})
	s.startSweep()
	answers := s.crowd(buyers("a1", 200))
	s.rest("a1")
	stop()
	waiting := s.crowd(buyers("a1", 300)[200:]) // in the log only, when it goes
	answers = append(answers, waiting...)
	must(t, s.log.JetStream().DeleteStream(t.Context(), s.log.StreamName()))
	s.startWorker(workerOptions{})
	for _, a := range buyers("a1", 400)[300:] {
		got, _ := s.insist(a)
		answers = append(answers, got)
	}
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders where status = 'confirmed'`); n != 400 {
		t.Errorf("%d live orders, want 400", n)
	}
}

// Worker 1 stalls past AckWait and then acks; worker 2 took over and crashed before
// its commit: the order is not lost.
func TestCase20LateAck(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	first := s.post(one("a1", "u"))
	// Worker 1 has the message in hand and does nothing yet; it never committed.
	stop := s.startWorker(workerOptions{ackWait: time.Second})
	s.rest("a1")
	stop()
	exec(t, s, `delete from orders`) // as if the commit of worker 2 had not been: it crashed
	exec(t, s, `update skus set stock = total`)
	exec(t, s, `update partitions set settled_seq = 0`)
	// The late acknowledgement has come: to the log everything is settled.
	s.startWorker(workerOptions{ackWait: time.Second})
	eventually(t, "the order is decided all the same", func() (bool, string) {
		n := queryInt(t, s, `select count(*) from orders where id = $1 and status = 'confirmed'`, first.order)
		return n == 1, fmt.Sprint(n)
	})
	eventually(t, "the gate is open again", func() (bool, string) {
		a, err := s.ledger.Activity(context.Background(), "a1")
		if err != nil {
			return false, err.Error()
		}
		view, err := s.gate.View(context.Background(), "a1")
		return err == nil && view.Ready(a.Epoch), fmt.Sprint(view, err)
	})
	s.books("a1", []answer{first})
}
