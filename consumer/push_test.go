package consumer_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/admission"
	"seckill/consumer"
	"seckill/deploy/stack/stacktest"
)

// metric reads one number of a registry: a gauge, or how many a histogram has seen.
func metric(t testing.TB, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// Ten thousand buyers wait on one node. Until something is settled they cost the
// ledger nothing but a question now and then, and then at most one a batch.
//
// Not parallel: on a busy machine look-ups fail, and each failure is a question more.
func TestTenThousandWaitersAskOnceABatch(t *testing.T) {
	s := newSale(t, saleOptions{servers: stacktest.New(t)})
	s.exec(`create extension pg_stat_statements schema public`)
	const buyers = 10_000
	s.open("a1", units("s1", buyers, 1))
	ids := make([]string, buyers)
	atOnce(buyers, 512, func(i int) {
		placed, err := s.service.Place(t.Context(), admission.Ask{Activity: "a1", User: fmt.Sprint("buyer-", i), SKU: "s1", Quantity: 1})
		if err != nil {
			t.Error(err)
		}
		ids[i] = placed.ID
	})
	asked := func() int64 {
		return queryInt(t, s, `select coalesce(sum(calls), 0)::bigint from public.pg_stat_statements
			where query like '%from orders where id = any%' and query like '%decided_at, pay_before%'`)
	}
	began, before := time.Now(), asked()
	var failed atomic.Int64
	confirmed := make(chan bool, buyers)
	var waiters sync.WaitGroup
	defer waiters.Wait()
	for i, id := range ids {
		waiters.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			row, err := s.service.Wait(ctx, "a1", fmt.Sprint("buyer-", i), id)
			for err != nil && ctx.Err() == nil {
				failed.Add(1)
				row, err = s.service.Wait(ctx, "a1", fmt.Sprint("buyer-", i), id)
			}
			confirmed <- err == nil && row.Status == admission.Confirmed
		})
		if i%100 == 99 { // they come in portions, as many as a node can look up at once
			s.watching(i + 1)
		}
	}
	settled := prometheus.NewRegistry()
	s.startWorker(workerOptions{metrics: consumer.NewMetrics(settled)})
	for range buyers {
		if !<-confirmed {
			t.Error("a buyer who waited was not told that the order is confirmed")
		}
	}
	batches := int64(metric(t, settled, "seckill_settle_seconds"))
	// Once a second, in questions of at most 5,000, a node asks by itself.
	bySecond := 2 * (int64(time.Since(began)/time.Second) + 1)
	n := asked() - before
	t.Logf("%d questions of %d waiting buyers; %d batches settled, %v", n, buyers, batches, time.Since(began))
	if n > batches+bySecond+failed.Load() {
		t.Errorf("%d questions, want at most one for each of %d batches, %d by the clock and %d of failed look-ups", n, batches, bySecond, failed.Load())
	}
}

// watching waits until n buyers wait on the node.
func (s *sale) watching(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(n, " buyers wait"), func() (bool, string) {
		now := metric(s.t, s.registry, "seckill_waiting_buyers")
		return int(now) == n, fmt.Sprint(now)
	})
}

// atOnce calls do for 0 to n-1, most of them at a time.
func atOnce(n, most int, do func(i int)) {
	var work sync.WaitGroup
	var next atomic.Int64
	for range most {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	work.Wait()
}

// sse is one server-sent event.
type sse struct{ event, id, data string }

// watch opens the stream of an order's events.
func (s *sale) watch(location, user, last string) (*http.Response, <-chan sse) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.http.URL+location+"/events", nil)
	must(s.t, err)
	req.Header.Set("X-User-ID", user)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	must(s.t, err)
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	events := make(chan sse, 16)
	go func() {
		defer close(events)
		var e sse
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.event = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				if e.event != "" {
					events <- e
				}
				e = sse{}
			}
		}
	}()
	return resp, events
}

// next is the next event of a stream, which must be of the status; "" wants the end.
func (s *sale) next(events <-chan sse, status string) sse {
	s.t.Helper()
	select {
	case e, more := <-events:
		if more != (status != "") || more && (e.event != "status" || !strings.Contains(e.data, `"status":"`+status+`"`)) {
			s.t.Fatalf("the stream brings %+v (%v), want status %q", e, more, status)
		}
		return e
	case <-time.After(60 * time.Second):
		s.t.Fatalf("the stream brings nothing within a minute, want status %q", status)
	}
	return sse{}
}

func TestOrderEvents(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.put("a1", admission.Activity{PaymentWindow: time.Hour, SKUs: []admission.SKU{units("s1", 2, 1)}})
	s.openGate("a1")
	ann := s.post(one("a1", "ann"))
	resp, events := s.watch(ann.location, "ann", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	s.next(events, "accepted")
	s.startWorker(workerOptions{})
	seen := s.next(events, "pending_payment")
	_, resumed := s.watch(ann.location, "ann", seen.id)
	s.exec(`update orders set status = 'paid' where id = $1`, ann.order) // nobody sends a notice
	for _, stream := range []<-chan sse{events, resumed} {
		seen = s.next(stream, "paid")
		s.next(stream, "")
	}
	if resp, _ := s.watch(ann.location, "ann", seen.id); resp.StatusCode != http.StatusNoContent {
		t.Errorf("a client that has the last event gets %d", resp.StatusCode)
	}
	_, again := s.watch(ann.location, "ann", "unknown")
	s.next(again, "paid")
	s.next(again, "")
	for user, location := range map[string]string{"bob": ann.location, "ann": "/v1/activities/a1/orders/" + admission.NewID()} {
		if resp, _ := s.watch(location, user, ""); resp.StatusCode != 404 {
			t.Errorf("%s may watch %s: %d", user, location, resp.StatusCode)
		}
	}
}

// A notice, and not the clock, tells who waits: twenty changes, each of which would
// take a second by the clock.
func TestNoticeWakesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.put("a1", admission.Activity{PaymentWindow: time.Hour, SKUs: []admission.SKU{units("s1", 2, 1)}})
	s.openGate("a1")
	s.startWorker(workerOptions{})
	ann := s.post(one("a1", "ann"))
	s.rest("a1")
	_, events := s.watch(ann.location, "ann", "")
	s.next(events, "pending_payment")
	began := time.Now()
	for n := range 20 {
		status := []string{"held", "pending_payment"}[n%2]
		s.exec(`update orders set status = $2 where id = $1`, ann.order, status)
		s.log.Notify([]string{ann.order})
		s.next(events, status)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v: the notices are not heard", took)
	}
}

// Streams and waits end at once when the node stops.
func TestStoppingNodeLetsWatchersGo(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 2, 1)) // no worker: the order stays undecided
	ann := s.post(one("a1", "ann"))
	_, events := s.watch(ann.location, "ann", "")
	s.next(events, "accepted")
	waited := make(chan answer, 1)
	go func() { waited <- s.get(ann.location+"?wait=30s", "ann") }()
	s.watching(2)
	began := time.Now()
	must(t, s.service.Close(t.Context()))
	s.next(events, "")
	if a := <-waited; a.state != "accepted" {
		t.Errorf("who waited got %v", a)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
}

// endless takes a stream without a network.
type endless struct {
	header http.Header
	status int
	began  chan struct{}
	once   sync.Once
}

func (e *endless) Header() http.Header              { return e.header }
func (e *endless) WriteHeader(status int)           { e.status = status }
func (e *endless) Flush()                           {}
func (e *endless) SetWriteDeadline(time.Time) error { return nil }
func (e *endless) Write(b []byte) (int, error) {
	e.once.Do(func() { close(e.began) })
	return len(b), nil
}

// A node has at most ten thousand streams; the next is told to ask instead.
func TestStreamsHaveAnEnd(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.open("a1", units("s1", 1, 1))
	ann := s.post(one("a1", "ann"))
	h := admission.NewHandler(s.service, admission.HTTPConfig{
		Identify: admission.HeaderIdentity([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), Timeout: time.Second, Version: "test", Logger: s.logger,
	})
	ctx, stop := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	open := func() *endless {
		e := &endless{header: http.Header{}, status: 200, began: make(chan struct{})}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, ann.location+"/events", nil)
		must(t, err)
		req.RemoteAddr = "127.0.0.1:1"
		req.Header.Set("X-User-ID", "ann")
		streams.Go(func() { h.ServeHTTP(e, req) })
		<-e.began
		return e
	}
	atOnce(10_000, 32, func(int) {
		if e := open(); e.status != 200 {
			t.Errorf("a stream got %d", e.status)
		}
	})
	if e := open(); e.status != 503 || e.header.Get("Retry-After") == "" {
		t.Errorf("one too many got %d %v", e.status, e.header)
	}
	stop()
	streams.Wait()
}

func TestOrderAndSaleAreNotSentTwice(t *testing.T) {
	t.Parallel()
	s := newSale(t, saleOptions{})
	s.startWorker(workerOptions{})
	s.open("a1", units("s1", 2, 1))
	ann := s.post(one("a1", "ann"))
	s.rest("a1")
	for _, path := range []string{ann.location, "/v1/activities/a1"} {
		first := s.get(path, "ann")
		tag := first.header.Get("ETag")
		ask := func(tags string) answer {
			req, err := http.NewRequest(http.MethodGet, s.http.URL+path, nil)
			must(t, err)
			req.Header.Set("X-User-ID", "ann")
			req.Header.Set("If-None-Match", tags)
			return s.do(req)
		}
		for _, tags := range []string{tag, `"other", W/` + tag, "*"} {
			if a := ask(tags); a.status != 304 || a.body != "" || a.header.Get("ETag") != tag {
				t.Errorf("%s with %s: %d %q", path, tags, a.status, a.body)
			}
		}
		if a := ask(`"other"`); a.status != 200 || a.header.Get("ETag") != tag {
			t.Errorf("%s with another tag: %d", path, a.status)
		}
	}
	before := s.get(ann.location, "ann").header.Get("ETag")
	s.exec(`update orders set status = 'paid' where id = $1`, ann.order)
	if after := s.get(ann.location, "ann").header.Get("ETag"); slices.Contains([]string{"", before}, after) {
		t.Errorf("a paid order has the tag %s, as before", after)
	}
}
