package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/consumer"
	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
)

// settling is a settlement that runs beside the test.
type settling struct {
	decisions []consumer.Decision
	err       error
}

func (s *sale) settle(term consumer.Term, d []consumer.Delivery) <-chan settling {
	done := make(chan settling, 1)
	upTo := d[len(d)-1].Seq
	go func() {
		decisions, err := s.ledger.Settle(context.Background(), term, d, upTo)
		done <- settling{decisions, err}
	}()
	return done
}

// already counts the decisions that had been made before.
func already(list []consumer.Decision) (n int) {
	for _, d := range list {
		if d.Already {
			n++
		}
	}
	return n
}

// Point 9. A worker dies before its COMMIT: the server rolls back, nothing of it is
// left, and the successor settles the same messages. Red if any part is written outside
// of the transaction, or acknowledged before it.
func TestPoint09DiesBeforeCommit(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	term := s.take()
	_, deliveries := s.fetch(s.partitionConsumer(time.Hour), 3)
	goOn := s.standstill()
	done := s.settle(term, deliveries)
	s.waiting(1)
	s.exec(`select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and application_name = $1`, "seckill "+s.namespace)
	if r := <-done; r.err == nil {
		t.Fatal("the settlement ended well: nothing was shown")
	}
	goOn()
	s.decided(0, 0)
	settled, err := s.ledger.Settled(t.Context(), s.log.Partition("a1"))
	must(t, err)
	if stock := queryInt(t, s, `select stock::bigint from skus`); stock != 10 || settled != 0 {
		t.Errorf("the dead worker left stock %d and position %d, want 10 and 0", stock, settled)
	}
	s.startWorker(workerOptions{}) // does not wait until the hour of AckWait is over
	s.books("a1", answers)
	s.decided(3, 3)
	s.acknowledged()
}

// Point 10. A worker dies after its COMMIT and before gate and log know: the successor
// finds every order decided, changes nothing, tells the gate and acknowledges. No sweep
// runs. Red if it decides anew, or leaves to others what it finds decided.
func TestPoint10DiesAfterCommit(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	term := s.take()
	_, deliveries := s.fetch(s.partitionConsumer(time.Hour), 3)
	_, err := s.ledger.Settle(t.Context(), term, deliveries, 0)
	must(t, err)
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(3, 3)
	s.acknowledged()
	if n := queryInt(t, s, `select count(*) from orders where term = $1`, term.Number); n != 3 {
		t.Errorf("%d of 3 orders are as the dead worker decided them", n)
	}
}

// Point 12. A redelivery is settled while the first delivery still is: one waits for
// the other and finds its orders decided. Red if it reads before it waits.
func TestPoint12RedeliveryBesideTheFirst(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	answers := s.oneByOne("u1", "u2", "u3")
	term := s.take()
	_, deliveries := s.fetch(s.partitionConsumer(time.Hour), 3)
	goOn := s.standstill()
	first := s.settle(term, deliveries)
	s.waiting(1)
	second := s.settle(term, deliveries)
	s.waiting(2)
	goOn()
	one, two := <-first, <-second
	must(t, errors.Join(one.err, two.err))
	if already(one.decisions) != 0 || already(two.decisions) != 3 {
		t.Errorf("%d and %d of 3 orders were found decided, want none and all", already(one.decisions), already(two.decisions))
	}
	s.decided(3, 3)
	s.startWorker(workerOptions{})
	s.books("a1", answers)
}

// Point 14. The lease is lost in the middle of a transaction: whoever takes over waits
// for its end, begins behind it, and from then on the old one writes nothing. Red if the
// term is not locked by the transaction that compares it.
func TestPoint14LeaseLostInTransaction(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 5))
	answers := s.oneByOne("u1", "u2")
	p := s.log.Partition("a1")
	old := s.take()
	_, deliveries := s.fetch(s.partitionConsumer(time.Hour), 2)
	goOn := s.standstill()
	under := s.settle(old, deliveries[:1])
	s.waiting(1)
	taken := make(chan error, 1)
	var fresh consumer.Term
	var position consumer.Position
	go func() {
		var err error
		fresh, position, err = s.ledger.Take(context.Background(), p, old.Number, "successor")
		taken <- err
	}()
	s.waiting(2)
	goOn()
	must(t, (<-under).err)
	must(t, <-taken)
	if position.Seq != deliveries[0].Seq {
		t.Errorf("the successor begins after %d, the old one had settled to %d", position.Seq, deliveries[0].Seq)
	}
	if r := <-s.settle(old, deliveries); !errors.Is(r.err, consumer.ErrFenced) {
		t.Errorf("the old one settles: %v, want fenced", r.err)
	}
	s.decided(1, 1)
	r := <-s.settle(fresh, deliveries)
	must(t, r.err)
	if already(r.decisions) != 1 {
		t.Errorf("the successor found %d orders decided, want one", already(r.decisions))
	}
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(2, 2)
}

// Point 15. A client is gone, or paused, and its backend holds the locks of an open
// transaction: the server ends it, and the partition goes on. Red without the limit for
// idle transactions.
func TestPoint15GhostHoldsLocks(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	ghost, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = ghost.Rollback(context.Background()) }()
	_, err = ghost.Exec(t.Context(), `select 1 from skus, partitions for update`)
	must(t, err)
	s.startWorker(workerOptions{})
	s.books("a1", answers)
	s.decided(3, 3)
	if _, err := ghost.Exec(t.Context(), `update skus set stock = 0`); err == nil {
		t.Error("the ghost still has its transaction: nothing was shown")
	}
}

// Point 16. COMMIT has happened and its answer is lost: the worker does not acknowledge,
// settles the same messages again and finds its own decisions. Red if it takes the
// missing answer for a rollback or for a success.
func TestPoint16CommitUnanswered(t *testing.T) {
	t.Parallel()
	servers := stacktest.Get(t)
	var once atomic.Bool
	lossy := newLossyProxy(t, servers.Address(stack.Postgres), nil, func(piece []byte) fate {
		if bytes.Contains(piece, []byte("COMMIT\x00")) && once.CompareAndSwap(false, true) {
			return breakConnection
		}
		return forward
	})
	u, err := url.Parse(servers.PostgresURL())
	must(t, err)
	u.Host = lossy.address
	s := newSale(t, saleOptions{postgresURL: u.String()})
	s.open("a1", units("s1", 10, 1))
	answers := s.oneByOne("u1", "u2", "u3")
	registry := prometheus.NewRegistry()
	lossy.on.Store(true)
	s.startWorker(workerOptions{metrics: consumer.NewMetrics(registry)})
	s.books("a1", answers)
	s.decided(3, 3)
	s.acknowledged()
	if n := lossy.lost.Load(); n != 1 {
		t.Errorf("%d answers to COMMIT were lost, want one", n)
	}
	if n := counter(t, registry, "seckill_redelivered_total"); n != 0 {
		t.Errorf("%v redeliveries, want none: the messages stay in hand", n)
	}
}
