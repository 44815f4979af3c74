package lockprovider_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// overMembers makes a provider that knows the given members.
func overMembers(t *testing.T, ns string, ttl time.Duration, addresses ...string) *lockprovider.Provider {
	t.Helper()
	return openProvider(t, lockprovider.Config{Backend: "etcd", EtcdEndpoints: addresses, Namespace: ns, TTL: ttl})
}

// TestEtcdMinority is case K5: a member that has lost the majority answers in bounds, and
// not with a lock; the holder stops at its deadline, and all is well with the majority.
func TestEtcdMinority(t *testing.T) {
	t.Parallel()
	c := startMembers(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p := overMembers(t, stacktest.Namespace(t), 2*time.Second, c.all[0].address)
	held, err := p.Acquire(ctx, "held") // waits until the cluster has a leader
	must(t, err)
	for range 2 { // whoever leads at first
		for _, m := range c.all[1:] {
			must(t, m.kill())
		}
		began := time.Now()
		if _, err := p.TryAcquire(ctx, "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
			t.Errorf("try in the minority: %v", err)
		}
		if _, err := p.Acquire(ctx, "n", lockprovider.WithWait(time.Second)); !errors.Is(err, lockprovider.ErrUnavailable) {
			t.Errorf("acquire in the minority: %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the answers took %v", took)
		}
		ends(t, held, held.TTL()+10*time.Second)
		for _, m := range c.all[1:] {
			must(t, m.start())
		}
		next, err := p.Acquire(ctx, "held")
		must(t, err)
		if next.Token() <= held.Token() {
			t.Errorf("token %d after %d", next.Token(), held.Token())
		}
		held = next
	}
	must(t, held.Verify(ctx))
}

// ends wants the lease lost, and its holder told in time.
func ends(t *testing.T, l *lockprovider.Lease, limit time.Duration) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(limit):
		t.Fatal("the holder was not told")
	}
	if err := l.Err(); !errors.Is(err, lockprovider.ErrLost) {
		t.Errorf("the holder: %v", err)
	}
}

// stays wants a lease kept and renewed.
func stays(ctx context.Context, t *testing.T, l *lockprovider.Lease, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		must(t, l.Err())
	}
	must(t, l.Verify(ctx))
}
