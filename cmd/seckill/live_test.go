package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// watch reads the live stream until the test ends.
func (b browser) watch() *watched {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/admin/v1/live", nil)
	must(b.t, err)
	req.Header.Set("Cookie", b.cookie)
	resp, err := testClient.Do(req)
	must(b.t, err)
	w := &watched{t: b.t, resp: resp, lines: bufio.NewScanner(resp.Body)}
	w.lines.Buffer(nil, 1<<20)
	b.t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	return w
}

// watched is a live stream.
type watched struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
}

// awaitEvent reads events of a name until one is wanted.
func awaitEvent[T any](w *watched, name string, wanted func(T) bool) T {
	w.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	var event, last string
	for w.lines.Scan() && time.Now().Before(deadline) {
		line := w.lines.Text()
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			event = text
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok && event == name {
			var v T
			must(w.t, json.Unmarshal([]byte(text), &v))
			if last = text; wanted(v) {
				return v
			}
		}
	}
	w.t.Fatalf("the stream ended without the %s that is wanted (%v); the last: %s", name, w.lines.Err(), last)
	panic("unreachable")
}

// The units of a SKU add up in every sample, whatever is under way, and what is shown is
// what the stores have.
func TestLiveAddsUp(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_READ_TOKENS=eye:eye-token")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	i.must(exitDone, "order", "place", "spring", "s1", "--user", "ann", "--quantity", "2", "--yes")
	eye := i.operators().login("eye-token")
	w := eye.watch()
	adds := func(s liveSample) bool {
		for _, a := range s.Activities {
			for _, sku := range a.SKUs {
				sum := sku.Undecided + sku.Live + sku.ReleaseDue + sku.Difference
				if sku.GateStock != nil {
					sum += *sku.GateStock
				}
				if sku.GateStock != nil && sum != sku.Total || a.Exact && sku.Difference != 0 {
					t.Errorf("sample %d: the units do not add up: %+v", s.Seq, sku)
				}
			}
		}
		return len(s.Activities) == 1 && len(s.Activities[0].SKUs) == 2
	}
	s := awaitEvent(w, "sample", func(s liveSample) bool { return adds(s) && s.Activities[0].Exact })
	if sku := s.Activities[0].SKUs[0]; sku.Undecided != 2 || *sku.GateStock != 8 || sku.Live != 0 || s.Activities[0].Gate != "open" {
		t.Errorf("before the settlement: %+v", s.Activities[0])
	}
	if len(s.Stores) != 4 || len(s.Partitions) != 16 || len(s.Errors) != 0 || s.Partitions[0].Lease != nil || s.Log == nil || s.Log.BacklogOrders != 1 {
		t.Errorf("before the settlement: %+v", s)
	}
	i.serve()
	s = awaitEvent(w, "sample", func(s liveSample) bool {
		return adds(s) && s.Activities[0].SKUs[0].Live == 2 && s.Activities[0].Exact && s.Partitions[0].Lease != nil && s.Log != nil && s.Log.BacklogOrders == 0
	})
	if sku := s.Activities[0].SKUs[0]; sku.Units["confirmed"] != 2 || sku.Undecided != 0 || sku.Stock != 8 || s.Violations != 0 {
		t.Errorf("after the settlement: %+v", sku)
	}
	if l := s.Partitions[0].Lease; l.Token == 0 || l.TTLMS <= 0 || s.Partitions[0].Term == 0 || s.Partitions[0].Holder == "" {
		t.Errorf("a partition that is held: %+v %+v", s.Partitions[0], l)
	}
	for _, store := range s.Stores {
		if !store.Up || store.MS <= 0 {
			t.Errorf("a store that is well: %+v", store)
		}
	}

	// A unit that the gate forgets is seen at once, and seen no more when it is back.
	client := redis.NewClient(redisOptions(t))
	defer func() { _ = client.Close() }()
	stock := i.namespace + ":{spring/0}:stock"
	must(t, client.HIncrBy(t.Context(), stock, "s1", -1).Err())
	awaitEvent(w, "sample", func(s liveSample) bool { return s.Violations == 1 && s.Activities[0].SKUs[0].Difference == 1 })
	must(t, client.HIncrBy(t.Context(), stock, "s1", 1).Err())
	awaitEvent(w, "sample", func(s liveSample) bool { return adds(s) && s.Violations == 0 })
}

// A store that does not answer is told, and takes nothing away from what the others show.
func TestLiveWithoutAStore(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_READ_TOKENS=eye:eye-token", "SECKILL_ETCD_ENDPOINTS=127.0.0.1:1")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	s := awaitEvent(i.operators().login("eye-token").watch(), "sample", func(s liveSample) bool { return s.Seq > 1 })
	if len(s.Activities) != 1 || s.Activities[0].Gate != "none" || s.Log == nil || len(s.Partitions) != 16 || s.Funnel == nil {
		t.Errorf("without the lock store: %+v", s)
	}
	if len(s.Stores) != 4 || s.Stores[3].Store != "etcd" || s.Stores[3].Up || s.Stores[3].Error == "" || !s.Stores[0].Up || len(s.Errors) != 1 || s.Errors[0].Part != "locks" {
		t.Errorf("the stores: %+v, errors %+v", s.Stores, s.Errors)
	}
}

// There is one sampler, it rests while nobody listens, listeners are bounded, and one
// that does not read gets the newest when it does.
func TestLiveIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var counted atomic.Int64
		looks := func() int64 { return counted.Load() }
		ctx, stop := context.WithCancel(t.Context())
		l := newLive(func(context.Context) liveSample { counted.Add(1); return liveSample{} }, newJobs(), discard)
		go l.run(ctx)
		time.Sleep(time.Minute)
		if looks() != 0 {
			t.Errorf("%d looks while nobody listens", looks())
		}
		var all []*listener
		for range mostListeners {
			all = append(all, l.join())
		}
		if l.join() != nil {
			t.Error("more listeners than there may be")
		}
		time.Sleep(10*time.Second + liveEvery/2)
		if looks() < 9 || looks() > 12 {
			t.Errorf("%d looks for %d listeners in ten seconds", looks(), mostListeners)
		}
		sample, _ := l.next(all[0])
		if again, _ := l.next(all[0]); sample.seq != looks() || again.data != nil {
			t.Errorf("a listener that was asleep has sample %d of %d, and then %d", sample.seq, looks(), again.seq)
		}
		for _, one := range all {
			l.leave(one)
		}
		time.Sleep(2 * liveEvery)
		before := looks()
		time.Sleep(time.Minute)
		if looks() != before {
			t.Errorf("%d looks after everybody has left", looks()-before)
		}
		late := l.join()
		if sample, _ := l.next(late); sample.data != nil {
			t.Errorf("who comes later gets sample %d of a minute ago", sample.seq)
		}
		stop()
		<-l.ended
	})
}

// Percentiles are those of the window, inside the bucket that has them.
func TestLivePercentiles(t *testing.T) {
	t.Parallel()
	before := histogram{count: 100, buckets: []bucket{{0.001, 100}, {0.002, 100}, {0.004, 100}}}
	now := histogram{count: 200, buckets: []bucket{{0.001, 100}, {0.002, 150}, {0.004, 199}}}
	got := now.less(before).latency()
	if got.Count != 100 || *got.P50MS != 2 || *got.P90MS < 3 || *got.P90MS > 4 || *got.P999MS != 4 {
		t.Errorf("percentiles: %d %v %v %v", got.Count, *got.P50MS, *got.P90MS, *got.P999MS)
	}
	if empty := before.less(before).latency(); empty.P50MS != nil {
		t.Errorf("a percentile of nothing: %v", *empty.P50MS)
	}
}
