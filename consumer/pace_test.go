package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/consumer"
)

// A paced worker settles no faster than it is told. Nothing is delivered again meanwhile, although
// a message waits longer than the log waits for its acknowledgement, and longer than a lease lasts
// without renewal; nobody else becomes the settler. Red if the deliveries are not kept alive.
func TestSettlementKeepsItsPace(t *testing.T) {
	t.Parallel()
	const orders, each = 400, 10 * time.Millisecond
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", orders+1, 1))
	answers := s.crowd(buyers("a1", orders))
	wantCount(t, answers, map[string]int{"202": orders})
	registry := prometheus.NewRegistry()
	began := time.Now()
	stop := s.startWorker(workerOptions{ackWait: time.Second, metrics: consumer.NewMetrics(registry), pace: consumer.NewPace(each)})
	s.rest("a1")
	if took := time.Since(began); took < orders*each-each {
		t.Errorf("%d orders were settled within %s, at one in %s", orders, took, each)
	}
	for _, name := range []string{"seckill_redelivered_total", "seckill_fenced_total"} {
		if n := counter(t, registry, name); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if n := queryInt(t, s, `select max(term) from partitions`); n != 1 {
		t.Errorf("a partition changed hands %d times", n)
	}
	stop()
	// Whoever stops does not wait for his turn, and who comes next may go on.
	wantCount(t, s.crowd([]ask{one("a1", "late")}), map[string]int{"202": 1})
	stop = s.startWorker(workerOptions{instance: "slow", pace: consumer.NewPace(time.Hour)})
	eventually(t, "the slow worker has the partition", func() (bool, string) {
		n := queryInt(t, s, `select max(term) from partitions`)
		return n == 2, fmt.Sprint(n)
	})
	began = time.Now()
	stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	s.startWorker(workerOptions{instance: "quick"})
	s.rest("a1")
	s.books("a1", nil)
}
