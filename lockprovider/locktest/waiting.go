package locktest

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"seckill/lockprovider"
)

// later acquires on a goroutine; the lease, or nil after 30 s or an error, comes out
// of the channel.
func (e *Env) later(p *lockprovider.Provider, name string, opts ...lockprovider.Option) <-chan *lockprovider.Lease {
	got := make(chan *lockprovider.Lease, 1)
	go func() {
		l, err := p.Acquire(context.Background(), name, append([]lockprovider.Option{lockprovider.WithWait(30 * time.Second)}, opts...)...)
		if err != nil {
			e.Logf("acquire %q: %v", name, err)
		}
		got <- l
	}()
	return got
}

// granted waits for a lease of later.
func (e *Env) granted(got <-chan *lockprovider.Lease, d time.Duration) *lockprovider.Lease {
	e.Helper()
	select {
	case l := <-got:
		if l == nil {
			e.Fatalf("the waiter failed")
		}
		return l
	case <-time.After(d):
		e.Fatalf("the waiter was not granted the lease within %v", d)
	}
	return nil
}

// waiters waits until n waiters can be seen (of different providers on Redis).
func (e *Env) waiters(p *lockprovider.Provider, name string, n int) {
	e.Helper()
	e.Within(10*time.Second, "waiters are queued", func() bool {
		in, err := p.Inspect(e.Ctx(soon), name)
		return err == nil && in.Waiters >= n
	})
}

// near lets the provider see that the store answers at once; on Redis its callers then make
// the first call themselves.
func (e *Env) near(p *lockprovider.Provider) {
	e.Helper()
	for range 3 {
		e.Release(e.Acquire(p, "warm"))
	}
}

// far lets it see that the store takes its time.
func (e *Env) far(p *lockprovider.Provider, x *Proxy) {
	e.Helper()
	x.Delay(20*time.Millisecond, 0)
	e.Release(e.Acquire(p, "warm"))
	x.Heal()
}

// isMarker recognises an abort marker.
func isMarker(key string) bool {
	return strings.Contains(key, "/lock/x/") || strings.Contains(key, "/lock}:undone:")
}

// looks counts how often the acquisitions of a provider saw another holder.
type looks struct{ held atomic.Int64 }

func (l *looks) Start(ctx context.Context, _ string, _ ...slog.Attr) (context.Context, lockprovider.Span) {
	return ctx, l
}

func (l *looks) Event(name string, _ ...slog.Attr) {
	if name == "held" {
		l.held.Add(1)
	}
}

func (l *looks) End(error) {}

// viaTraced is Via for a provider whose looks are counted.
func (e *Env) viaTraced(l *looks) (*lockprovider.Provider, *Proxy) {
	e.Helper()
	x := NewProxy(e.T, e.address)
	cfg := e.configAt(x.Address())
	cfg.Tracer = l
	return e.OpenWith(cfg), x
}
