package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// series are the lines of /metrics that are ours, by name with labels.
func (s *served) series() map[string]string {
	s.t.Helper()
	_, body := s.request(http.MethodGet, "/metrics", "")
	found := map[string]string{}
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "seckill_") {
			found[name] = value
		}
	}
	return found
}

// shows polls until every series has its value; "" means that it is not there.
func (s *served) shows(want map[string]string) {
	s.t.Helper()
	eventually(s.t, "the gauges show the sale", func() (bool, string) {
		got := s.series()
		for name, value := range want {
			if got[name] != value {
				return false, name + " is " + got[name] + ", want " + value
			}
		}
		return true, ""
	})
}

func TestGauges(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.must(exitDone, "activity", "apply", "-f", write(t, springFile), "--yes")
	i.must(exitDone, "activity", "open", "spring", "--yes")
	s := i.serve()
	i.must(exitDone, "order", "place", "spring", "s1", "--user", "ann", "--quantity", "2", "--yes")
	calm := map[string]string{
		`seckill_backlog_orders{partition="0"}`:                     "0",
		`seckill_backlog_orders{partition="15"}`:                    "0",
		`seckill_oldest_unsettled_seconds`:                          "0",
		`seckill_undecided_orders`:                                  "0",
		`seckill_release_due`:                                       "0",
		`seckill_dead_letters`:                                      "0",
		`seckill_law_violations`:                                    "0",
		`seckill_stock{activity="spring",sku="s1",source="gate"}`:   "8",
		`seckill_stock{activity="spring",sku="s1",source="ledger"}`: "8",
		`seckill_gate_state{activity="spring",state="open"}`:        "1",
		`seckill_gate_state{activity="spring",state="paused"}`:      "0",
	}
	s.shows(calm)
	i.must(exitDone, "activity", "pause", "spring", "--yes")
	s.shows(map[string]string{
		`seckill_gate_state{activity="spring",state="open"}`:   "0",
		`seckill_gate_state{activity="spring",state="paused"}`: "1",
	})

	client := redis.NewClient(redisOptions(t))
	defer func() { _ = client.Close() }()
	stock := i.namespace + ":{spring/0}:stock"
	if err := client.HIncrBy(t.Context(), stock, "s1", 1).Err(); err != nil {
		t.Fatal(err)
	}
	s.shows(map[string]string{`seckill_law_violations`: "1", `seckill_stock{activity="spring",sku="s1",source="gate"}`: "9"})
	if err := client.HIncrBy(t.Context(), stock, "s1", -1).Err(); err != nil {
		t.Fatal(err)
	}
	s.shows(map[string]string{`seckill_law_violations`: "0"})

	// A closed sale takes its series with it.
	i.must(exitDone, "activity", "close", "spring", "--yes")
	s.shows(map[string]string{
		`seckill_stock{activity="spring",sku="s1",source="gate"}`:   "",
		`seckill_stock{activity="spring",sku="s1",source="ledger"}`: "",
		`seckill_gate_state{activity="spring",state="open"}`:        "",
		`seckill_undecided_orders`:                                  "0",
	})
}
