package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"seckill/deploy/stack/stacktest"
)

// The stages of the way of an order that need no ledger. What is measured is one stage alone, on the real server;
// a growth that a name shows (buyers=100000) is of what was there before.

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func perSecond(b *testing.B, orders int) {
	b.ReportMetric(float64(orders*b.N)/b.Elapsed().Seconds(), "orders/s")
}

// BenchmarkDecodeRequest is a buyer's body, from the socket's bytes to a checked order.
func BenchmarkDecodeRequest(b *testing.B) {
	const body = `{"sku":"s1","quantity":1}`
	r := httptest.NewRequest(http.MethodPost, "/v1/activities/a1/orders", http.NoBody)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		r.Body, r.ContentLength = readCloser{strings.NewReader(body)}, int64(len(body))
		_, err := readOrder(w, r)
		check(b, err)
	}
	perSecond(b, 1)
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// benchBatch is a batch of n orders as the gate admitted them.
func benchBatch(n int) Batch {
	batch := NewBatch("a1", 1)
	at := time.Now().UTC().Truncate(time.Millisecond)
	for i := range n {
		batch.Add(Order{ID: NewID(), User: fmt.Sprint("buyer-", i), SKU: "s1", Quantity: 1, At: at})
	}
	return batch
}

// BenchmarkDecodeBatch is a log message, from its bytes to checked orders.
func BenchmarkDecodeBatch(b *testing.B) {
	for _, n := range []int{1, 64, MaxBatchOrders} {
		b.Run(fmt.Sprint("batch=", n), func(b *testing.B) {
			data, err := json.Marshal(benchBatch(n))
			check(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_, err := DecodeBatch(data)
				check(b, err)
			}
			perSecond(b, n)
		})
	}
}

// benchGate is an open gate with these SKUs, each with as much stock.
type benchGate struct {
	*Gate
	b     *testing.B
	epoch int64
	skus  int
	stock int64
	left  int64
	buyer int
}

func newBenchGate(b *testing.B, skus int, stock int64) *benchGate {
	b.Helper()
	options, err := redis.ParseURL(stacktest.Get(b).RedisURL())
	check(b, err)
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	b.Cleanup(func() { _ = client.Close() })
	g := &benchGate{Gate: NewGate(client, stacktest.Namespace(b)), b: b, skus: skus, stock: stock}
	b.Cleanup(func() { g.clear(context.Background()) })
	g.fill()
	return g
}

// clear removes what the gate holds: Redis is shared with the other benchmarks.
func (g *benchGate) clear(ctx context.Context) {
	_ = g.redis.Del(ctx, g.keys("a1", "gate", "stock", "orders", "buyers", "keys", "pending")...).Err()
}

// fill begins a new life of the gate, with all stock and nobody charged.
func (g *benchGate) fill() {
	g.b.Helper()
	g.clear(g.b.Context())
	g.epoch++
	s := Snapshot{Activity: Activity{ID: "a1", State: Open, Epoch: g.epoch}}
	for i := range g.skus {
		s.Activity.SKUs = append(s.Activity.SKUs, SKU{ID: fmt.Sprint("s", i), Total: g.stock, Stock: g.stock, LimitPerUser: 1})
	}
	server, err := g.Server(g.b.Context(), "a1")
	check(g.b, err)
	check(g.b, g.Close(g.b.Context(), "a1", g.epoch))
	check(g.b, g.Fill(g.b.Context(), g.epoch, s))
	check(g.b, g.Open(g.b.Context(), g.epoch, s, server))
	g.left = g.stock * int64(g.skus)
}

// orders are of new buyers, over all SKUs in turn.
func (g *benchGate) orders(n int) []Order {
	orders := make([]Order, n)
	for i := range orders {
		g.buyer++
		orders[i] = Order{ID: NewID(), User: fmt.Sprint("buyer-", g.buyer), SKU: fmt.Sprint("s", g.buyer%g.skus), Quantity: 1}
	}
	return orders
}

// reserve runs the script once; with want, every order must get that verdict.
func (g *benchGate) reserve(orders []Order, want VerdictKind) {
	verdicts, err := g.Reserve(g.b.Context(), "a1", g.epoch, 1<<30, orders)
	check(g.b, err)
	for _, v := range verdicts {
		if v.Kind != want {
			g.b.Fatalf("verdict %d of an order, want %d", v.Kind, want)
		}
	}
}

// charge lets so many buyers have a unit.
func (g *benchGate) charge(buyers int) {
	for buyers > 0 {
		n := min(buyers, MaxBatchOrders)
		g.reserve(g.orders(n), VerdictReserved)
		buyers -= n
	}
}

// BenchmarkScript is one run of the gate's script, all of its orders admitted.
func BenchmarkScript(b *testing.B) {
	for _, n := range []int{1, 32, MaxBatchOrders} {
		b.Run(fmt.Sprint("batch=", n), func(b *testing.B) { newBenchGate(b, 1, 1<<30).admit(n) })
	}
	for _, stock := range []int64{1000, 100_000, 10_000_000} {
		b.Run(fmt.Sprint("stock=", stock), func(b *testing.B) { newBenchGate(b, 1, stock).admit(100) })
	}
	for _, buyers := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint("buyers=", buyers), func(b *testing.B) {
			g := newBenchGate(b, 1, 1<<30)
			g.charge(buyers)
			g.admit(100)
		})
	}
	for _, skus := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("skus=", skus), func(b *testing.B) { newBenchGate(b, skus, 1<<30).admit(100) })
	}
}

func (g *benchGate) admit(batch int) {
	g.b.ReportAllocs()
	for g.b.Loop() {
		g.b.StopTimer()
		if g.left < int64(batch) {
			g.fill()
		}
		g.left -= int64(batch)
		orders := g.orders(batch)
		g.b.StartTimer()
		g.reserve(orders, VerdictReserved)
	}
	perSecond(g.b, batch)
}

// BenchmarkScriptRefuses is one run of the script for orders that get nothing.
func BenchmarkScriptRefuses(b *testing.B) {
	b.Run("sold-out", func(b *testing.B) {
		g := newBenchGate(b, 1, 1)
		g.charge(1)
		orders := g.orders(100)
		b.ReportAllocs()
		for b.Loop() {
			g.reserve(orders, VerdictSoldOut)
		}
		perSecond(b, 100)
	})
	b.Run("repeats", func(b *testing.B) {
		g := newBenchGate(b, 1, 1<<30)
		orders := g.orders(100)
		g.reserve(orders, VerdictReserved)
		for i := range orders {
			orders[i].ID = NewID() // as of a second request of the same buyer
		}
		b.ReportAllocs()
		for b.Loop() {
			g.reserve(orders, VerdictKnown)
		}
		perSecond(b, 100)
	})
}

// BenchmarkAppend is one message of the log, until it is on disk and acknowledged.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 64, MaxBatchOrders} {
		b.Run(fmt.Sprint("batch=", n), func(b *testing.B) { benchAppend(b, n, 16) })
	}
	for _, partitions := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) { benchAppend(b, 64, partitions) })
	}
}

func benchAppend(b *testing.B, batch, partitions int) {
	nc, err := nats.Connect(stacktest.Get(b).NATSURL(), nats.ReconnectBufSize(-1))
	check(b, err)
	b.Cleanup(nc.Close)
	log, err := OpenLog(b.Context(), nc, LogConfig{
		Namespace: stacktest.Namespace(b), Partitions: partitions, Replicas: 1, MaxBytes: 8 << 30, MaxAge: time.Hour,
	})
	check(b, err)
	b.Cleanup(func() { _ = log.js.DeleteStream(context.Background(), log.StreamName()) })
	orders := benchBatch(batch)
	activity := 0
	b.ReportAllocs()
	for b.Loop() {
		orders.ID = NewID() // else it is a duplicate
		orders.Activity = fmt.Sprint("a", activity%partitions)
		activity++
		_, err := log.Append(b.Context(), orders)
		check(b, err)
	}
	perSecond(b, batch)
}
