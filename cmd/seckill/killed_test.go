package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"seckill/consumer"
)

func (i *installation) queryInt(sql string, args ...any) int {
	i.t.Helper()
	pool, err := consumer.OpenPool(context.Background(), i.setting("SECKILL_POSTGRES_URL"), i.setting("SECKILL_NAMESPACE"), 2)
	must(i.t, err)
	defer pool.Close()
	rows, err := pool.Query(i.t.Context(), sql, args...)
	must(i.t, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	must(i.t, err)
	return n
}

// The API is killed again and again in mid-sale: every order that was answered is
// decided, and exactly the stock is sold.
func TestKilledAPI(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	i.serve("SECKILL_ROLES=worker")
	api := i.serve("SECKILL_ROLES=api")
	const stock, kills = 1000, 5
	i.open(api, stock)
	c := newCrowd(t, api)
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.buy(1500)
	}()
	for k := range kills {
		until(t, "the sale goes on", func() bool { return c.answers.Load() >= int64((k+1)*stock/(kills+1)) })
		next := i.serve("SECKILL_ROLES=api")
		api.kill()
		api = next
		c.target.Store(api)
	}
	<-over
	if len(c.accepted) != stock || c.soldOut != 500 {
		t.Errorf("%d orders accepted and %d buyers told sold out, want %d and 500", len(c.accepted), c.soldOut, stock)
	}
	i.audit(stock)
	c.decided(i)
}
