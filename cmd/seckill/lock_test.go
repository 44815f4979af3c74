package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestLockSwitch(t *testing.T) {
	t.Parallel()
	for _, from := range []string{backendEtcd, backendRedis} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			to := map[string]string{backendEtcd: backendRedis, backendRedis: backendEtcd}[from]
			i := newInstalled(t, from)
			s := i.serve("--roles", "worker", "--partitions", "4")
			var locks struct {
				Backend string
				Locks   []lockLine
			}
			eventually(t, "all partitions are held", func() (bool, string) {
				i.answer(&locks, "lock", "list")
				n := 0
				for _, l := range locks.Locks {
					if strings.HasPrefix(l.Name, "partition/") && l.Owner != "" && l.Token > 0 {
						n++
					}
				}
				return n == 4, fmt.Sprint(locks)
			})
			got := i.must(exitFailed, "lock", "switch", "--to", to, "--yes")
			if !strings.Contains(got.stderr, "is held by") || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("switched under a worker: %s", got.stderr)
			}
			s.stop()

			term := i.query(`select sum(term)::text from partitions`)
			i.must(exitDone, "lock", "switch", "--to", to, "--yes", "--actor", "ann", "--reason", "moving")
			if now := i.query(`select sum(term)::text from partitions`); now == term {
				t.Error("the switch did not fence the former settlers")
			}
			log := i.query(`select actor || '|' || detail || '|' || reason from activity_log where action = 'switch lock backend'`)
			if log != "ann|"+from+" to "+to+"|moving" {
				t.Errorf("activity log: %s", log)
			}
			var again struct{ Switched bool }
			i.answer(&again, "lock", "switch", "--to", to, "--yes")
			if again.Switched {
				t.Error("switched to what it was")
			}
			// A worker of the former configuration refuses and says what to do.
			got = i.must(exitUsage, "serve", "--roles", "worker", "--partitions", "4")
			if !strings.Contains(got.stderr, "SECKILL_LOCK_BACKEND="+to) || !strings.Contains(got.stderr, "seckill lock switch --to "+from) {
				t.Errorf("a worker of the former configuration: %s", got.stderr)
			}
			i.serve("--roles", "worker", "--partitions", "4", "--lock-backend", to)
			eventually(t, "all partitions are held on the other store", func() (bool, string) {
				i.answer(&locks, "lock", "list", "--lock-backend", to)
				return len(locks.Locks) >= 5, fmt.Sprint(locks) // and the member, the sweep
			})
		})
	}
}
