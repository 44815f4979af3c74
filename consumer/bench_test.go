package consumer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// The stages of the way of an order that need the ledger, and all of them together. A growth that a name shows
// (backlog=20000) is of what waits or stands there before.

func perSecond(b *testing.B, orders int) {
	b.ReportMetric(float64(orders*b.N)/b.Elapsed().Seconds(), "orders/s")
}

const plenty = 1 << 30 // units

// BenchmarkAdmit is the service from a buyer's question to the answer, order in the log, with so many asking at a
// time; without HTTP.
func BenchmarkAdmit(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := newSale(b, saleOptions{})
			s.open("a1", units("s1", plenty, 1))
			var buyer atomic.Int64
			b.ReportAllocs()
			for b.Loop() {
				together(callers, func() { place(b, s, fmt.Sprint("buyer-", buyer.Add(1))) })
			}
			perSecond(b, callers)
		})
	}
}

// BenchmarkSoldOut is the same when nothing is left: of strangers, whom the node answers from memory, and of those
// who have to ask the gate, since more than the limit is told before the stock.
func BenchmarkSoldOut(b *testing.B) {
	for _, path := range []struct {
		name     string
		quantity int64
		code     admission.Code
	}{{"memory", 1, admission.CodeSoldOut}, {"gate", 2, admission.CodeLimitReached}} {
		b.Run("from="+path.name, func(b *testing.B) {
			s := newSale(b, saleOptions{})
			s.open("a1", units("s1", 1, 1))
			place(b, s, "first")
			s.remembers(s.countReserves(), one("a1", ""))
			var buyer atomic.Int64
			b.ReportAllocs()
			for b.Loop() {
				together(64, func() {
					_, err := s.service.Place(b.Context(), admission.Ask{Activity: "a1", User: fmt.Sprint("late-", buyer.Add(1)), SKU: "s1", Quantity: path.quantity})
					if admission.AsProblem(err).Code != path.code {
						b.Errorf("the answer is %v, want %s", err, path.code)
					}
				})
			}
			perSecond(b, 64)
		})
	}
}

func place(b *testing.B, s *sale, user string) {
	_, err := s.service.Place(b.Context(), admission.Ask{Activity: "a1", User: user, SKU: "s1", Quantity: 1})
	if err != nil {
		b.Errorf("place an order of %s: %v", user, err)
	}
}

// together does the same n times at once.
func together(n int, do func()) {
	var work sync.WaitGroup
	for range n {
		work.Go(do)
	}
	work.Wait()
}

// deliveries are messages of 50 orders each of new buyers, over the SKUs in turn.
func deliveries(activity string, epoch int64, orders, skus int, seq *uint64) []consumer.Delivery {
	const each = 50
	var list []consumer.Delivery
	for orders > 0 {
		batch := admission.NewBatch(activity, epoch)
		for range min(each, orders) {
			id := admission.NewID()
			batch.Add(admission.Order{ID: id, User: "u" + id, SKU: fmt.Sprint("s", len(batch.Orders)%skus), Quantity: 1, At: time.Now().UTC()})
		}
		orders -= len(batch.Orders)
		*seq++
		list = append(list, consumer.Delivery{Batch: batch, Seq: *seq, Deliveries: 1})
	}
	return list
}

// benchTerm is an open activity with its partition's term.
func benchTerm(b *testing.B, skus int) (s *sale, term consumer.Term, epoch int64) {
	s = newSale(b, saleOptions{})
	var list []admission.SKU
	for i := range skus {
		list = append(list, units(fmt.Sprint("s", i), plenty, 1))
	}
	s.open("a1", list...)
	partition := s.log.Partition("a1")
	before, err := s.ledger.TermOf(b.Context(), partition)
	must(b, err)
	term, _, err = s.ledger.Take(b.Context(), partition, before, "bench")
	must(b, err)
	a, err := s.ledger.Activity(b.Context(), "a1")
	must(b, err)
	return s, term, a.Epoch
}

// BenchmarkSettle is one settlement transaction. rows are orders that the ledger has already.
func BenchmarkSettle(b *testing.B) {
	for _, orders := range []int{1, 50, 500, 1000} {
		b.Run(fmt.Sprint("batch=", orders), func(b *testing.B) { benchSettle(b, orders, 1, 0) })
	}
	for _, skus := range []int{1, 10, 50} {
		b.Run(fmt.Sprint("skus=", skus), func(b *testing.B) { benchSettle(b, 500, skus, 0) })
	}
	for _, rows := range []int{1000, 10_000, 50_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) { benchSettle(b, 500, 1, rows) })
	}
}

func benchSettle(b *testing.B, orders, skus, rows int) {
	s, term, epoch := benchTerm(b, skus)
	var seq uint64
	for ; rows > 0; rows -= 1000 {
		settleAll(b, s, term, deliveries("a1", epoch, 1000, skus, &seq), false)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		list := deliveries("a1", epoch, orders, skus, &seq)
		b.StartTimer()
		settleAll(b, s, term, list, false)
	}
	perSecond(b, orders)
}

func settleAll(b *testing.B, s *sale, term consumer.Term, list []consumer.Delivery, already bool) {
	decisions, err := s.ledger.Settle(b.Context(), term, list, list[len(list)-1].Seq)
	must(b, err)
	for _, d := range decisions {
		if d.Already != already || d.Status != admission.Confirmed {
			b.Fatalf("order %s is %s, already %v", d.ID, d.Status, d.Already)
		}
	}
}

// BenchmarkAlready is one settlement transaction of orders that were all decided before.
func BenchmarkAlready(b *testing.B) {
	s, term, epoch := benchTerm(b, 1)
	var seq uint64
	list := deliveries("a1", epoch, 500, 1, &seq)
	settleAll(b, s, term, list, false)
	b.ReportAllocs()
	for b.Loop() {
		settleAll(b, s, term, list, true)
	}
	perSecond(b, 500)
}

// BenchmarkDrain is a worker from its start until a backlog on one hot SKU is settled and the gate told.
func BenchmarkDrain(b *testing.B) {
	for _, backlog := range []int{1000, 5000, 20_000} {
		b.Run(fmt.Sprint("backlog=", backlog), func(b *testing.B) {
			s := newSale(b, saleOptions{})
			s.open("a1", units("s0", plenty, 1))
			a, err := s.ledger.Activity(b.Context(), "a1")
			must(b, err)
			var seq uint64
			settled := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for _, d := range deliveries("a1", a.Epoch, backlog, 1, &seq) {
					_, err := s.log.Append(b.Context(), d.Batch)
					must(b, err)
				}
				settled += int64(backlog)
				b.StartTimer()
				stop := s.startWorker(workerOptions{})
				awaitRows(b, s, settled)
				b.StopTimer()
				stop()
				b.StartTimer()
			}
			perSecond(b, backlog)
		})
	}
}

func awaitRows(b *testing.B, s *sale, n int64) {
	eventually(b, "the backlog is settled", func() (bool, string) {
		rows := queryInt(b, s, `select count(*) from orders`)
		return rows >= n, fmt.Sprint(rows, " of ", n)
	})
}

// BenchmarkEndToEnd is buyers over HTTP until every order is settled: 16 sales in so many partitions, and one
// sale with so many SKUs.
func BenchmarkEndToEnd(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("partitions=", n), func(b *testing.B) { benchEndToEnd(b, n, 16, 1) })
	}
	for _, skus := range []int{1, 10, 50} {
		b.Run(fmt.Sprint("skus=", skus), func(b *testing.B) { benchEndToEnd(b, 16, 1, skus) })
	}
}

func benchEndToEnd(b *testing.B, partitions, activities, skus int) {
	const orders = 1024
	s := newSale(b, saleOptions{partitions: partitions})
	var list []admission.SKU
	for i := range skus {
		list = append(list, units(fmt.Sprint("s", i), plenty, 1))
	}
	for i := range activities {
		s.open(fmt.Sprint("a", i), list...)
	}
	s.startWorker(workerOptions{})
	buyer, settled := 0, int64(0)
	b.ReportAllocs()
	for b.Loop() {
		asks := make([]ask, orders)
		for i := range asks {
			buyer++
			asks[i] = ask{
				activity: fmt.Sprint("a", buyer%activities), user: fmt.Sprint("buyer-", buyer),
				body: fmt.Sprintf(`{"sku":"s%d"}`, buyer%skus),
			}
		}
		if n := count(s.crowd(asks)); n["202"] != orders {
			b.Fatalf("%v, want %d times %d", n, orders, http.StatusAccepted)
		}
		settled += orders
		awaitRows(b, s, settled)
	}
	perSecond(b, orders)
}

// BenchmarkHandlerSoldOut is the buyers' handler without a socket, for a sale of which nothing is left: what a
// request costs beside the stores.
func BenchmarkHandlerSoldOut(b *testing.B) {
	s := newSale(b, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	place(b, s, "first")
	buyer := 0
	b.ReportAllocs()
	for b.Loop() {
		buyer++
		r := httptest.NewRequest(http.MethodPost, "/v1/activities/a1/orders", strings.NewReader(`{"sku":"s1","quantity":1}`))
		r.RemoteAddr = "127.0.0.1:1000"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User-ID", fmt.Sprint("late-", buyer))
		w := httptest.NewRecorder()
		s.http.Config.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusConflict {
			b.Fatalf("sold out, and the answer is %d %s", w.Code, w.Body)
		}
	}
	perSecond(b, 1)
}
