package consumer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
	"seckill/consumer"
)

// The tests TestPoint01… stage one crash or race each, at the place where it hurts;
// POINTS.md is their table. A process that dies is one whose next step is not done.

// node is another node for buyers on the same stores. It has seen nothing of what
// the first one did. die ends it with everything it has in hand.
func (s *sale) node(c admission.Config) (n *sale, die func()) {
	s.t.Helper()
	c.Logger = s.logger
	other := *s
	other.service = admission.NewService(s.gate, s.log, s.ledger, c)
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	other.http = httptest.NewServer(admission.NewHandler(other.service, admission.HTTPConfig{
		Identify: admission.HeaderIdentity(trusted), Timeout: 15 * time.Second, Version: "test", Logger: s.logger, PaymentSecrets: [][]byte{paymentKey},
	}))
	die = func() {
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		_ = other.service.Close(dead)
		other.http.Close()
	}
	s.t.Cleanup(die)
	return &other, die
}

// directLog reaches the log beside whatever the sale's own connection passes through.
func (s *sale) directLog() *admission.Log {
	s.t.Helper()
	nc, err := nats.Connect(s.servers.NATSURL(), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
	must(s.t, err)
	s.t.Cleanup(nc.Close)
	log, err := admission.OpenLog(s.t.Context(), nc, admission.LogConfig{Namespace: s.namespace, Partitions: partitions, Replicas: 1})
	must(s.t, err)
	return log
}

// standstill makes every settlement stand still between its reads and its COMMIT,
// until goOn is called. Nobody else is held up by that.
func (s *sale) standstill() (goOn func()) {
	s.t.Helper()
	s.exec(`create function stand() returns trigger language plpgsql as $$
		begin perform pg_advisory_xact_lock_shared(hashtext(current_schema)); return new; end $$`)
	s.exec(`create trigger stand before insert on orders for each row execute function stand()`)
	c, err := s.pool.Acquire(s.t.Context())
	must(s.t, err)
	_, err = c.Exec(s.t.Context(), `select pg_advisory_lock(hashtext(current_schema))`)
	must(s.t, err)
	done := false
	goOn = func() {
		if !done {
			done = true
			_, _ = c.Exec(context.Background(), `select pg_advisory_unlock(hashtext(current_schema))`)
			c.Release()
		}
	}
	s.t.Cleanup(goOn)
	return goOn
}

// waiting waits until n transactions of this sale wait for a lock.
func (s *sale) waiting(n int64) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(n, " transactions wait"), func() (bool, string) {
		got := queryInt(s.t, s, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = $1`, "seckill "+s.namespace)
		return got == n, fmt.Sprint(got)
	})
}

// partitionConsumer is the durable consumer of a1's partition, made as a worker makes it.
func (s *sale) partitionConsumer(ackWait time.Duration) jetstream.Consumer {
	s.t.Helper()
	p := s.log.Partition("a1")
	c, err := s.log.JetStream().CreateOrUpdateConsumer(s.t.Context(), s.log.StreamName(), jetstream.ConsumerConfig{
		Durable: consumer.ConsumerName(p), Description: fmt.Sprint("settles partition ", p), FilterSubject: s.log.Filter(p),
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 4000,
	})
	must(s.t, err)
	return c
}

// fetch takes n messages, as a worker does that will die with them in hand.
func (s *sale) fetch(c jetstream.Consumer, n int) ([]jetstream.Msg, []consumer.Delivery) {
	s.t.Helper()
	var messages []jetstream.Msg
	var deliveries []consumer.Delivery
	eventually(s.t, fmt.Sprint(n, " messages are delivered"), func() (bool, string) {
		batch, err := c.Fetch(n-len(messages), jetstream.FetchMaxWait(2*time.Second))
		must(s.t, err)
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			must(s.t, err)
			b, err := admission.DecodeBatch(m.Data())
			must(s.t, err)
			messages = append(messages, m)
			deliveries = append(deliveries, consumer.Delivery{Batch: b, Seq: meta.Sequence.Stream, Deliveries: meta.NumDelivered})
		}
		return len(messages) == n, fmt.Sprint(len(messages), " ", batch.Error())
	})
	return messages, deliveries
}

// oneByOne lets buyers ask one after the other: one log message each.
func (s *sale) oneByOne(users ...string) []answer {
	s.t.Helper()
	var answers []answer
	for _, u := range users {
		answers = append(answers, s.post(one("a1", u)))
	}
	wantCount(s.t, answers, map[string]int{"202": len(users)})
	return answers
}

// sellsAgain orders a unit that has just come back, once the node has forgotten that
// the SKU was sold out.
func (s *sale) sellsAgain(user string) []answer {
	s.t.Helper()
	var a answer
	eventually(s.t, "the unit is sellable again", func() (bool, string) {
		a = s.post(one("a1", user))
		return a.status != http.StatusConflict, fmt.Sprint(a)
	})
	wantCount(s.t, []answer{a}, map[string]int{"202": 1})
	return []answer{a}
}

// acknowledged waits until the log has an acknowledgement for all of a1's partition.
func (s *sale) acknowledged() {
	s.t.Helper()
	eventually(s.t, "everything is acknowledged", func() (bool, string) {
		c, err := s.log.JetStream().Consumer(s.t.Context(), s.log.StreamName(), consumer.ConsumerName(s.log.Partition("a1")))
		if err != nil {
			return false, err.Error()
		}
		i := c.CachedInfo()
		return i.NumAckPending == 0 && i.NumPending == 0 && i.AckFloor.Stream == s.lastSeq(), fmt.Sprintf("%+v", i.AckFloor)
	})
}

// decided wants exactly so many rows, of which so many are confirmed.
func (s *sale) decided(rows, confirmed int64) {
	s.t.Helper()
	gotRows, gotConfirmed := queryInt(s.t, s, `select count(*) from orders`), queryInt(s.t, s, `select count(*) from orders where status = 'confirmed'`)
	if gotRows != rows || gotConfirmed != confirmed {
		s.t.Errorf("the ledger has %d rows, %d of them confirmed; want %d and %d", gotRows, gotConfirmed, rows, confirmed)
	}
}

// batchOf puts orders into one log message, as a node does after the gate's yes.
func batchOf(epoch int64, orders ...admission.Order) admission.Batch {
	b := admission.NewBatch("a1", epoch)
	b.Orders = orders
	return b
}

// append appends a batch and returns its sequence number.
func (s *sale) append(b admission.Batch) uint64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	seq, err := s.log.Append(ctx, b)
	must(s.t, err)
	return seq
}

// copies counts the log messages of a1 that carry the order.
func (s *sale) copies(id string) int {
	s.t.Helper()
	n := 0
	for _, b := range s.messages() {
		for _, o := range b.Orders {
			if o.ID == id {
				n++
			}
		}
	}
	return n
}

// copyGate keeps the gate of a1 as it is now; restore brings the older state back, on
// the same server, so that only the books can tell.
func (s *sale) copyGate() (restore func()) {
	s.t.Helper()
	old := map[string]string{}
	var keys []string
	for _, what := range []string{"gate", "stock", "orders", "buyers", "keys", "pending"} {
		key := s.gateKey("a1", what)
		keys = append(keys, key)
		if data, err := s.redis.Dump(s.t.Context(), key).Result(); err == nil {
			old[key] = data
		}
	}
	return func() {
		s.t.Helper()
		must(s.t, s.redis.Del(s.t.Context(), keys...).Err())
		for key, data := range old {
			must(s.t, s.redis.Restore(s.t.Context(), key, 0, data).Err())
		}
	}
}

// rebuiltSince waits until the gate of a1 is open under a newer epoch.
func (s *sale) rebuiltSince(epoch int64) {
	s.t.Helper()
	eventually(s.t, "the gate is rebuilt", func() (bool, string) {
		view, err := s.gate.View(s.t.Context(), "a1")
		return err == nil && view.Epoch > epoch && view.Ready(s.epoch()), fmt.Sprint(view, err)
	})
}

func (s *sale) sweep() *admission.Sweep {
	return &admission.Sweep{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: s.logger}
}

// limitLog changes what the log takes.
func (s *sale) limitLog(change func(*jetstream.StreamConfig, jetstream.StreamState)) {
	s.t.Helper()
	stream, err := s.log.JetStream().Stream(s.t.Context(), s.log.StreamName())
	must(s.t, err)
	info := stream.CachedInfo()
	change(&info.Config, info.State)
	_, err = s.log.JetStream().UpdateStream(s.t.Context(), info.Config)
	must(s.t, err)
}
