package consumer_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// The log's ack is swallowed for some appends: exactly one order, not sold twice.
func TestCase06AcksOfTheLogSwallowed(t *testing.T) {
	t.Parallel()
	second := everyNth(2, swallow)
	lossy := newLossyProxy(t, stacktest.Get(t).Address(stack.NATS), nil, func(piece []byte) fate {
		if bytes.Contains(piece, []byte(`_ORDERS", "seq"`)) || bytes.Contains(piece, []byte(`_ORDERS","seq"`)) {
			return second(piece)
		}
		return forward
	})
	s := newSale(t, saleOptions{natsURL: "nats://" + lossy.address})
	s.open("a1", units("s1", 200, 1))
	lossy.on.Store(true)
	answers := s.crowd(buyers("a1", 250))
	lossy.on.Store(false)
	if lossy.lost.Load() == 0 {
		t.Fatal("no ack was swallowed: nothing was shown")
	}
	for _, a := range answers {
		if a.status == http.StatusAccepted {
			if shown := s.get(a.location, ""); shown.status != http.StatusUnauthorized {
				t.Fatalf("an order is shown to nobody: %v", shown)
			}
			break
		}
	}
	s.startWorker(workerOptions{})
	s.startSweep()
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders where status = 'confirmed'`); n != 200 {
		t.Errorf("%d live orders, want 200", n)
	}
	t.Logf("%d acks swallowed; answers: %v", lossy.lost.Load(), count(answers))
}

// No ack comes at all: the buyer is told that the outcome is unknown, with the order
// id, and learns the truth when he asks again.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	lossy := newLossyProxy(t, stacktest.Get(t).Address(stack.NATS), nil, func([]byte) fate { return swallow })
	s := newSale(t, saleOptions{natsURL: "nats://" + lossy.address})
	s.open("a1", units("s1", 10, 1))
	lossy.on.Store(true)
	first := s.post(one("a1", "u"))
	if first.status != http.StatusServiceUnavailable || first.code != "outcome-unknown" || first.order == "" || first.location == "" || first.header.Get("Retry-After") == "" {
		t.Fatalf("without an ack: %v %s, want 503 outcome-unknown with the order", first, first.body)
	}
	if shown := s.get(first.location, "u"); shown.state != "accepted" {
		t.Errorf("the order is shown as %v, want accepted until it is decided", shown)
	}
	second := s.post(one("a1", "v"))
	if second.code != "overloaded" {
		t.Errorf("the next buyer is told %v, want overloaded before the gate", second)
	}
	lossy.on.Store(false)
	s.startWorker(workerOptions{})
	s.startSweep()
	again, _ := s.insist(one("a1", "u"))
	if again.status != http.StatusOK || again.order != first.order {
		t.Errorf("asking again: %v, want 200 and order %s", again, first.order)
	}
	other, _ := s.insist(one("a1", "v"))
	s.books("a1", []answer{again, other})
	if n := queryInt(t, s, `select count(*) from orders`); n != 2 {
		t.Errorf("%d rows for two buyers", n)
	}
}

// Acks are lost after COMMIT: one redelivery each, then acknowledged, and no growth.
func TestCase25AcksLostAfterCommit(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	lossy := newLossyProxy(t, s.servers.Address(stack.NATS), func(piece []byte) fate {
		if bytes.Contains(piece, []byte("$JS.ACK.")) {
			return swallow
		}
		return forward
	}, nil)
	nc, err := nats.Connect("nats://"+lossy.address, nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
	must(t, err)
	t.Cleanup(nc.Close)
	log, err := admission.OpenLog(t.Context(), nc, admission.LogConfig{Namespace: s.namespace, Partitions: partitions, Replicas: 1})
	must(t, err)
	s.open("a1", units("s1", 100, 1))
	answers := s.crowd(buyers("a1", 50))
	stream, err := s.log.JetStream().Stream(t.Context(), s.log.StreamName())
	must(t, err)
	messages := stream.CachedInfo().State.Msgs
	registry := prometheus.NewRegistry()
	lossy.on.Store(true)
	s.startWorker(workerOptions{log: log, ackWait: time.Second, metrics: consumer.NewMetrics(registry)})
	eventually(t, "the orders are settled, the acks lost", func() (bool, string) {
		n := queryInt(t, s, `select count(*) from orders`)
		return n == 50 && lossy.lost.Load() > 0, fmt.Sprint(n)
	})
	lossy.on.Store(false)
	name := consumer.ConsumerName(s.log.Partition("a1"))
	eventually(t, "everything is acknowledged", func() (bool, string) {
		c, err := stream.Consumer(t.Context(), name)
		if err != nil {
			return false, err.Error()
		}
		info := c.CachedInfo()
		return info.NumAckPending == 0 && info.NumPending == 0, fmt.Sprint(info.NumAckPending, " ", info.NumPending)
	})
	if n := counter(t, registry, "seckill_redelivered_total"); n < 1 || n > float64(messages) {
		t.Errorf("%v redeliveries of %d messages, want at least one and at most one each", n, messages)
	}
	s.books("a1", answers)
}
