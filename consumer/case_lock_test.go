package consumer_test

import (
	"fmt"
	"testing"
)

// Every lease is granted to everybody: each worker keeps its leases in a namespace
// of its own, so all of them settle all partitions at once. The ledger alone keeps
// stock and limit.
func TestCase11EveryLeaseToEverybody(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"etcd", "redis"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			everyLeaseToEverybody(t, backend)
		})
	}
}

func everyLeaseToEverybody(t *testing.T, backend string) {
	s := newSale(t, saleOptions{})
	skus := []string{"s1", "s2"}
	s.open("a1", units("s1", 300, 2), units("s2", 100, 1))
	for i := range 2 {
		s.startWorker(workerOptions{instance: fmt.Sprint("worker", i), backend: backend, locks: fmt.Sprintf("%s_%d", s.namespace[:20], i)})
	}
	s.startSweep() // an outcome that a fenced worker did not tell
	eventually(t, "both have taken the partition", func() (bool, string) {
		terms := queryInt(t, s, `select coalesce(max(term), 0) from partitions where partition = $1`, s.log.Partition("a1"))
		return terms >= 2, fmt.Sprint(terms, " terms")
	})
	var asks []ask
	for i := range 600 {
		for _, sku := range skus {
			asks = append(asks, ask{activity: "a1", user: fmt.Sprint("u", i%300), body: fmt.Sprintf(`{"sku":%q}`, sku)})
		}
	}
	answers := s.crowd(asks)
	s.books("a1", answers)
	sold := queryInt(t, s, `select sum(quantity)::bigint from orders where status = 'confirmed'`)
	if sold != 400 {
		t.Errorf("%d units sold, want 400", sold)
	}
}
