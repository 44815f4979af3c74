package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// gateKeys are the keys of the gate of a1 that are there, with what is left of their
// time; -1: for ever.
func (s *sale) gateKeys() map[string]time.Duration {
	s.t.Helper()
	keys, err := s.redis.Keys(s.t.Context(), s.namespace+":{a1/0}:*").Result()
	must(s.t, err)
	left := map[string]time.Duration{}
	for _, key := range keys {
		if left[key], err = s.redis.PTTL(s.t.Context(), key).Result(); err != nil {
			s.t.Fatal(err)
		}
	}
	return left
}

// The gate of a closed sale ends a week after all of it is decided. Until then buyers
// are told their orders, afterwards the ledger tells, and units that come back then
// have no gate to go to.
func TestClosedGateHasAnEnd(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	keyed := one("a1", "keyed")
	keyed.key = "k"
	bought := s.crowd([]ask{keyed, one("a1", "plain")})
	wantCount(t, bought, map[string]int{"202": 2})
	s.moves(admission.Closed)
	sweep := &admission.Sweep{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: s.logger}
	must(t, sweep.Round(t.Context()))
	for key, left := range s.gateKeys() {
		if left >= 0 {
			t.Errorf("%s ends in %v, while orders are pending", key, left)
		}
	}
	s.startWorker(workerOptions{})
	s.books("a1", bought)
	must(t, sweep.Round(t.Context()))
	for key, left := range s.gateKeys() {
		if left < 6*24*time.Hour || left > 7*24*time.Hour {
			t.Errorf("%s ends in %v, want a week", key, left)
		}
	}
	again := s.crowd([]ask{keyed, one("a1", "plain")})
	wantCount(t, again, map[string]int{"200": 2})

	for key := range s.gateKeys() { // the week is over
		must(t, s.redis.Del(t.Context(), key).Err())
	}
	wantCount(t, []answer{s.post(one("a1", "late")), s.get(bought[0].location, "keyed")}, map[string]int{"410 ended": 1, "200": 1})
	exec(t, s, `update orders set status = 'cancelled', release_epoch = epoch where key = 'k'`)
	exec(t, s, `update skus set stock = stock + 1`)
	release := &consumer.Release{Ledger: s.ledger, Gate: s.gate, Logger: s.logger}
	must(t, release.Round(t.Context()))
	if n := queryInt(t, s, `select count(*) from orders where release_epoch is not null`); n != 0 {
		t.Errorf("%d orders wait for a gate that is gone for good", n)
	}
	if r := s.audit("a1", 30*time.Second); !r.OK || !r.AtRest {
		t.Errorf("audit after the end: %+v", r)
	}
}

// An order costs at most so many bytes of Redis until its activity closes, a refused
// buyer none.
func TestRedisBytesPerOrder(t *testing.T) {
	t.Parallel()
	const n = 20_480
	for _, c := range []struct {
		name             string
		user, key        func(i int) string
		pending, settled int64 // at most
	}{
		{"short id", func(i int) string { return fmt.Sprintf("buyer-%07d", i) }, func(int) string { return "" }, 370, 240},
		{"UUID and key", func(int) string { return admission.NewID() }, func(int) string { return admission.NewID() }, 600, 470},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSale(t, saleOptions{})
			s.open("a1", units("s1", n, 1))
			before := s.gateBytes()
			reserve := func(from int, kind admission.VerdictKind) (outcomes []admission.Outcome) {
				for i := from; i < from+n; i += admission.MaxBatchOrders {
					batch := make([]admission.Order, admission.MaxBatchOrders)
					for j := range batch {
						batch[j] = order(c.user(i + j))
						batch[j].Key = c.key(i + j)
						outcomes = append(outcomes, admission.Outcome{ID: batch[j].ID, Live: true})
					}
					verdicts, err := s.gate.Reserve(t.Context(), "a1", s.epoch(), n+1, batch)
					must(t, err)
					for _, v := range verdicts {
						if v.Kind != kind {
							t.Fatalf("verdict %d, want %d", v.Kind, kind)
						}
					}
				}
				return outcomes
			}
			outcomes := reserve(0, admission.VerdictReserved)
			pending := s.gateBytes()
			reserve(n, admission.VerdictSoldOut)
			if after := s.gateBytes(); after != pending {
				t.Errorf("%d refused buyers cost %d bytes", n, after-pending)
			}
			must(t, s.gate.Settle(t.Context(), "a1", s.epoch(), outcomes))
			p, q := (pending-before)/n, (s.gateBytes()-before)/n
			t.Logf("%d bytes an order while pending, %d once settled", p, q)
			if p > c.pending || q > c.settled {
				t.Errorf("%d and %d bytes an order, want at most %d and %d", p, q, c.pending, c.settled)
			}
		})
	}
}

// gateBytes is what the gate of a1 occupies, all of its fields counted.
func (s *sale) gateBytes() (sum int64) {
	s.t.Helper()
	for key := range s.gateKeys() {
		used, err := s.redis.MemoryUsage(s.t.Context(), key, 0).Result()
		must(s.t, err)
		sum += used
	}
	return sum
}
