package consumer_test

import (
	"fmt"
	"net/http"
	"testing"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// insist asks until the answer is the truth, and returns it with every answer that
// came before.
func (s *sale) insist(a ask) (answer, []answer) {
	s.t.Helper()
	var before []answer
	var last answer
	eventually(s.t, "a true answer for "+a.user, func() (bool, string) {
		last = s.post(a)
		if last.status/100 == 5 {
			before = append(before, last)
			return false, last.String()
		}
		return true, ""
	})
	return last, before
}

// Redis is flushed after 50 sales of 100; the same buyers ask again: 503 until the
// gate is rebuilt, then their own orders. 100 are sold in the end.
func TestCase08RedisFlushed(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{servers: stacktest.New(t)})
	s.open("a1", units("s1", 100, 1))
	s.startWorker(workerOptions{})
	s.startSweep()
	first := s.crowd(buyers("a1", 50))
	wantCount(t, first, map[string]int{"202": 50})
	must(t, s.redis.FlushAll(t.Context()).Err())

	again, refused := s.insist(one("a1", "buyer-0"))
	if len(refused) == 0 {
		t.Error("nobody was refused while the gate was gone: nothing was shown")
	}
	for _, a := range refused {
		if a.code != "not-ready" || a.header.Get("Retry-After") == "" {
			t.Fatalf("while the gate was gone: %v, want 503 not-ready with Retry-After", a)
		}
	}
	if again.status != http.StatusOK || again.order != first[0].order {
		t.Errorf("the buyer asks again: %v, want 200 and his own order %s", again, first[0].order)
	}
	rest := s.crowd(buyers("a1", 150))
	wantCount(t, rest, map[string]int{"200": 50, "202": 50, "409 sold-out": 50})
	s.books("a1", append(first, rest...))
}

// SCRIPT FLUSH goes unnoticed; after a restart of Redis there is no 5xx but
// not-ready, until the gate is rebuilt.
func TestCase27ScriptsFlushedRedisRestarted(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	s := newSale(t, saleOptions{servers: servers})
	s.open("a1", units("s1", 1000, 1))
	s.startWorker(workerOptions{})
	s.startSweep()
	var answers []answer
	for round := range 5 {
		must(t, s.redis.ScriptFlush(t.Context()).Err())
		part := buyers("a1", 100)
		for i := range part {
			part[i].user = fmt.Sprint("flush-", round, "-", i)
		}
		got := s.crowd(part)
		wantCount(t, got, map[string]int{"202": 100})
		answers = append(answers, got...)
	}
	must(t, servers.Restart(t.Context(), stack.Redis))
	last, refused := s.insist(one("a1", "after"))
	if last.status != http.StatusAccepted || len(refused) == 0 {
		t.Errorf("after the restart: %v, refused %d times before; want 202, and a rebuild before it", last, len(refused))
	}
	for _, a := range refused {
		// The first may find the connection cut under its script.
		if a.code != "not-ready" && a.code != "outcome-unknown" {
			t.Errorf("during the rebuild: %v, want not-ready", a)
		}
	}
	s.books("a1", append(answers, last))
	a, err := s.ledger.Activity(t.Context(), "a1")
	must(t, err)
	if a.SKUs[0].Stock != 499 {
		t.Errorf("%d units left, want 499", a.SKUs[0].Stock)
	}
}

// 5 % of the gate's replies are lost: a retry tells the same order.
func TestCase07RepliesOfTheGateLost(t *testing.T) {
	t.Parallel()
	servers := stacktest.Get(t)
	lossy := newLossyProxy(t, servers.Address(stack.Redis), nil, everyNth(20, breakConnection))
	s := newSale(t, saleOptions{redisURL: "redis://" + lossy.address})
	s.open("a1", units("s1", 300, 1))
	s.startWorker(workerOptions{})
	s.startSweep()
	lossy.on.Store(true)
	var answers []answer
	told := map[string]string{}
	for i := range 600 {
		user := fmt.Sprint("u", i%300)
		a, _ := s.insist(one("a1", user))
		answers = append(answers, a)
		if before := told[user]; before != "" && before != a.order {
			t.Errorf("%s was told order %s and then %s", user, before, a.order)
		}
		told[user] = a.order
	}
	lossy.on.Store(false)
	if lossy.lost.Load() == 0 {
		t.Fatal("no reply was lost: nothing was shown")
	}
	t.Logf("%d replies lost", lossy.lost.Load())
	s.books("a1", answers)
	if n := queryInt(t, s, `select count(*) from orders`); n != 300 {
		t.Errorf("%d rows for 300 buyers", n)
	}
}
