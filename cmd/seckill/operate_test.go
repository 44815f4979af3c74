package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/consumer"
	"seckill/deploy/stack/stacktest"
)

const springFile = `
activity: spring
title: Spring sale
ends_at: 2099-12-01T22:00:00+08:00
skus:
  - {sku: s1, total: 10, limit_per_user: 2, price: 19900}
  - {sku: s2, total: 5}
`

// A whole sale by commands on the stores, and by the admin API beside them.
func TestSaleByCommands(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	file := write(t, springFile)
	var a activityAdminView
	i.answer(&a, "activity", "apply", "-f", file, "--yes", "--actor", "ann", "--reason", "spring")
	if a.State != "draft" || len(a.SKUs) != 2 || a.SKUs[0].Total != 10 || a.SKUs[1].LimitPerUser != 1 || a.EndsAt == nil {
		t.Errorf("applied: %+v", a)
	}
	i.answer(&a, "activity", "open", "spring", "--yes", "--actor", "ann")
	if a.State != "open" || a.Epoch == 0 {
		t.Errorf("opened: %+v", a)
	}
	i.answer(&a, "activity", "open", "spring", "--yes")

	var first, again placed
	i.answer(&first, "order", "place", "spring", "s1", "--user", "bob", "--quantity", "2", "--key", "k", "--yes", "--actor", "ann")
	i.answer(&again, "order", "place", "spring", "s1", "--user", "bob", "--quantity", "2", "--key", "k", "--yes")
	if first.Repeat || !again.Repeat || first.ID != again.ID || first.Status != "accepted" {
		t.Errorf("placed %+v, again %+v", first, again)
	}
	var order orderLine
	i.answer(&order, "order", "get", first.ID)
	if order.Status != "accepted" || order.User != "bob" {
		t.Errorf("undecided order: %+v", order)
	}
	var orders struct{ Orders []orderLine }
	i.answer(&orders, "order", "list", "--activity", "spring", "--status", "accepted")
	if len(orders.Orders) != 1 || orders.Orders[0].ID != first.ID {
		t.Errorf("undecided orders: %+v", orders)
	}
	got := i.must(exitFailed, "order", "place", "spring", "s1", "--user", "bob", "--yes")
	if !strings.Contains(got.stderr, "limit-reached") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("over the limit: %s", got.stderr)
	}

	s := i.serve()
	var report consumer.Report
	i.answer(&report, "audit", "--wait", "30s")
	if !report.OK || !report.AtRest || report.Activities[0].SKUs[0].Live != 2 {
		t.Errorf("audit: %+v", report)
	}
	i.answer(&orders, "order", "list", "--activity", "spring", "--user", "bob")
	if len(orders.Orders) != 1 || orders.Orders[0].Status != "confirmed" || orders.Orders[0].Amount != 2*19900 {
		t.Errorf("decided orders: %+v", orders)
	}
	for _, step := range []string{"pause", "resume", "close"} {
		i.must(exitDone, "activity", step, "spring", "--yes")
	}
	got = i.must(exitFailed, "activity", "open", "spring", "--yes")
	if !strings.Contains(got.stderr, "closed") {
		t.Errorf("opening a closed sale: %s", got.stderr)
	}
	if status, body := s.request(http.MethodGet, "/admin/v1/activities/spring/audit?wait=5s", ""); status != 200 || !strings.Contains(body, `"ok":true`) {
		t.Errorf("audit by HTTP: %d %s", status, body)
	}
	if status, _ := s.request(http.MethodGet, "/admin/v1/activities/none/audit", ""); status != 404 {
		t.Errorf("audit of no activity by HTTP: %d", status)
	}
	if code := s.stop(); code != exitDone {
		t.Errorf("serve ended with %d: %s", code, s.stderr)
	}
	log := i.query(`select string_agg(actor || '|' || action || '|' || detail || '|' || reason, ';' order by id) from activity_log where subject = 'spring' and actor = 'ann'`)
	if log != "ann|apply activity|2 SKUs|spring;ann|set activity state|draft to open|" {
		t.Errorf("activity log: %s", log)
	}
	if n := i.query(`select count(*)::text from activity_log where action = 'place order' and subject = $1`, first.ID); n != "1" {
		t.Errorf("%s entries for one order", n)
	}

	// Damage is a finding, and the table names it.
	client := redis.NewClient(redisOptions(t))
	defer func() { _ = client.Close() }()
	if err := client.HIncrBy(t.Context(), i.namespace+":{spring/0}:stock", "s1", 1).Err(); err != nil {
		t.Fatal(err)
	}
	got = i.must(exitFinding, "audit")
	if !strings.Contains(got.stdout, "stranded") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("audit of damage: %s%s", got.stdout, got.stderr)
	}
}

func redisOptions(t *testing.T) *redis.Options {
	o, err := redis.ParseURL(stacktest.Get(t).RedisURL())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// What is refused says so in one line, with the right exit code.
func TestCommandRefusals(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	// First, and alone: others of the commands below record the installation.
	if got := runWith(t, i.environ, "lock", "switch", "--to", "redis", "--yes"); got.code != exitFailed || !strings.Contains(got.stderr, "start seckill serve") {
		t.Errorf("switch before any start: exit %d, stderr %q", got.code, got.stderr)
	}
	for _, tc := range []struct {
		name   string
		env    []string
		args   []string
		code   int
		stderr string
	}{
		{"no consent", nil, []string{"activity", "open", "spring"}, exitUsage, "give --yes"},
		{"no consent to a place", nil, []string{"order", "place", "spring", "s1", "--user", "u"}, exitUsage, "give --yes"},
		{"no activity", nil, []string{"activity", "show", "autumn"}, exitFailed, "no such activity"},
		{"open no activity", nil, []string{"activity", "open", "autumn", "--yes"}, exitFailed, "no such activity"},
		{"pause a draft", nil, []string{"activity", "pause", "spring", "--yes"}, exitFailed, "has not been opened"},
		{"resume a draft", nil, []string{"activity", "resume", "spring", "--yes"}, exitFailed, "has not been opened"},
		{"audit no activity", nil, []string{"audit", "--activity", "autumn"}, exitFailed, "there is no activity autumn"},
		{"audit bad wait", nil, []string{"audit", "--wait", "soon"}, exitUsage, "--wait"},
		{"place in no activity", nil, []string{"order", "place", "autumn", "s1", "--user", "u", "--yes"}, exitFailed, "not-found"},
		{"place in a draft", nil, []string{"order", "place", "spring", "s1", "--user", "u", "--yes"}, exitFailed, "not-started"},
		{"place nothing", nil, []string{"order", "place", "spring", "s1", "--user", "u", "--quantity", "0", "--yes"}, exitUsage, "--quantity 0"},
		{"place for nobody", nil, []string{"order", "place", "spring", "s1", "--yes"}, exitUsage, "--user is needed"},
		{"get no id", nil, []string{"order", "get", "x"}, exitUsage, "not an order id"},
		{"get no order", nil, []string{"order", "get", "01999999-0000-7000-8000-000000000001"}, exitFailed, "no such order"},
		{"list no status", nil, []string{"order", "list", "--activity", "spring", "--status", "sold"}, exitUsage, "accepted, held"},
		{"list no activity", nil, []string{"order", "list"}, exitUsage, "--activity"},
		{"no file", nil, []string{"activity", "apply", "-f", "/does/not/exist", "--yes"}, exitUsage, "no such file"},
		{"bad file", nil, []string{"activity", "apply", "--yes", "-f", write(t, "activity: x\nskus:\n- {sku: s1, total: -1}\n")}, exitUsage, "total"},
		{"typo in a file", nil, []string{"activity", "apply", "--yes", "-f", write(t, "activity: x\nsku: []\n")}, exitUsage, "sku"},
		{"unreachable Postgres", []string{"SECKILL_POSTGRES_URL=postgres://127.0.0.1:1/x", "SECKILL_START_TIMEOUT=1s"}, []string{"audit"}, exitFailed, "SECKILL_POSTGRES_URL"},
		{"unreachable Redis", []string{"SECKILL_REDIS_URL=redis://127.0.0.1:1", "SECKILL_START_TIMEOUT=1s"}, []string{"audit"}, exitFailed, "SECKILL_REDIS_URL"},
		{"unreachable NATS", []string{"SECKILL_NATS_URL=nats://127.0.0.1:1", "SECKILL_START_TIMEOUT=1s"}, []string{"audit"}, exitFailed, "SECKILL_NATS_URL"},
		{"unreachable locks", []string{"SECKILL_ETCD_ENDPOINTS=127.0.0.1:1"}, []string{"lock", "list"}, exitFailed, "SECKILL_ETCD_ENDPOINTS"},
		{"not migrated", []string{"SECKILL_NAMESPACE=" + i.namespace + "x"}, []string{"audit"}, exitFailed, "run: seckill migrate"},
		{"not migrated show", []string{"SECKILL_NAMESPACE=" + i.namespace + "x"}, []string{"activity", "list"}, exitFailed, "run: seckill migrate"},
		{"no Postgres given", []string{"SECKILL_POSTGRES_URL="}, []string{"activity", "list"}, exitUsage, "postgres.url"},
		{"switch to nothing", nil, []string{"lock", "switch", "--to", "zookeeper", "--yes"}, exitUsage, "etcd or redis"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := runWith(t, append(append([]string{}, i.environ...), tc.env...), tc.args...)
			if got.code != tc.code || !strings.Contains(got.stderr, tc.stderr) {
				t.Errorf("exit %d, want %d; stderr %q lacks %q", got.code, tc.code, got.stderr, tc.stderr)
			}
			if got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("want one line on stderr and nothing on stdout, got %q and %q", got.stderr, got.stdout)
			}
		})
	}
}
