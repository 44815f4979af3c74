package consumer_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// rest waits until nothing of the activity is undecided: no pending reservation at
// the gate, and the log settled to its end.
func (s *sale) rest(activity string) {
	s.t.Helper()
	eventually(s.t, "activity "+activity+" is at rest", func() (bool, string) {
		view, err := s.gate.View(s.t.Context(), activity)
		if err != nil {
			return false, err.Error()
		}
		last, err := s.log.LastSeq(s.t.Context(), activity)
		if err != nil {
			return false, err.Error()
		}
		settled, err := s.ledger.Settled(s.t.Context(), s.log.Partition(activity))
		if err != nil {
			return false, err.Error()
		}
		return view.Pending == 0 && settled >= last, fmt.Sprintf("pending %d, settled %d of %d", view.Pending, settled, last)
	})
}

// books waits for rest and checks the laws by the stores alone: stock and limit
// kept, books equal, nothing stranded, every order answered with 202 decided live.
func (s *sale) books(activity string, answers []answer) {
	s.t.Helper()
	s.rest(activity)
	ctx := s.t.Context()
	a, err := s.ledger.Activity(ctx, activity)
	must(s.t, err)
	view, err := s.gate.View(ctx, activity)
	must(s.t, err)
	sold := map[string]int64{}
	rows, err := s.pool.Query(ctx, `select sku_id, sum(quantity)::bigint from orders where activity_id = $1
		and status in ('pending_payment', 'confirmed', 'paid') group by sku_id`, activity)
	must(s.t, err)
	var id string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error { sold[id] = n; return nil })
	must(s.t, err)
	for _, sku := range a.SKUs {
		live := sold[sku.ID]
		if live > sku.Total || sku.Stock < 0 || sku.Total != sku.Stock+live {
			s.t.Errorf("%s/%s: total %d, stock %d, live %d", activity, sku.ID, sku.Total, sku.Stock, live)
		}
		if got := view.Stock[sku.ID]; got != sku.Stock {
			s.t.Errorf("%s/%s: stranded units: gate has %d, ledger %d", activity, sku.ID, got, sku.Stock)
		}
	}
	over := queryInt(s.t, s, `select count(*) from (
		select 1 from orders o join skus s using (activity_id, sku_id)
		 where activity_id = $1 and o.status in ('pending_payment', 'confirmed', 'paid')
		 group by user_id, sku_id, s.limit_per_user having sum(quantity) > s.limit_per_user) x`, activity)
	if over != 0 {
		s.t.Errorf("%d buyers of %s are over the limit", over, activity)
	}
	ids := accepted(answers)
	decided := queryInt(s.t, s, `select count(*) from orders where id = any($1::uuid[]) and status in ('pending_payment', 'confirmed', 'paid')`, ids)
	if decided != int64(len(ids)) {
		s.t.Errorf("%d orders were answered with 202, %d of them are live", len(ids), decided)
	}
}

func queryInt(t testing.TB, s *sale, sql string, args ...any) int64 {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), sql, args...)
	must(t, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	must(t, err)
	return n
}

// wantCount compares answers, sorted by kind, with what they must be.
func wantCount(t testing.TB, answers []answer, want map[string]int) {
	t.Helper()
	got := count(answers)
	for kind, n := range want {
		if got[kind] != n {
			t.Errorf("%q was answered %d times, want %d; all: %v", kind, got[kind], n, got)
		}
	}
	for kind := range got {
		if _, ok := want[kind]; !ok {
			t.Errorf("%q was answered %d times, want never; all: %v", kind, got[kind], got)
		}
	}
}
