package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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

// The API is killed in mid-sale, and the sale is sold out by another: every order
// that was answered is decided, and exactly the stock is sold.
func TestKilledAPI(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	i.serve("SECKILL_ROLES=worker")
	api := i.serve("SECKILL_ROLES=api")
	const stock = 1000
	i.open(api, stock)
	c := newCrowd(t, api)
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.buy(1500)
	}()
	until(t, "the sale goes on", func() bool { return c.answers.Load() >= stock/2 })
	next := i.serve("SECKILL_ROLES=api")
	api.kill()
	c.target.Store(next)
	<-over
	if len(c.accepted) != stock || c.soldOut != 500 {
		t.Errorf("%d orders accepted and %d buyers told sold out, want %d and 500", len(c.accepted), c.soldOut, stock)
	}
	i.audit(stock)
	c.decided(i)
}

// API processes are killed at random 200 times under load: every order id that was
// answered with 202 reaches a final state, and the books are right.
func TestCase04APIKilled200Times(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "etcd")
	i.serve("SECKILL_ROLES=worker")
	const kills, nodes = 200, 3
	first := i.serve("SECKILL_ROLES=api")
	i.open(first, 1_000_000)
	c := newCrowd(t, first)
	ctx, stop := context.WithCancel(t.Context())
	var sale, killers sync.WaitGroup
	sale.Go(func() { c.buyUntil(ctx) })
	var killed atomic.Int64
	for n := range nodes {
		killers.Go(func() {
			random := rand.New(rand.NewPCG(4, uint64(n)))
			for killed.Add(1) <= kills {
				node := i.serve("SECKILL_ROLES=api")
				c.target.Store(node)
				answered, more := c.answers.Load(), random.Int64N(40)
				until(t, "the sale goes on", func() bool { return c.answers.Load() > answered+more })
				node.kill()
				c.target.Store(first) // the buyers find another node
			}
		})
	}
	killers.Wait()
	c.target.Store(first)
	stop()
	sale.Wait()
	t.Logf("%d orders accepted over %d kills", len(c.accepted), kills)
	i.audit(int64(len(c.accepted)))
	c.decided(i)
}
