package lockprovider_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
	"seckill/lockprovider/locktest"
)

// overRedis makes a provider over the Redis at an address.
func overRedis(t *testing.T, ns string, ttl time.Duration, address string) *lockprovider.Provider {
	t.Helper()
	return openProvider(t, lockprovider.Config{Backend: "redis", RedisURL: "redis://" + address, Namespace: ns, TTL: ttl})
}

// openProvider opens a provider that is closed with the test.
func openProvider(t *testing.T, c lockprovider.Config) *lockprovider.Provider {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	p, err := lockprovider.Open(context.Background(), c)
	must(t, err)
	t.Cleanup(func() {
		end, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = p.Close(end)
	})
	return p
}

// TestRedisFailover is case J4 as far as anything is promised: nothing waits for a
// replica, so a lock that the replica has is kept when it takes over, and of one that it
// has not there may be two holders. Only the fence keeps their writes apart.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	primary := redisNode(t, nil)
	between := locktest.NewProxy(t, primary.address)
	replica := redisNode(t, nil, "--replicaof", "127.0.0.1 "+portOf(t, between))
	front := locktest.NewProxy(t, primary.address)
	ns := stacktest.Namespace(t)
	const ttl = 10 * time.Second
	p, q := overRedis(t, ns, ttl, front.Address()), overRedis(t, ns, ttl, front.Address())
	key := func(name string) string { return ns + ":{" + ns + "/lock}:held:" + name }

	kept, err := p.Acquire(ctx, "kept")
	must(t, err)
	eventually(ctx, t, "the replica has the lock", func() bool { return replica.client.Exists(ctx, key("kept")).Val() == 1 })
	between.Cut()
	lost, err := p.Acquire(ctx, "lost")
	must(t, err)
	if replica.client.Exists(ctx, key("lost")).Val() != 0 {
		t.Fatal("the replica has what it should lack")
	}
	must(t, primary.process.Process.Kill())
	must(t, replica.client.ReplicaOf(ctx, "NO", "ONE").Err())
	front.Redirect(replica.address)

	second, err := q.Acquire(ctx, "lost")
	must(t, err)
	f := newFence(ctx, t, ns)
	f.claims(ctx, t, second.Token(), true)
	f.claims(ctx, t, lost.Token(), false)
	ends(t, lost, ttl)
	eventually(ctx, t, "the replica has renewed the lock it had", func() bool {
		must(t, kept.Err())
		return kept.Remaining() > ttl*3/4 && kept.Verify(ctx) == nil
	})
	must(t, second.Err())
	must(t, second.Release(ctx))
	must(t, kept.Release(ctx))
}

func portOf(t *testing.T, x *locktest.Proxy) string {
	t.Helper()
	_, port, err := net.SplitHostPort(x.Address())
	must(t, err)
	return port
}

// fence is a row that only the newest holder may write.
type fence struct {
	conn  *pgx.Conn
	table string
}

func newFence(ctx context.Context, t *testing.T, name string) fence {
	t.Helper()
	conn, err := pgx.Connect(ctx, stacktest.Get(t).PostgresURL())
	must(t, err)
	f := fence{conn, pgx.Identifier{name}.Sanitize()}
	t.Cleanup(func() {
		_, _ = conn.Exec(context.Background(), "DROP TABLE IF EXISTS "+f.table)
		_ = conn.Close(context.Background())
	})
	_, err = conn.Exec(ctx, "CREATE TABLE "+f.table+" AS SELECT 0::bigint AS fence")
	must(t, err)
	return f
}

// claims wants a holder let in, or kept out.
func (f fence) claims(ctx context.Context, t *testing.T, token uint64, want bool) {
	t.Helper()
	tag, err := f.conn.Exec(ctx, "UPDATE "+f.table+" SET fence = $1 WHERE fence <= $1", int64(token))
	must(t, err)
	if got := tag.RowsAffected() == 1; got != want {
		t.Errorf("token %d let in: %t", token, got)
	}
}
