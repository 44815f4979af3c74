package main

import (
	"net/http"
	"strings"
	"testing"
)

// An operator cancels orders by command and over HTTP, in flight and decided; who and
// why is on record.
func TestCancelByOperators(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	ids := map[string]string{}
	for _, user := range []string{"ann", "bob"} {
		var o placed
		i.answer(&o, "order", "place", "spring", "s1", "--user", user, "--yes")
		ids[user] = o.ID
	}
	if got := i.must(exitUsage, "order", "cancel", ids["ann"], "--yes"); !strings.Contains(got.stderr, "--reason") {
		t.Errorf("a cancellation without reason: %s", got.stderr)
	}
	i.must(exitUsage, "order", "cancel", ids["ann"], "--reason", "asked") // nobody to ask
	i.must(exitFailed, "order", "cancel", "01999999-0000-7000-8000-000000000001", "--reason", "asked", "--yes")
	var line orderLine
	i.answer(&line, "order", "cancel", ids["ann"], "--reason", "asked by telephone", "--actor", "eve@desk", "--yes") // in flight
	if line.Status != "cancelled" || line.User != "ann" || line.Refund != "" {
		t.Errorf("cancelled in flight: %+v", line)
	}
	s := i.serve()
	eventually(t, "bob's order is confirmed", func() (bool, string) {
		i.answer(&line, "order", "get", ids["bob"])
		return line.Status == "confirmed", string(line.Status)
	})
	i.exec(`update orders set status = 'paid' where user_id = 'bob'`)
	path := "/admin/v1/orders/" + ids["bob"] + "/cancel"
	if status, body := s.request(http.MethodPost, path, `{"refund":true}`); status != http.StatusBadRequest {
		t.Errorf("without reason: %d %s", status, body)
	}
	for range 2 {
		status, body := s.request(http.MethodPost, path, `{"reason":"broken lamp","refund":true}`)
		if status != http.StatusOK || !strings.Contains(body, `"status":"cancelled"`) || !strings.Contains(body, `"refund":"due"`) {
			t.Errorf("the operator cancels a paid order: %d %s", status, body)
		}
	}
	if status, body := s.request(http.MethodPost, strings.Replace(path, ids["bob"], "01999999-0000-7000-8000-000000000001", 1), `{"reason":"x"}`); status != http.StatusNotFound {
		t.Errorf("an unknown order: %d %s", status, body)
	}
	log := i.query(`select string_agg(actor || ' ' || subject || ' ' || reason, '; ' order by id) from activity_log where action = 'cancel order'`)
	if want := "eve@desk " + ids["ann"] + " asked by telephone; admin API " + ids["bob"] + " broken lamp"; log != want {
		t.Errorf("the activity log says %q, want %q", log, want)
	}
	i.exec(`update orders set replaced_by = id where user_id = 'bob'`)
	table := strings.Split(i.must(exitDone, "order", "get", ids["bob"]).stdout, "\n")
	if !strings.Contains(table[0], "REFUND  REPLACED BY") || !strings.Contains(table[1], " due     "+ids["bob"]) {
		t.Errorf("refund and replacement are not in the table:\n%s", strings.Join(table, "\n"))
	}
	i.must(exitDone, "audit", "--wait", "30s")
}
