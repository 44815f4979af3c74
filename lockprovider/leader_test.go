package lockprovider_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
	"seckill/lockprovider/locktest"
)

// leaderFaults take the leader away and bring it back.
var leaderFaults = map[string]struct{ away, back func(*members) error }{
	"killed": {(*members).Kill, (*members).Start},
	"paused": {(*members).Pause, (*members).Resume}, // for longer than an election takes
}

// TestEtcdLeaderChange is case K3 for a holder that can reach the other members: it stays
// the holder, and the next one comes after its release.
func TestEtcdLeaderChange(t *testing.T) {
	t.Parallel()
	c := startMembers(t, 3)
	ns := stacktest.Namespace(t)
	const ttl = 20 * time.Second
	p, q := overMembers(t, ns, ttl, c.addresses()...), overMembers(t, ns, ttl, c.addresses()...)
	for what, fault := range leaderFaults {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		a, err := p.Acquire(ctx, "n")
		must(t, err)
		granted := acquireLater(ctx, q, "n")
		waits(ctx, t, p, "n")
		must(t, fault.away(c))
		must(t, c.changed(ctx))
		eventually(ctx, t, what+": the new leader has renewed the lease", func() bool {
			must(t, a.Err())
			return a.Remaining() > ttl*3/4 && a.Verify(ctx) == nil
		})
		select {
		case b := <-granted:
			t.Fatalf("%s: a second holder, token %d, beside token %d", what, b.Token(), a.Token())
		default:
		}
		eventually(ctx, t, what+": released", func() bool { return a.Release(ctx) == nil })
		b := <-granted
		if b == nil || b.Token() <= a.Token() {
			t.Fatalf("%s: the waiter got %v after token %d", what, b, a.Token())
		}
		must(t, fault.back(c))
		eventually(ctx, t, what+": the next holder keeps it, or is told", func() bool { return b.Verify(ctx) == nil || lost(b) })
		eventually(ctx, t, what+": released again", func() bool { return b.Release(ctx) == nil || lost(b) })
	}
}

// TestEtcdLeaderLost is case K3 for a holder that can reach the old leader only: it has
// stopped before the new leader hands the name on, and stays stopped when the old one is
// back with what it believed.
func TestEtcdLeaderLost(t *testing.T) {
	t.Parallel()
	c := startMembers(t, 3)
	ns := stacktest.Namespace(t)
	const ttl = 3 * time.Second
	for what, fault := range leaderFaults {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		old, err := c.leader()
		must(t, err)
		var rest []string
		for _, m := range c.all {
			if m != old {
				rest = append(rest, m.address)
			}
		}
		p, q := overMembers(t, ns, ttl, old.address), overMembers(t, ns, ttl, rest...)
		a, err := p.Acquire(ctx, "n")
		must(t, err)
		granted := acquireLater(ctx, q, "n")
		waits(ctx, t, p, "n")
		must(t, fault.away(c))
		b := <-granted
		if err := a.Err(); !errors.Is(err, lockprovider.ErrLost) {
			t.Fatalf("%s: two holders: the old one says %v, with %v left", what, err, a.Remaining())
		}
		if b == nil || b.Token() <= a.Token() {
			t.Fatalf("%s: the waiter got %v after token %d", what, b, a.Token())
		}
		must(t, fault.back(c))
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if a.Err() == nil {
				t.Fatalf("%s: the old holder's lease came back with its leader", what)
			}
		}
		eventually(ctx, t, what+": released", func() bool { return b.Release(ctx) == nil || lost(b) })
	}
}

// TestEtcdLeaderFaults runs the cases that hit a server of their own against a cluster
// whose leader is killed and paused again and again.
func TestEtcdLeaderFaults(t *testing.T) {
	t.Parallel()
	c := startMembers(t, 3)
	_, err := c.leader()
	must(t, err)
	h := harness(t, "etcd")
	h.Address, h.Own = c.Address(), func(locktest.T) locktest.Server { return c }
	for _, id := range []string{"E7", "L1b"} {
		t.Run(id, func(t *testing.T) { locktest.RunOne(t, h, id) })
	}
}

// lost tells whether a holder was told that it is one no more. The member that led before
// may take a lease back when it returns, since it has not seen its renewals.
func lost(l *lockprovider.Lease) bool { return errors.Is(l.Err(), lockprovider.ErrLost) }

// changed waits until another member leads than the one that was hit.
func (c *members) changed(ctx context.Context) error {
	for ctx.Err() == nil {
		if m, err := c.leader(); err != nil || m != c.hit {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return context.Cause(ctx)
}

// acquireLater waits for the name on a goroutine, anew if its own session was lost while
// no member led; nil comes out if ctx ends first.
func acquireLater(ctx context.Context, p *lockprovider.Provider, name string) <-chan *lockprovider.Lease {
	granted := make(chan *lockprovider.Lease, 1)
	go func() {
		for ctx.Err() == nil {
			if l, err := p.Acquire(ctx, name); err == nil {
				granted <- l
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		granted <- nil
	}()
	return granted
}

func eventually(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
