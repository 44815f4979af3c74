package consumer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// copyLog keeps the log's data as they are now, and goes on; lose kills the server and
// brings it back with those older data, as after a power cut without sync.
func (s *sale) copyLog() (lose func()) {
	s.t.Helper()
	data, kept := filepath.Join(s.servers.Dir(), stack.NATS), filepath.Join(s.t.TempDir(), "kept")
	must(s.t, s.servers.Stop(stack.NATS))
	must(s.t, os.CopyFS(kept, os.DirFS(data)))
	must(s.t, s.servers.Start(s.t.Context(), stack.NATS))
	s.logAnswers()
	return func() {
		s.t.Helper()
		must(s.t, s.servers.Kill(stack.NATS))
		must(s.t, os.RemoveAll(data))
		must(s.t, os.CopyFS(data, os.DirFS(kept)))
		must(s.t, s.servers.Start(s.t.Context(), stack.NATS))
		s.logAnswers()
	}
}

func (s *sale) logAnswers() {
	s.t.Helper()
	eventually(s.t, "the log answers", func() (bool, string) {
		_, err := s.log.LastSeq(s.t.Context(), "a1")
		return err == nil, fmt.Sprint(err)
	})
}

// Point 20. The log loses its tail: orders that were answered with 202 are in it no
// more. Their reservations are still pending, and are appended again. Red if a
// reservation is forgotten before the ledger has decided.
func TestPoint20TailLost(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{servers: stacktest.New(t)})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	lose := s.copyLog()
	answers = append(answers, s.oneByOne("v1", "v2", "v3")...)
	lose()
	if last := s.lastSeq(); last != 3 {
		t.Fatalf("the log ends with message %d, want 3: nothing was shown", last)
	}
	s.startWorker(workerOptions{})
	s.startSweep()
	s.books("a1", answers)
	s.decided(6, 6)
	for i, a := range answers {
		if n := s.copies(a.order); n != 1 {
			t.Errorf("the log has order %d %d times, want once", i, n)
		}
	}
}

// Point 22. The lost tail had been settled: new orders get the sequence numbers of
// decided ones, below the ledger's position. Red if a number stands for an order: the
// new ones would count as settled and wait for ever.
func TestPoint22NumbersUsedAgain(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{servers: stacktest.New(t)})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2")
	lose := s.copyLog()
	stop := s.startWorker(workerOptions{})
	answers = append(answers, s.oneByOne("v1", "v2", "v3", "v4")...)
	s.books("a1", answers)
	stop()
	lose()
	answers = append(answers, s.oneByOne("w1", "w2")...)
	if last := s.lastSeq(); last != 4 {
		t.Fatalf("the log ends with message %d, want 4, below the settled 6: nothing was shown", last)
	}
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(8, 8)
	if n := queryInt(t, s, `select count(*) from (select log_seq from orders group by log_seq having count(*) > 1) x`); n != 2 {
		t.Errorf("%d numbers stand for two orders, want 2: nothing was shown", n)
	}
}

// Point 24. The log is deleted and begins anew: its numbers are far below the ledger's
// position. What it has is settled all the same, by itself: there is no sweep here. Red
// if the position of the old log counts for the new one.
func TestPoint24NewLogIsSettledFromItsBeginning(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 20, 1))
	stop := s.startWorker(workerOptions{})
	answers := s.oneByOne("u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8")
	s.rest("a1")
	stop()
	must(t, s.log.JetStream().DeleteStream(t.Context(), s.log.StreamName()))
	_, err := s.log.Stream(t.Context())
	must(t, err)
	answers = append(answers, s.oneByOne("v1", "v2")...)
	if last := s.lastSeq(); last != 2 {
		t.Fatalf("the new log ends with message %d, want 2, below the settled 8: nothing was shown", last)
	}
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(10, 10)
}
