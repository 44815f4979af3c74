package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"seckill/admission"
	"seckill/consumer"
)

// take gives the test the right to settle the partition of a1.
func (s *sale) take() consumer.Term {
	s.t.Helper()
	p := s.log.Partition("a1")
	before, err := s.ledger.TermOf(s.t.Context(), p)
	must(s.t, err)
	term, _, err := s.ledger.Take(s.t.Context(), p, before, "test")
	must(s.t, err)
	return term
}

// nextEpoch begins a rebuild, as far as the ledger knows.
func (s *sale) nextEpoch() (int64, error) {
	s.t.Helper()
	a, err := s.ledger.Activity(s.t.Context(), "a1")
	must(s.t, err)
	return s.ledger.NextEpoch(s.t.Context(), "a1", a.LastEpoch)
}

func delivery(epoch int64, seq uint64, orders ...admission.Order) []consumer.Delivery {
	b := admission.NewBatch("a1", epoch)
	b.Orders = append(b.Orders, orders...)
	return []consumer.Delivery{{Batch: b, Seq: seq}}
}

// A snapshot waits for a settlement that has read the old epoch, and sees what it
// decided: otherwise the new gate would sell its units again.
func TestRule01SnapshotWaitsForSettlement(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	term, e := s.take(), s.epoch()
	// The settlement stands still between its reads and its commit.
	exec(t, s, `create function stand() returns trigger language plpgsql as $$
		begin perform pg_advisory_xact_lock_shared(hashtext(current_schema)); return new; end $$`)
	exec(t, s, `create trigger stand before insert on orders for each row execute function stand()`)
	barrier, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = barrier.Rollback(context.Background()) }()
	_, err = barrier.Exec(t.Context(), `select pg_advisory_xact_lock(hashtext(current_schema))`)
	must(t, err)
	o := order("u")
	settled := make(chan error, 1)
	go func() {
		_, err := s.ledger.Settle(context.Background(), term, delivery(e, 1, o), 1)
		settled <- err
	}()
	waiting := func(n int64) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " transactions wait"), func() (bool, string) {
			got := queryInt(t, s, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = $1`, "seckill "+s.namespace)
			return got == n, fmt.Sprint(got)
		})
	}
	waiting(1)
	n, err := s.nextEpoch()
	must(t, err)
	type result struct {
		snapshot admission.Snapshot
		err      error
	}
	taken := make(chan result, 1)
	go func() {
		snapshot, err := s.ledger.Snapshot(context.Background(), "a1", n)
		taken <- result{snapshot, err}
	}()
	var early result
	select {
	case early = <-taken:
		t.Error("the snapshot did not wait for the settlement under way")
	case <-wait(func() { waiting(2) }):
	}
	must(t, barrier.Rollback(t.Context()))
	must(t, <-settled)
	if early.snapshot.Activity.ID == "" {
		early = <-taken
	}
	must(t, early.err)
	if len(early.snapshot.Rows) != 1 || early.snapshot.Rows[0].ID != o.ID {
		t.Errorf("the snapshot has %d orders, want the one that was being settled", len(early.snapshot.Rows))
	}
}

// wait runs f beside the caller and closes the channel when it is done.
func wait(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	return done
}

// Epochs never repeat and never go back, also when the ledger has lost the last one.
func TestRule03EpochsOnlyRise(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 10, 1))
	last := s.epoch()
	for range 5 {
		n, err := s.nextEpoch()
		must(t, err)
		if n <= last {
			t.Fatalf("epoch %d after %d", n, last)
		}
		if _, err := s.ledger.NextEpoch(t.Context(), "a1", last); !errors.Is(err, admission.ErrSuperseded) {
			t.Fatalf("a second rebuild begun on epoch %d: %v, want superseded", last, err)
		}
		last = n
	}
	exec(t, s, `update activities set last_epoch = 0`) // an older copy of the ledger
	n, err := s.nextEpoch()
	must(t, err)
	if n <= last {
		t.Errorf("after a loss the ledger minted %d, not above %d", n, last)
	}
}

// Settle: rows that exist are already decided; an order of an older epoch without a
// row is stale; a newer one counts on its merits; then limit, then stock.
func TestRule10And11Decide(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	term, e := s.take(), s.epoch()
	first, again, stale, newer, none := order("u"), order("u"), order("old"), order("v"), order("w")
	unknown := order("x")
	unknown.SKU = "nothing"
	oldUnknown := order("y")
	oldUnknown.SKU = "nothing"
	settle := func(epoch int64, seq uint64, o admission.Order) consumer.Decision {
		t.Helper()
		d, err := s.ledger.Settle(t.Context(), term, delivery(epoch, seq, o), seq)
		must(t, err)
		return d[0]
	}
	for i, c := range []struct {
		epoch   int64
		order   admission.Order
		status  admission.Status
		reason  string
		already bool
	}{
		{e, first, admission.Confirmed, "", false},
		{e, first, admission.Confirmed, "", true},
		{e - 1, first, admission.Confirmed, "", true},
		{e, again, admission.Rejected, admission.ReasonLimit, false},
		{e - 1, stale, admission.Rejected, admission.ReasonStale, false},
		{e, stale, admission.Rejected, admission.ReasonStale, true},
		{e + 1, newer, admission.Confirmed, "", false},
		{e, none, admission.Rejected, admission.ReasonSoldOut, false},
		{e - 1, oldUnknown, admission.Rejected, admission.ReasonStale, false},
		{e, unknown, admission.Held, "unknown activity or SKU", false},
	} {
		d := settle(c.epoch, uint64(i+1), c.order)
		if d.Status != c.status || d.Reason != c.reason || d.Already != c.already {
			t.Errorf("step %d: %s %s already=%v, want %s %s already=%v", i, d.Status, d.Reason, d.Already, c.status, c.reason, c.already)
		}
		if d.Epoch != e {
			t.Errorf("step %d: read epoch %d, want %d", i, d.Epoch, e)
		}
	}
	if n := queryInt(t, s, `select stock::bigint from skus`); n != 0 {
		t.Errorf("%d units left, want none", n)
	}
}

// A snapshot is refused unless its number is the newest.
func TestRule23OnlyTheNewestTakesTheSnapshot(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	e := s.epoch()
	older, err := s.nextEpoch()
	must(t, err)
	newest, err := s.nextEpoch()
	must(t, err)
	if _, err := s.ledger.Snapshot(t.Context(), "a1", older); !errors.Is(err, admission.ErrSuperseded) {
		t.Errorf("snapshot of a stale rebuilder: %v, want superseded", err)
	}
	if got := s.epoch(); got != e {
		t.Errorf("a refused snapshot moved the epoch from %d to %d", e, got)
	}
	_, err = s.ledger.Snapshot(t.Context(), "a1", newest)
	must(t, err)
}

// The term is read before the lease is acquired: a holder that slept through a
// takeover finds another term and can neither take nor settle.
func TestRule27StaleHolderIsFenced(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1))
	p := s.log.Partition("a1")
	read, err := s.ledger.TermOf(t.Context(), p)
	must(t, err)
	// It acquires the lease and is paused; the lease runs out; another takes over.
	rightful := s.take()
	if _, _, err := s.ledger.Take(t.Context(), p, read, "sleeper"); !errors.Is(err, consumer.ErrFenced) {
		t.Errorf("taking with the term of before: %v, want fenced", err)
	}
	for _, number := range []int64{read, rightful.Number - 1, rightful.Number + 1} {
		stale := consumer.Term{Partition: p, Number: number}
		if _, err := s.ledger.Settle(t.Context(), stale, delivery(s.epoch(), 1, order("u")), 1); !errors.Is(err, consumer.ErrFenced) {
			t.Errorf("settling under term %d, the present one is %d: %v, want fenced", number, rightful.Number, err)
		}
	}
	_, err = s.ledger.Settle(t.Context(), rightful, delivery(s.epoch(), 1, order("u")), 1)
	must(t, err)
}

// The last word on stock is the ledger's own. Units that went between the reads of a
// settlement and its writes, which the row lock excludes, are not taken: nothing is
// written. And no statement of anybody brings the stock below none, or above the total.
func TestStockGuardIsTheLastWord(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	s.exec(`create function vanish() returns trigger language plpgsql as $$
		begin update skus set stock = 0; return new; end $$`)
	s.exec(`create trigger vanish before insert on orders for each row execute function vanish()`)
	_, err := s.ledger.Settle(t.Context(), s.take(), delivery(s.epoch(), 1, order("u")), 1)
	if err == nil || !strings.Contains(err.Error(), "the guard stopped 1 of 1 SKUs") {
		t.Errorf("settled with no unit left: %v", err)
	}
	s.decided(0, 0)
	for _, stock := range []string{"-1", "total + 1"} {
		if _, err := s.pool.Exec(t.Context(), `update skus set stock = `+stock); err == nil {
			t.Errorf("the ledger took %s for a stock", stock)
		}
	}
}
