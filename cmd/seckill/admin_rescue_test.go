package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"seckill/consumer"
)

// get reads a JSON answer, which has to have the status.
func (b browser) get(into any, status int, method, path, body string) {
	b.t.Helper()
	got := b.does(method, path, body)
	if got.status != status {
		b.t.Fatalf("%s %s: %d, want %d: %s", method, path, got.status, status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), into); err != nil {
		b.t.Fatalf("%s %s: %v in %s", method, path, err, got.body)
	}
}

// job begins a job and waits for its end.
func (b browser) job(path, body string, result any) jobView {
	b.t.Helper()
	var view jobView
	b.get(&view, http.StatusAccepted, http.MethodPost, path, body)
	var raw struct {
		jobView
		Result json.RawMessage `json:"result"`
	}
	eventually(b.t, path+" ends", func() (bool, string) {
		b.get(&raw, http.StatusOK, http.MethodGet, "/admin/v1/jobs/"+view.Job, "")
		return raw.State != jobRunning, string(raw.Result)
	})
	if raw.State != jobDone {
		b.t.Fatalf("%s ended: %+v %s", path, raw.jobView, raw.Result)
	}
	must(b.t, json.Unmarshal(raw.Result, result))
	return raw.jobView
}

// steps are the names of an order's way, but for an event that is about to be published.
func (w orderWay) steps() string {
	var names []string
	for _, s := range w.Steps {
		name := s.Step
		if s.At == nil {
			name += "?"
		}
		if name != "event-waiting" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// A sale with orders that cannot be settled is put right by the routes of the console,
// and everything that was done is in the activity log.
func TestSaleIsRescuedByTheConsole(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_ADMIN_TOKENS=ann:ann-token")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	i.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a rule of the shop'; end $$`)
	i.exec(`create trigger poison before insert on orders for each row when (new.status <> 'held' and new.user_id like 'poison%') execute function refuse()`)
	ids := map[string]string{}
	for _, user := range []string{"poison-1", "poison-2", "bob", "ann"} {
		var o placed
		i.answer(&o, "order", "place", "spring", "s1", "--user", user, "--yes")
		ids[user] = o.ID
	}
	console := i.operators().login("ann-token")
	var way orderWay
	console.get(&way, 200, http.MethodGet, "/admin/v1/orders/"+ids["bob"], "")
	if way.Order.Status != "accepted" || way.Gate != "pending" || way.Ledger != nil || way.steps() != "reserved operator" {
		t.Errorf("an undecided order: %+v", way)
	}
	i.serve()

	var dead struct {
		Groups  []letterGroup
		Letters []numberedLetter
		Total   int
	}
	eventually(t, "two dead letters", func() (bool, string) {
		console.get(&dead, 200, http.MethodGet, "/admin/v1/dlq", "")
		return dead.Total == 2 && len(dead.Letters) == 2, ""
	})
	if len(dead.Groups) != 1 || dead.Groups[0].Count != 2 || len(dead.Groups[0].IDs) != 2 || len(dead.Letters) != 2 || dead.Letters[1].Number == 0 || dead.Letters[0].Status != "held" {
		t.Errorf("dead letters: %+v", dead)
	}
	way = orderWay{}
	console.get(&way, 200, http.MethodGet, "/admin/v1/orders/"+ids["poison-1"], "")
	if way.Order.Status != "held" || way.Ledger == nil || way.steps() != "reserved logged operator held" {
		t.Errorf("a held order: %s %+v", way.steps(), way)
	}
	console.searches(ids)

	var planned consumer.ReplaySummary
	console.job("/admin/v1/replays/plan", `{"source":"dead"}`, &planned)
	if planned.Matched != 2 || planned.Dead != 2 {
		t.Errorf("planned: %+v", planned)
	}
	var ruled struct {
		Letters []consumer.Ruling
		Failed  []failedRuling
		Next    uint64
	}
	g := dead.Groups[0]
	var counted struct {
		Letters, Units int
		UpTo           uint64 `json:"up_to"`
	}
	alike := url.Values{"activity": {g.Activity}, "reason": {g.Reason}, "detail": {g.Detail}}
	console.get(&counted, 200, http.MethodGet, "/admin/v1/dlq/group?"+alike.Encode(), "")
	if counted.Letters != 2 || counted.Units != 2 || counted.UpTo == 0 {
		t.Errorf("counted: %+v", counted)
	}
	console.get(&ruled, 200, http.MethodPost, "/admin/v1/dlq/replay", `{"ids":["nonsense"],"reason":"the rule is gone"}`)
	if len(ruled.Letters) != 0 || len(ruled.Failed) != 1 {
		t.Errorf("replayed nonsense: %+v", ruled)
	}
	// The group is decided piece by piece, and what is of another one is left alone.
	group := func(detail string, after uint64) string {
		return fmt.Sprintf(`{"group":{"activity":"spring","reason":%q,"detail":%q,"up_to":%d,"after":%d,"limit":1},"reason":"the rule is gone"}`, g.Reason, detail, counted.UpTo, after)
	}
	ruled.Next = 0
	console.get(&ruled, 200, http.MethodPost, "/admin/v1/dlq/drop", group("another", 0))
	if len(ruled.Letters) != 0 || ruled.Next != 0 {
		t.Errorf("dropped of another group: %+v", ruled)
	}
	console.get(&ruled, 200, http.MethodPost, "/admin/v1/dlq/replay", group(g.Detail, 0))
	if len(ruled.Letters) != 1 || ruled.Letters[0].Status != "confirmed" || ruled.Next == 0 {
		t.Errorf("the first of the group replayed: %+v", ruled)
	}
	after := ruled.Next
	ruled.Next = 0
	console.get(&ruled, 200, http.MethodPost, "/admin/v1/dlq/drop", strings.Replace(group(g.Detail, after), "the rule is gone", "refunded", 1))
	if len(ruled.Letters) != 1 || ruled.Letters[0].Reason != "dropped" || ruled.Next != 0 {
		t.Errorf("the rest of the group dropped: %+v", ruled)
	}
	for _, both := range []string{`{"reason":"x"}`, `{"ids":["letter-1"],"group":{"activity":"spring","reason":"x","detail":"y"},"reason":"x"}`} {
		if got := console.does(http.MethodPost, "/admin/v1/dlq/drop", both); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", both, got.status)
		}
	}
	if got := console.does(http.MethodPost, "/admin/v1/dlq/drop", `{"ids":["`+ids["poison-2"]+`"],"reason":" "}`); got.status != http.StatusBadRequest {
		t.Errorf("a drop without reason: %d", got.status)
	}

	var result replayResult
	run := console.job("/admin/v1/replays", `{"activity":"spring","reason":"to be sure"}`, &result)
	if result.Matched != 4 || result.Already+result.Rejected != 4 || run.Run != result.Run || run.Of == 0 {
		t.Errorf("replayed: %+v %+v", run, result)
	}
	console.job("/admin/v1/replays/"+run.Run+"/resume", `{"reason":"once more"}`, &result)
	var replays struct{ Replays []replayView }
	console.get(&replays, 200, http.MethodGet, "/admin/v1/replays?limit=1", "")
	if len(replays.Replays) != 1 || replays.Replays[0].Run != run.Run || replays.Replays[0].FinishedAt == nil || replays.Replays[0].Matched != 4 {
		t.Errorf("records of replays: %+v", replays)
	}

	var order orderLine
	console.get(&order, 200, http.MethodPost, "/admin/v1/orders/"+ids["bob"]+"/cancel", `{"reason":"by telephone"}`)
	way = orderWay{}
	console.get(&way, 200, http.MethodGet, "/admin/v1/orders/"+ids["bob"], "")
	if !strings.HasPrefix(way.steps(), "reserved logged operator decided") || !strings.Contains(way.steps(), "cancelled") || strings.Contains(way.steps(), "?") {
		t.Errorf("the way of a cancelled order: %s %+v", way.steps(), way.Steps)
	}

	var report consumer.Report
	console.job("/admin/v1/audits", `{"wait":"30s"}`, &report)
	if !report.OK || !report.AtRest || report.Activities[0].SKUs[0].Live != 2 {
		t.Errorf("audited: %+v", report)
	}
	console.job("/admin/v1/audits", `{"activity":"spring","light":true}`, &report)
	if !report.OK {
		t.Errorf("audited lightly: %+v", report)
	}
	if got := console.does(http.MethodPost, "/admin/v1/audits", `{"light":true}`); got.status != http.StatusBadRequest {
		t.Errorf("a light audit of all: %d", got.status)
	}
	i.must(exitDone, "audit", "--wait", "30s")
	log := i.query(`select string_agg(action || '|' || reason, ';' order by id) from activity_log where actor = 'console (ann)'`)
	const want = "replay dead letter|the rule is gone;drop dead letter|refunded;replay|to be sure;resume replay|once more;cancel order|by telephone;audit|;audit|"
	if log != want {
		t.Errorf("the activity log:\n%s\nwant\n%s", log, want)
	}
}

// searches finds orders by id, buyer, status and page by page.
func (b browser) searches(ids map[string]string) {
	b.t.Helper()
	for query, want := range map[string]string{
		"id=" + ids["bob"]:                            "bob",
		"id=nonsense":                                 "",
		"user=ann":                                    "ann",
		"user=ann&activity=spring&status=held":        "",
		"activity=spring&status=held":                 "poison-2 poison-1",
		"activity=spring&status=confirmed":            "ann bob",
		"activity=spring":                             "ann bob poison-2 poison-1",
		"activity=spring&status=accepted":             "",
		"activity=spring&limit=1&after=" + ids["ann"]: "bob",
	} {
		var found struct {
			Orders []orderLine
			Next   string
		}
		eventually(b.t, query, func() (bool, string) { // the last may not be settled yet
			b.get(&found, 200, http.MethodGet, "/admin/v1/orders?"+query, "")
			var users []string
			for _, o := range found.Orders {
				users = append(users, o.User)
			}
			got := strings.Join(users, " ")
			return got == want, got
		})
		if strings.Contains(query, "limit=1") != (found.Next != "") {
			b.t.Errorf("%s: next %q", query, found.Next)
		}
	}
	for _, query := range []string{"", "status=held", "user=ann&status=accepted"} {
		if got := b.does(http.MethodGet, "/admin/v1/orders?"+query, ""); got.status != http.StatusBadRequest {
			b.t.Errorf("a search by %q: %d", query, got.status)
		}
	}
	if got := b.does(http.MethodGet, "/admin/v1/orders?activity=none", ""); got.status != http.StatusNotFound {
		b.t.Errorf("a search in an unknown activity: %d", got.status)
	}
}
