package consumer_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	// benchUnpaid is how many unpaid orders wait in the benchmark;
	// SECKILL_LAB_EXPIRY_ORDERS changes it. A million are measured with
	//	SECKILL_LAB_EXPIRY_ORDERS=1000000 make bench BENCH=BenchmarkExpiry BENCHTIME=1x
	benchUnpaid = 20_000
	// Of those that expire one by one: how many, and how far apart.
	benchDue      = 1000
	benchDueEvery = 4 * time.Millisecond
)

func unpaidOrders(b *testing.B) int {
	text := os.Getenv("SECKILL_LAB_EXPIRY_ORDERS")
	if text == "" {
		return benchUnpaid
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 100 {
		b.Fatalf("SECKILL_LAB_EXPIRY_ORDERS=%q: give a number from 100", text)
	}
	return n
}

// BenchmarkExpiry is how late orders expire while many unpaid ones wait. one-by-one: a
// deadline every few milliseconds; late-ms are what the ledger's clock says in the
// statement that expires, beyond the deadline, and drift-ms is how much later the last
// tenth is than the first. at-once: a tenth of all have the same deadline.
func BenchmarkExpiry(b *testing.B) {
	n := unpaidOrders(b)
	s := newSale(b, saleOptions{})
	s.openWithWindow("a1", 720*time.Hour, units("s1", plenty, 1))
	s.noteLate()
	s.addUnpaid(n, time.Hour, time.Millisecond)
	s.exec(`analyze orders`)
	b.Run("one-by-one", func(b *testing.B) {
		for range b.N {
			s.addUnpaid(benchDue, time.Second, benchDueEvery)
			s.expireAdded(b, benchDue)
		}
		s.reportLate(b, n)
	})
	b.Run("at-once", func(b *testing.B) {
		for range b.N {
			s.addUnpaid(n/10, 2*time.Second+time.Duration(n/10)*100*time.Microsecond, 0)
			s.expireAdded(b, n/10)
		}
		s.reportLate(b, n)
		last := queryInt(b, s, `select (extract(epoch from max(by)) * 1000)::bigint from late`)
		b.ReportMetric(float64(n/10)/(float64(max(last, 1))/1000), "orders/s")
	})
}

// addUnpaid adds orders whose deadlines begin after a time and are so far apart.
func (s *sale) addUnpaid(n int, after, apart time.Duration) {
	s.t.Helper()
	const atOnce = 20_000 // within the ledger's limit of a statement
	first := time.Now().Add(after)
	// What settled them long ago is not what is measured.
	s.exec(`alter table orders disable trigger outbox_decided`)
	for from := 1; from <= n; from += atOnce {
		s.exec(`
			insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, created_at, pay_before, epoch, partition, log_seq, term)
			select gen_random_uuid(), 'a1', 's1', 'unpaid-' || gen_random_uuid(), 1, 100, 'pending_payment', now(),
			       $3::timestamptz + n * $4::interval, 1, 0, n, 1
			  from generate_series($1::int, $2::int) n`, from, min(from+atOnce-1, n), first, apart)
	}
	s.exec(`alter table orders enable trigger outbox_decided`)
	s.exec(`update skus set stock = stock - $1 where activity_id = 'a1'`, n)
}

// expireAdded runs the job until so many orders have expired.
func (s *sale) expireAdded(b *testing.B, n int) {
	b.Helper()
	s.exec(`truncate late`)
	for expired := int64(0); expired < int64(n); expired = queryInt(b, s, `select count(*) from late`) {
		next, err := s.expiry().Round(b.Context())
		must(b, err)
		select {
		case <-time.After(next):
		case <-b.Context().Done():
			b.Fatal("interrupted")
		}
	}
}

func (s *sale) reportLate(b *testing.B, waiting int) {
	b.Helper()
	ms := func(what string) float64 {
		return float64(queryInt(b, s, fmt.Sprintf(`
			with by_deadline as (select extract(epoch from by) * 1e6 us, ntile(10) over (order by due) tenth from late)
			select (%s)::bigint from by_deadline`, what))) / 1000
	}
	b.ReportMetric(ms(`percentile_cont(0.5) within group (order by us)`), "late-ms-p50")
	b.ReportMetric(ms(`percentile_cont(0.99) within group (order by us)`), "late-ms-p99")
	b.ReportMetric(ms(`max(us)`), "late-ms-max")
	b.ReportMetric(ms(`avg(us) filter (where tenth = 10) - avg(us) filter (where tenth = 1)`), "drift-ms")
	b.ReportMetric(float64(waiting), "waiting")
	b.ReportMetric(0, "ns/op")
}
