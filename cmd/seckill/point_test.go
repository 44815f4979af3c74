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

// inTransaction is a sale of 100 units with 50 orders in the log, and a worker that
// stands in the middle of the transaction that settles them, until goOn. The tests of
// all points: consumer/POINTS.md.
func inTransaction(t *testing.T) (i *installation, worker *process, goOn func()) {
	t.Helper()
	i = newInstallation(t, "etcd")
	api := i.serve("SECKILL_ROLES=api")
	worker = i.serve("SECKILL_ROLES=worker")
	i.holders().evenly(t, "the worker starts", worker)
	i.open(api, 100)
	pool, err := pgxpool.New(t.Context(), i.setting("SECKILL_POSTGRES_URL"))
	must(t, err)
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(t.Context())
	must(t, err)
	goOn = func() { _ = tx.Rollback(context.Background()) }
	t.Cleanup(goOn)
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
	return i, worker, goOn
}

// Point 9 with a real process: a worker is killed (SIGKILL) in the middle of its
// transaction. Its backend is left waiting for the lock, and may not write when it gets
// it. Red if half of a settlement, or two, reach the books.
func TestPoint09WorkerKilledInTransaction(t *testing.T) {
	t.Parallel()
	i, worker, goOn := inTransaction(t)
	worker.kill()
	other := i.serve("SECKILL_ROLES=worker")
	goOn()
	i.holders().evenly(t, "another worker takes over", other)
	i.audit(50)
	if n := i.queryInt(`select count(*) from orders`); n != 50 {
		t.Errorf("%d rows for 50 orders", n)
	}
}

// Point 43 with a real process: a worker is told to stop (SIGTERM) in the middle of its
// transaction: it commits what it has in hand and ends well, with nothing left for a
// successor to find. Red if the signal cuts the settlement off.
func TestPoint43WorkerStoppedInTransaction(t *testing.T) {
	t.Parallel()
	i, worker, goOn := inTransaction(t)
	before := i.queryInt(`select count(*) from orders`)
	term := i.queryInt(`select max(term)::int from partitions`)
	worker.signal(syscall.SIGTERM)
	goOn()
	<-worker.ended
	if code := worker.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the stopped worker ended with %d, want 0", code)
	}
	after := i.queryInt(`select count(*) from orders`)
	if after <= before || i.queryInt(`select count(*) from orders where term > $1`, term) != 0 {
		t.Errorf("%d rows before the stop, %d after: the batch in hand was not finished", before, after)
	}
	i.serve("SECKILL_ROLES=worker") // for what was not in its hands
	i.audit(50)
}
