package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// benchOrders is how many orders the benchmark replays; SECKILL_LAB_REPLAY_ORDERS
// changes it.
const benchOrders = 20_000

// BenchmarkReplayMemory replays a log of many orders by apply and reports the most
// heap that was in use beyond what was before it began, garbage included: it must not
// grow with the log. All orders are settled before, by a replay too.
func BenchmarkReplayMemory(b *testing.B) {
	n := benchOrders
	if text := os.Getenv("SECKILL_LAB_REPLAY_ORDERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatalf("SECKILL_LAB_REPLAY_ORDERS=%q: %v", text, err)
		}
	}
	replay, selection := benchReplay(b, n)
	run := func(want consumer.ReplayCounts) {
		r := replay
		summary, err := r.Start(b.Context(), selection)
		want.Read = summary.Read
		if err != nil || summary.ReplayCounts != want {
			b.Fatalf("%+v (%v), want %+v", summary, err, want)
		}
	}
	run(consumer.ReplayCounts{Matched: uint64(n), Settled: uint64(n)})
	peak := uint64(0)
	b.ResetTimer()
	for range b.N {
		runtime.GC()
		before := heapInUse()
		stop := watchHeap(&peak)
		run(consumer.ReplayCounts{Matched: uint64(n), Already: uint64(n)})
		stop()
		peak -= min(peak, before)
	}
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "orders/s")
	b.ReportMetric(float64(n), "orders")
}

// watchHeap raises peak to the most heap in use until it is stopped.
func watchHeap(peak *uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			*peak = max(*peak, heapInUse())
			<-tick.C
		}
	}()
	return func() { cancel(); <-done }
}

func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// benchReplay is a log of n orders of one sale that nobody has settled.
func benchReplay(b *testing.B, n int) (consumer.Replay, consumer.Selection) {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	servers, namespace, ctx := stacktest.Get(b), stacktest.Namespace(b), b.Context()
	url, err := redis.ParseURL(servers.RedisURL())
	check(err)
	client := redis.NewClient(url)
	b.Cleanup(func() { _ = client.Close() })
	nc, err := nats.Connect(servers.NATSURL(), nats.ReconnectBufSize(-1))
	check(err)
	b.Cleanup(nc.Close)
	pool, err := consumer.OpenPool(ctx, servers.PostgresURL(), namespace, 8)
	check(err)
	b.Cleanup(pool.Close)
	_, err = consumer.Migrate(ctx, pool, namespace)
	check(err)
	ledger, gate := consumer.NewLedger(pool), admission.NewGate(client, namespace)
	check(ledger.Join(ctx, "etcd", partitions))
	log, err := admission.OpenLog(ctx, nc, admission.LogConfig{Namespace: namespace, Partitions: partitions, Replicas: 1, MaxBytes: 4 << 30, MaxAge: time.Hour})
	check(err)
	logger := slog.New(slog.DiscardHandler)
	leases, err := lockprovider.Open(ctx, lockprovider.Config{
		Backend: "etcd", EtcdEndpoints: []string{servers.EtcdEndpoint()}, Namespace: namespace, Instance: "replayer", Logger: logger,
	})
	check(err)
	b.Cleanup(func() { _ = leases.Close(context.Background()) })

	_, err = ledger.Put(ctx, admission.Activity{ID: "a1", SKUs: []admission.SKU{units("s1", int64(n), 1)}})
	check(err)
	_, err = ledger.SetState(ctx, "a1", admission.Open)
	check(err)
	epoch, err := (&admission.Rebuild{Gate: gate, Log: log, Ledger: ledger, Logger: logger}).Run(ctx, "a1")
	check(err)
	at := time.Now().UTC().Truncate(time.Millisecond)
	batch := admission.NewBatch("a1", epoch)
	for i := range n + 1 {
		o := admission.Order{ID: admission.NewID(), User: fmt.Sprint("buyer-", i), SKU: "s1", Quantity: 1, At: at}
		if i < n && batch.Add(o) {
			continue
		}
		_, err := log.Append(ctx, batch)
		check(err)
		batch = admission.NewBatch("a1", epoch)
		batch.Add(o)
	}
	return consumer.Replay{
		Ledger: ledger, Gate: gate, Log: log, Dead: consumer.ReadDeadLetters(log.JetStream(), namespace), Leases: leases, Logger: logger,
	}, consumer.Selection{Source: consumer.ReplayOrders, Mode: consumer.ReplayApply, Activity: "a1"}
}
