package lockprovider_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// TestRedisSlotMoves is case J2: the slot of the namespace moves to the other node of a
// cluster while a lock is held and waited for.
func TestRedisSlotMoves(t *testing.T) {
	t.Parallel()
	from, to := clusterNode(t), clusterNode(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	must(t, from.client.ClusterAddSlotsRange(ctx, 0, 16383).Err())
	must(t, from.client.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(to.port)).Err())
	known(ctx, t, from, to)

	const ttl = 4 * time.Second
	ns := stacktest.Namespace(t)
	metrics := prometheus.NewRegistry()
	open := func() *lockprovider.Provider {
		p, err := lockprovider.Open(ctx, lockprovider.Config{
			Backend: "redis", RedisURL: "redis://" + from.address + ",redis://" + to.address, Namespace: ns, TTL: ttl,
			Registerer: metrics, Logger: slog.New(slog.DiscardHandler),
		})
		must(t, err)
		t.Cleanup(func() { _ = p.Close(context.Background()) })
		return p
	}
	p, q := open(), open()
	a, err := p.Acquire(ctx, "n")
	must(t, err)
	granted := make(chan *lockprovider.Lease, 1)
	go func() {
		defer close(granted)
		if l, err := q.Acquire(ctx, "n"); err == nil {
			granted <- l
		}
	}()
	waits(ctx, t, p, "n")
	moveSlot(ctx, t, from, to, ns+":{"+ns+"/lock}:index")
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := a.Err(); err != nil {
			t.Fatalf("the move of the slot cost the lease: %v", err)
		}
	}
	must(t, a.Verify(ctx))
	must(t, a.Release(ctx))
	b, ok := <-granted
	if !ok || b.Token() <= a.Token() {
		t.Fatalf("granted %t, token %d after %d", ok, b.Token(), a.Token())
	}
	must(t, b.Release(ctx))

	// The waiters listen to the new node.
	for before := wokenByMessage(t, metrics); wokenByMessage(t, metrics) == before; {
		passOn(ctx, t, p, q)
	}
	if _, err := p.Inspect(ctx, "n"); !errors.Is(err, lockprovider.ErrNotHeld) {
		t.Errorf("after all releases: %v", err)
	}
}

// passOn hands a lock from one process to the other, which waits.
func passOn(ctx context.Context, t *testing.T, p, q *lockprovider.Provider) {
	t.Helper()
	a, err := p.Acquire(ctx, "n")
	must(t, err)
	done := make(chan error, 1)
	go func() {
		l, err := q.Acquire(ctx, "n")
		if err == nil {
			err = l.Release(ctx)
		}
		done <- err
	}()
	waits(ctx, t, p, "n")
	must(t, a.Release(ctx))
	must(t, <-done)
}

func wokenByMessage(t *testing.T, from *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "seckill_lock_wakeup_total" && l.GetValue() == "message" {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// known waits until both nodes agree on the cluster.
func known(ctx context.Context, t *testing.T, nodes ...node) {
	t.Helper()
	for {
		agree := 0
		for _, n := range nodes {
			list, err := n.client.ClusterNodes(ctx).Result()
			info, ierr := n.client.ClusterInfo(ctx).Result()
			if err == nil && ierr == nil && countLines(list) == len(nodes) && len(info) > 16 && info[:16] == "cluster_state:ok" {
				agree++
			}
		}
		if agree == len(nodes) {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the nodes do not agree on the cluster")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func countLines(s string) (n int) {
	for _, c := range s {
		if c == '\n' {
			n++
		}
	}
	return n
}

// waits returns when somebody waits for the name.
func waits(ctx context.Context, t *testing.T, p *lockprovider.Provider, name string) {
	t.Helper()
	for {
		in, err := p.Inspect(ctx, name)
		if err == nil && in.Waiters > 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("nobody waits: %+v, %v", in, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// moveSlot moves the slot of a key as redis-cli --cluster reshard does.
func moveSlot(ctx context.Context, t *testing.T, from, to node, key string) {
	t.Helper()
	slot := from.client.ClusterKeySlot(ctx, key).Val()
	source, target := from.client.ClusterMyID(ctx).Val(), to.client.ClusterMyID(ctx).Val()
	must(t, to.client.Do(ctx, "cluster", "setslot", slot, "importing", source).Err())
	must(t, from.client.Do(ctx, "cluster", "setslot", slot, "migrating", target).Err())
	for {
		keys, err := from.client.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		must(t, err)
		if len(keys) == 0 {
			break
		}
		args := []any{"migrate", "127.0.0.1", to.port, "", 0, 5000, "keys"}
		for _, k := range keys {
			args = append(args, k)
		}
		must(t, from.client.Do(ctx, args...).Err())
	}
	for _, n := range []node{to, from} {
		must(t, n.client.Do(ctx, "cluster", "setslot", slot, "node", target).Err())
	}
	if n := to.client.ClusterCountKeysInSlot(ctx, int(slot)).Val(); n == 0 {
		t.Fatalf("slot %d of the new node is empty", slot)
	}
}
