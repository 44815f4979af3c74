package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// The lock store is away for longer than the lease lives: admission goes on,
// settlement stops at the lease's deadline and resumes by itself.
func TestLockStoreAway(t *testing.T) {
	t.Parallel()
	servers := stacktest.New(t)
	s := newSale(t, saleOptions{servers: servers})
	s.open("a1", units("s1", 100_000, 1)) // more than can be sold until the lease ends
	s.startWorker(workerOptions{})
	s.startSweep()
	answers := s.crowd(buyers("a1", 20))
	s.rest("a1")
	must(t, servers.Kill(stack.Etcd))
	// One order a moment, until settlement has stopped: the newest stays undecided.
	eventually(t, "settlement stops at the lease's deadline", func() (bool, string) {
		a := s.post(one("a1", fmt.Sprint("away-", len(answers))))
		answers = append(answers, a)
		if a.status/100 == 5 { // the machine is too busy; admission that has ended ends the test
			return false, "with the lock store away: " + a.String()
		}
		if a.status != 202 {
			t.Fatalf("with the lock store away: %v, want admission to go on", a)
		}
		undecided := s.get(a.location+"?wait=1s", fmt.Sprint("away-", len(answers)-1))
		return undecided.state == "accepted", undecided.state
	})
	must(t, servers.Start(t.Context(), stack.Etcd))
	began := time.Now()
	s.books("a1", answers)
	t.Logf("settled %v after the lock store was back", time.Since(began).Round(time.Millisecond))
}
