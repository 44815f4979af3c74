package lockprovider_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// serverClock is the wall clock of one Redis, which a small library loaded before the
// system's own shifts by what a file says (testdata/wallclock.c). The compiler is the one
// that the race detector needs.
type serverClock struct {
	t       *testing.T
	file    string
	library string
}

func newServerClock(t *testing.T) *serverClock {
	t.Helper()
	dir := t.TempDir()
	c := &serverClock{t, filepath.Join(dir, "offset"), filepath.Join(dir, "wallclock.so")}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", c.library, "testdata/wallclock.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("compile testdata/wallclock.c (install gcc): %v\n%s", err, out)
	}
	must(t, os.WriteFile(c.file, make([]byte, 8), 0o600))
	return c
}

func (c *serverClock) environ() []string {
	return []string{"LD_PRELOAD=" + c.library, "WALLCLOCK_OFFSET=" + c.file}
}

// set makes the clock differ from the machine's.
func (c *serverClock) set(d time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	must(c.t, err)
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(d.Microseconds())))
	must(c.t, errors.Join(err, f.Close()))
}

// TestRedisServerClock is case J7: the server's wall clock steps forward, which ends all
// locks at once, and back, behind where it began. No client trusts a wall clock of
// anybody's for its own deadline; tokens rise all the same, and the fence keeps out whoever
// was overtaken.
func TestRedisServerClock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	clock := newServerClock(t)
	server := redisNode(t, clock.environ())
	ns := stacktest.Namespace(t)
	const ttl = 4 * time.Second
	p, q := overRedis(t, ns, ttl, server.address), overRedis(t, ns, ttl, server.address)
	f := newFence(ctx, t, ns)

	a, err := p.Acquire(ctx, "n")
	must(t, err)
	f.claims(ctx, t, a.Token(), true)
	clock.set(time.Hour)
	if now := server.client.Time(ctx).Val(); time.Until(now) < 50*time.Minute {
		t.Fatalf("the server's clock did not step: %v", now)
	}
	b, err := q.Acquire(ctx, "n", lockprovider.WithWait(ttl/2)) // the key has expired an hour ago
	must(t, err)
	f.claims(ctx, t, b.Token(), true)
	f.claims(ctx, t, a.Token(), false)
	ends(t, a, ttl+10*time.Second)
	stays(ctx, t, b, 2*ttl)

	clock.set(-time.Hour)
	stays(ctx, t, b, 2*ttl)
	if left := server.client.PTTL(ctx, ns+":{"+ns+"/lock}:held:n").Val(); left > ttl {
		t.Errorf("after renewals by the new clock %v are left, want at most the TTL %v", left, ttl)
	}
	must(t, b.Release(ctx))
	c, err := p.Acquire(ctx, "n")
	must(t, err)
	if c.Token() <= b.Token() {
		t.Errorf("token %d after %d, with the clock set back", c.Token(), b.Token())
	}
	f.claims(ctx, t, c.Token(), true)
	stays(ctx, t, c, ttl)
	must(t, c.Release(ctx))
}
