package consumer_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// copyLedger keeps the ledger as it is now; fallBack brings the older state back at
// once, as when a standby that was behind is promoted.
func (s *sale) copyLedger() (fallBack func()) {
	s.t.Helper()
	tables := []string{"activities", "skus", "orders", "partitions"}
	for _, table := range tables {
		s.exec(`create table old_` + table + ` as table ` + table)
	}
	return func() {
		s.t.Helper()
		must(s.t, pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
			var batch pgx.Batch
			for _, table := range []string{"orders", "skus", "activities", "partitions"} {
				batch.Queue(`delete from ` + table)
			}
			for _, table := range tables {
				batch.Queue(`insert into ` + table + ` select * from old_` + table)
			}
			return tx.SendBatch(s.t.Context(), &batch).Close()
		}))
	}
}

// loseLedger sells six of six units, of which the copy of the ledger has three, and has
// one of these cancelled: the gate has a unit again that the copy knows as sold.
func (s *sale) loseLedger() (sold []answer, fallBack func()) {
	s.t.Helper()
	sold = s.oneByOne("u1", "u2", "u3")
	s.rest("a1")
	fallBack = s.copyLedger()
	sold = append(sold, s.oneByOne("v1", "v2", "v3")...)
	s.rest("a1")
	if got := s.cancel(sold[0].location, "u1"); got.state != "cancelled" {
		s.t.Fatalf("the cancellation: %s %s", got, got.body)
	}
	if stock := s.stock(); stock != 1 {
		s.t.Fatalf("the gate has %d units, want the one that the older ledger knows as sold", stock)
	}
	s.acknowledged()
	return sold, fallBack
}

// fellBack wants a ledger that fell back to have settled again what it had lost, and to
// believe no gate that knows more than it does: the unit of the cancelled order, which
// is live again, is sold to nobody.
func (s *sale) fellBack(lost int64, sold []answer) {
	s.t.Helper()
	s.rest("a1")
	if s.epoch() == lost {
		s.t.Error("the ledger still believes the gate of the time that it has lost")
	} else {
		s.rebuiltSince(lost)
	}
	late, _ := s.insist(one("a1", "w"))
	if late.code != "sold-out" {
		s.t.Errorf("a buyer was told %s, want sold out: the ledger has no unit", late)
	}
	s.books("a1", append(sold, late))
}

// Rule 26. The ledger falls back to an older state while nobody settles: the next
// settler sees that the log has acknowledgements beyond its position.
func TestRule26LedgerFellBack(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 6, 1))
	stop := s.startWorker(workerOptions{})
	sold, fallBack := s.loseLedger()
	lost := s.epoch()
	stop()
	fallBack()
	s.startWorker(workerOptions{})
	s.fellBack(lost, sold)
	s.decided(6, 6)
}

// Rule 26. The same under a settler at work, which knows what it has committed: it must
// not go on from there, or all between is lost.
func TestRule26LedgerFellBackUnderASettler(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 6, 1), units("s2", 1, 1))
	s.startWorker(workerOptions{})
	sold, fallBack := s.loseLedger()
	lost := s.epoch()
	fallBack()
	next := s.post(ask{activity: "a1", user: "x", body: `{"sku":"s2"}`}) // what the settler writes next
	wantCount(t, []answer{next}, map[string]int{"202": 1})
	s.fellBack(lost, append(sold, next))
	s.decided(7, 7)
}
