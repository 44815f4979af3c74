package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"seckill/consumer"
	"seckill/deploy/stack/stacktest"
)

// fill puts so much into the log that it takes no more than a few orders: settled
// messages without orders, as a long sale leaves them.
func (i *installed) fill(leave uint64) {
	i.t.Helper()
	nc, err := nats.Connect(stacktest.Get(i.t).NATSURL())
	must(i.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(i.t, err)
	stream, err := js.Stream(i.t.Context(), strings.ToUpper(i.namespace)+"_ORDERS")
	must(i.t, err)
	c := stream.CachedInfo().Config
	message, err := json.Marshal(map[string]any{"v": 1, "batch": "filler", "epoch": 1, "activity": "a1", "orders": []any{}, "filler": strings.Repeat("x", 1000)})
	must(i.t, err)
	for range 20 {
		_, err := js.Publish(i.t.Context(), i.namespace+".orders."+i.query(`select partition::text from orders limit 1`)+".a1", message)
		must(i.t, err)
	}
	info, err := stream.Info(i.t.Context())
	must(i.t, err)
	c.MaxBytes = int64(info.State.Bytes + leave)
	_, err = js.UpdateStream(i.t.Context(), c)
	must(i.t, err)
}

// The log is full: buyers are told 503 with Retry-After, no unit is lost or sold
// twice; after a trim, which goes only as far as all is settled, the sale goes on by
// itself and the books agree.
func TestCase24LogIsFull(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	s := i.serve()
	const stock = 60
	put := fmt.Sprintf(`{"title":"A sale","skus":[{"sku":"s1","total":%d,"limit_per_user":1,"price":100}]}`, stock)
	if status, body := s.request(http.MethodPut, "/admin/v1/activities/a1", put); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := s.request(http.MethodPost, "/admin/v1/activities/a1/open", ""); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	s.sell("a1", 5)
	i.must(exitDone, "audit", "--wait", "30s")
	i.fill(2500)

	ask := func(b int) (status int, order, code, retryAfter string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.http+"/v1/activities/a1/orders", strings.NewReader(`{"sku":"s1"}`))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-User-ID", fmt.Sprint("buyer-", b))
		resp, err := testClient.Do(req)
		must(t, err)
		defer func() { _ = resp.Body.Close() }()
		var answer struct {
			Type string `json:"type"`
			ID   string `json:"order_id"`
		}
		must(t, json.NewDecoder(resp.Body).Decode(&answer))
		return resp.StatusCode, answer.ID, answer.Type[strings.LastIndex(answer.Type, "/")+1:], resp.Header.Get("Retry-After")
	}
	told := map[string]int{}
	accepted := map[string]bool{}
	for b := 5; b < 40; b++ {
		status, id, code, retry := ask(b)
		told[code]++
		switch {
		case status == http.StatusAccepted:
			accepted[id] = true
		case status != http.StatusServiceUnavailable || retry == "" || code != "overloaded" && code != "outcome-unknown":
			t.Fatalf("buyer %d was told %d %s, Retry-After %q", b, status, code, retry)
		}
	}
	if told["overloaded"] == 0 {
		t.Fatalf("the log was not full: %v", told)
	}
	t.Logf("answers while the log filled up: %v", told)

	// As much as is settled may go, and no more.
	var info consumer.LogInfo
	eventually(t, "everything in the log is settled", func() (bool, string) {
		i.answer(&info, "log", "info")
		return info.TrimBefore == info.LastSeq+1 && info.Messages > 20, fmt.Sprintf("%+v", info)
	})
	got := i.must(exitFailed, "log", "trim", "--before-seq", fmt.Sprint(info.TrimBefore+1), "--yes")
	if !strings.Contains(got.stderr, fmt.Sprint("--before-seq ", info.TrimBefore)) {
		t.Errorf("a trim too far: %s", got.stderr)
	}
	i.must(exitUsage, "log", "trim", "--before-seq", fmt.Sprint(info.TrimBefore)) // nobody to ask
	i.must(exitUsage, "log", "trim", "--yes")
	var trimmed struct {
		Removed uint64 `json:"removed"`
	}
	i.answer(&trimmed, "log", "trim", "--before-seq", fmt.Sprint(info.TrimBefore), "--yes", "--actor", "ann", "--reason", "the log is full")
	if trimmed.Removed < 20 {
		t.Errorf("%d messages removed", trimmed.Removed)
	}
	if n := i.query(`select count(*)::text from activity_log where action = 'trim log' and actor = 'ann' and reason = 'the log is full'`); n != "1" {
		t.Errorf("%s entries in the activity log", n)
	}

	// Everybody asks again until they know; the stock is sold exactly once.
	for b := 5; b < stock+5; b++ {
		eventually(t, "a buyer is answered", func() (bool, string) {
			status, id, code, _ := ask(b)
			if status == http.StatusAccepted || status == http.StatusOK {
				accepted[id] = true
			}
			return status != http.StatusServiceUnavailable, code
		})
	}
	var report consumer.Report
	i.answer(&report, "audit", "--wait", "60s")
	if sku := report.Activities[0].SKUs[0]; !report.OK || !report.AtRest || sku.Live != stock {
		t.Errorf("audit: %+v", report)
	}
	for id := range accepted {
		if n := i.query(`select count(*)::text from orders where id = $1 and status = 'confirmed'`, id); n != "1" {
			t.Errorf("order %s was accepted and is not confirmed", id)
		}
	}
}

// Nothing is trimmed that waits for a worker.
func TestTrimKeepsTheBacklog(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	i.must(exitDone, "order", "place", "spring", "s1", "--user", "bob", "--yes")
	i.must(exitDone, "order", "place", "spring", "s1", "--user", "ann", "--yes")
	var info consumer.LogInfo
	i.answer(&info, "log", "info")
	if info.Messages != 2 || info.TrimBefore != info.FirstSeq || len(info.Partitions) != 16 {
		t.Errorf("log: %+v", info)
	}
	backlog := uint64(0)
	for _, p := range info.Partitions {
		backlog += p.Backlog
	}
	if backlog != 2 {
		t.Errorf("a backlog of %d messages, want 2", backlog)
	}
	i.must(exitFailed, "log", "trim", "--before-seq", fmt.Sprint(info.LastSeq+1), "--yes")
	if got := i.must(exitDone, "log", "info").stdout; !strings.Contains(got, "may be trimmed before") {
		t.Errorf("as a table: %s", got)
	}
	i.serve()
	i.must(exitDone, "audit", "--wait", "30s")
	i.must(exitDone, "log", "trim", "--before-seq", fmt.Sprint(info.LastSeq+1), "--yes")
	i.answer(&info, "log", "info")
	if info.Messages != 0 {
		t.Errorf("after the trim: %+v", info)
	}
	i.must(exitDone, "audit", "--wait", "30s")
}
