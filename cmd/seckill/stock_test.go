package main

import (
	"net/http"
	"strings"
	"testing"

	"seckill/deploy/stack/stacktest"
)

// changeStock asks the admin address for a change under a key.
func (s *served) changeStock(body, key string) (int, string) {
	s.t.Helper()
	headers := map[string]string{"Authorization": "Bearer " + stacktest.Get(s.t).AdminToken()}
	if key != "" {
		headers["Idempotency-Key"] = key
	}
	status, answer, err := call(http.MethodPost, "http://"+s.admin+"/admin/v1/activities/spring/skus/s1/stock", body, headers)
	must(s.t, err)
	return status, string(answer)
}

// The stock of a sale is changed by route and by command: before it is opened, while a
// worker runs, and without one; each change is in the activity log with who and why.
func TestStockByRouteAndCommand(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	var a activityAdminView
	i.answer(&a, "activity", "stock", "spring", "s1", "--delta=-1", "--reason", "draft", "--actor", "ann", "--yes")
	if a.SKUs[0].Total != 9 {
		t.Errorf("a draft's stock: %+v", a.SKUs)
	}
	i.must(exitDone, "activity", "open", "spring", "--yes")
	// Without a worker, and with nothing to settle, the command rebuilds the gate.
	i.answer(&a, "activity", "stock", "spring", "s1", "--delta=-2", "--reason", "damaged", "--key", "k1", "--actor", "ann", "--yes")
	i.answer(&a, "activity", "stock", "spring", "s1", "--delta=-2", "--reason", "damaged", "--key", "k1", "--actor", "ann", "--yes")
	if a.SKUs[0].Total != 7 || a.SKUs[0].Stock != 7 {
		t.Errorf("two units taken, once: %+v", a.SKUs)
	}
	got := i.must(exitFailed, "activity", "stock", "spring", "s1", "--delta=-8", "--reason", "too many", "--yes")
	if !strings.Contains(got.stderr, "not-enough-stock") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("taking more than is free: %s", got.stderr)
	}
	i.must(exitUsage, "activity", "stock", "spring", "s1", "--delta=1", "--yes")
	i.must(exitUsage, "activity", "stock", "spring", "s1", "--reason", "nothing", "--yes")
	i.must(exitUsage, "activity", "stock", "spring", "s1", "--delta=1", "--reason", "no consent")

	s := i.serve()
	for _, c := range []struct {
		body, key string
		status    int
		holds     string
	}{
		{`{"delta":10,"reason":"second pallet"}`, "k2", 200, `"total":17,"stock":17`},
		{`{"delta":10,"reason":"second pallet"}`, "k2", 200, `"total":17,"stock":17`},
		{`{"delta":11,"reason":"second pallet"}`, "k2", 422, "idempotency-mismatch"},
		{`{"delta":-7,"reason":"sold elsewhere"}`, "", 200, `"total":10,"stock":10`},
		{`{"delta":-11,"reason":"sold elsewhere"}`, "k3", 409, "not-enough-stock"},
		{`{"delta":-11,"reason":"sold elsewhere"}`, "k3", 409, "not-enough-stock"},
		{`{"delta":2147483647,"reason":"typo"}`, "", 400, "invalid-request"},
		{`{"delta":0,"reason":"nothing"}`, "", 400, "invalid-request"},
		{`{"delta":1,"reason":" "}`, "", 400, "invalid-request"},
		{`{"delta":1}`, "", 400, "invalid-request"},
	} {
		if status, body := s.changeStock(c.body, c.key); status != c.status || !strings.Contains(body, c.holds) {
			t.Errorf("%s under %q: %d %s, want %d and %s", c.body, c.key, status, body, c.status, c.holds)
		}
	}
	if status, body := s.request(http.MethodPut, "/admin/v1/activities/spring",
		`{"skus":[{"sku":"s1","total":11,"limit_per_user":2,"price":19900},{"sku":"s2","total":5}]}`); status != 409 || !strings.Contains(body, "use-delta") {
		t.Errorf("another total for an opened sale: %d %s", status, body)
	}
	if status, _ := s.request(http.MethodPost, "/admin/v1/activities/spring/skus/s9/stock", `{"delta":1,"reason":"r"}`); status != 404 {
		t.Errorf("a SKU that is not there: %d", status)
	}
	i.must(exitDone, "audit", "--wait", "30s")
	later := strings.Replace(springFile, "22:00:00", "23:00:00", 1) // the totals are as they are now
	i.must(exitDone, "activity", "apply", "-f", write(t, later), "--actor", "ann", "--reason", "late crowd", "--yes")
	moved := i.query(`select actor || '|' || detail || '|' || reason from activity_log where action = 'apply activity' order by id desc limit 1`)
	if want := "ann|2 SKUs; window open to 2099-12-01T15:00:00Z, before open to 2099-12-01T14:00:00Z|late crowd"; moved != want {
		t.Errorf("a moved window in the activity log: %s\nwant %s", moved, want)
	}
	if status, _ := s.request(http.MethodPost, "/admin/v1/activities/spring/close", ""); status != 200 {
		t.Errorf("close: %d", status)
	}
	if status, body := s.changeStock(`{"delta":1,"reason":"late"}`, ""); status != 409 || !strings.Contains(body, "/closed") {
		t.Errorf("a closed sale: %d %s", status, body)
	}
	log := i.query(`select string_agg(actor || '|' || detail || '|' || reason, ';' order by id) from activity_log where action = 'change stock'`)
	want := "ann|s1 by -1 to a total of 9|draft;ann|s1 by -2 to a total of 7|damaged;" +
		"admin API|s1 by +10 to a total of 17|second pallet;admin API|s1 by -7 to a total of 10|sold elsewhere"
	if log != want {
		t.Errorf("activity log: %s\nwant %s", log, want)
	}
}
