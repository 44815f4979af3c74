package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A unit added at the gate by hand: reconcile shows it, asks, repairs it, and ends
// with an audit.
func TestReconcileByCommand(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	if got := i.must(exitFailed, "reconcile", "--dry-run"); !strings.Contains(got.stderr, "start seckill serve") {
		t.Errorf("before the first start: %s", got.stderr)
	}
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	i.serve("--roles", "api") // no worker repairs it meanwhile
	i.must(exitDone, "reconcile")
	client := redis.NewClient(redisOptions(t))
	defer func() { _ = client.Close() }()
	if err := client.HIncrBy(t.Context(), i.namespace+":{spring/0}:stock", "s1", 1).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first changes nothing
		got := i.must(exitFinding, "reconcile", "--dry-run", "--activity", "spring")
		if !strings.Contains(got.stdout, "rebuild: ") || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("dry run: %s%s", got.stdout, got.stderr)
		}
	}
	if got := i.must(exitUsage, "reconcile"); !strings.Contains(got.stderr, "give --yes") || got.stdout != "" {
		t.Errorf("without consent: %s%s", got.stdout, got.stderr)
	}
	var done struct {
		Findings []struct{ Repair, Result string }
		Audit    struct {
			OK         bool `json:"ok"`
			Activities []struct {
				SKUs []struct {
					Gate int64 `json:"gate_stock"`
				} `json:"skus"`
			}
		}
	}
	i.answer(&done, "reconcile", "--yes", "--actor", "ann", "--reason", "edited by hand")
	if len(done.Findings) != 1 || !strings.HasPrefix(done.Findings[0].Result, "done: epoch ") || !done.Audit.OK || done.Audit.Activities[0].SKUs[0].Gate != 10 {
		t.Errorf("repaired: %+v", done)
	}
	if log := i.query(`select actor || '|' || subject || '|' || reason from activity_log where action = 'reconcile by rebuild'`); log != "ann|spring|edited by hand" {
		t.Errorf("activity log: %s", log)
	}

	// What is not safe to repair stays, is named, and is the exit code.
	i.query(`update skus set stock = stock - 1 where sku_id = 's2' returning sku_id`)
	got := i.must(exitFinding, "reconcile", "--output", "json")
	var named struct {
		Findings []struct{ Repair, Next string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &named); err != nil || len(named.Findings) == 0 || !strings.Contains(got.stdout, "from "+i.namespace+".skus") {
		t.Errorf("a wrong stock column: %v, %s", err, got.stdout)
	}
	for name, tc := range map[string]struct {
		code int
		args []string
		want string
	}{
		"no activity":   {exitFailed, []string{"--activity", "autumn"}, "there is no activity autumn"},
		"bad wait":      {exitUsage, []string{"--wait", "2h"}, "--wait"},
		"wrong backend": {exitUsage, []string{"--lock-backend", "redis"}, "SECKILL_LOCK_BACKEND=etcd"},
		"partitions":    {exitUsage, []string{"--partitions", "3"}, "SECKILL_PARTITIONS=16"},
	} {
		got := i.must(tc.code, append([]string{"reconcile", "--dry-run"}, tc.args...)...)
		if !strings.Contains(got.stderr, tc.want) || got.stdout != "" {
			t.Errorf("%s: %s%s", name, got.stdout, got.stderr)
		}
	}
}

// Rule 25, its end: a gate that is at odds with the ledger at rest is declared suspect
// by a worker and rebuilt, and the unit that somebody added is gone.
func TestWorkerRebuildsWrongGate(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	s := i.serve()
	i.must(exitDone, "order", "place", "spring", "s1", "--user", "ann", "--yes")
	s.shows(map[string]string{`seckill_stock{activity="spring",sku="s1",source="gate"}`: "9", `seckill_undecided_orders`: "0"})
	before := i.query(`select epoch::text from activities`)
	client := redis.NewClient(redisOptions(t))
	defer func() { _ = client.Close() }()
	if err := client.HIncrBy(t.Context(), i.namespace+":{spring/0}:stock", "s1", 1).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gate is rebuilt", func() (bool, string) {
		epoch := i.query(`select epoch::text from activities`)
		return epoch > before, epoch
	})
	s.shows(map[string]string{
		`seckill_stock{activity="spring",sku="s1",source="gate"}`: "9",
		`seckill_gate_state{activity="spring",state="open"}`:      "1",
		`seckill_law_violations`:                                  "0",
	})
	i.must(exitDone, "audit", "--wait", "10s")
	if log := s.stderr.String(); strings.Count(log, "declared suspect") != 1 || !strings.Contains(log, "off by +1") {
		t.Errorf("log: %s", log)
	}

	// A ledger that is wrong itself is not what a gate should be filled from.
	i.query(`update skus set stock = stock - 1 where sku_id = 's1' returning sku_id`)
	epoch := i.query(`select epoch::text from activities`)
	s.shows(map[string]string{`seckill_law_violations`: "1"})
	if now := i.query(`select epoch::text || suspect from activities`); now != epoch {
		t.Errorf("a gate was rebuilt from broken books: %s, before %s", now, epoch)
	}
}
