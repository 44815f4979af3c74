package main

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A worker is stopped (SIGSTOP) in the middle of a batch, for more than twice the
// lease's TTL, and goes on: another has settled, its own commit is refused.
func TestCase16PausedWorker(t *testing.T) {
	bothBackends(t, func(t *testing.T, i *installation) {
		api := i.serve("SECKILL_ROLES=api")
		h := i.holders()
		paused := i.serve("SECKILL_ROLES=worker")
		h.evenly(t, "the worker starts", paused)
		i.open(api, 100)

		// The middle of a batch: its transaction waits for the SKU's row.
		pool, err := pgxpool.New(t.Context(), i.setting("SECKILL_POSTGRES_URL"))
		must(t, err)
		defer pool.Close()
		tx, err := pool.Begin(t.Context())
		must(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		table := pgx.Identifier{i.setting("SECKILL_NAMESPACE"), "skus"}.Sanitize()
		_, err = tx.Exec(t.Context(), `select 1 from `+table+` for update`)
		must(t, err)
		for b := range 50 {
			status, body, err := call(http.MethodPost, api.http+"/v1/activities/a1/orders", `{"sku":"s1"}`, map[string]string{"X-User-ID": fmt.Sprint("u", b)})
			if err != nil || status != http.StatusAccepted {
				t.Fatalf("%d %s %v", status, body, err)
			}
		}
		until(t, "the worker waits in its transaction", func() bool {
			return i.queryInt(`select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'`,
				"seckill "+i.setting("SECKILL_NAMESPACE")) > 0
		})
		paused.signal(syscall.SIGSTOP)
		other := i.serve("SECKILL_ROLES=worker")
		must(t, tx.Rollback(t.Context()))

		// The paused worker's leases run out, all of them; its open transaction is
		// ended by the server and holds nobody up.
		until(t, "another worker holds every partition", func() bool {
			n := h.counts(t.Context())
			return n[fmt.Sprint(other.cmd.Process.Pid)] == 16 && len(n) == 1
		})
		until(t, "another worker has settled", func() bool {
			return i.queryInt(`select count(*) from orders where status = 'confirmed'`) == 50
		})
		terms := i.queryInt(`select max(term)::int from orders`)
		paused.signal(syscall.SIGCONT)
		h.evenly(t, "the paused worker goes on", paused, other)
		if n := i.queryInt(`select count(*) from orders where term <> $1`, terms); n != 0 {
			t.Errorf("%d orders were settled under another term than the successor's", n)
		}
		i.audit(50)
	})
}
