package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/lockprovider"
)

// T is what a case needs of *testing.T. The run of the safeguards brings a T of its
// own, which only notes the failure.
type T interface {
	Helper()
	Name() string
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Cleanup(func())
}

// Harness is one backend on real servers.
type Harness struct {
	// Backend is "redis" or "etcd".
	Backend string
	// Address is host:port of a server that cases share, or, comma-separated, of each
	// member of a cluster of etcd. No case stops it.
	Address string
	// Own returns a server that the case may stop, kill and pause.
	Own func(t T) Server
	// PostgresURL is a database for the cases that fence; they make tables of their own.
	PostgresURL string
	// Adjust is called on every configuration before a provider is made; nil changes nothing.
	Adjust func(*lockprovider.Config)
	// ClaimLate makes the fenced writes claim with the write and not first, as no user
	// of the package should; the run of the safeguards sets it.
	ClaimLate bool
	// Long asks for the long form of the cases that have one.
	Long bool
}

// Server is a store server that a case has for itself.
type Server interface {
	Address() string
	Stop() error // in order
	Start() error
	Kill() error
	Pause() error
	Resume() error
}

// Env is what one case works with.
type Env struct {
	T
	h         Harness
	Backend   string
	Namespace string
	address   string
	raw       raw
	server    Server
	clock     lockprovider.Clock
	ttl       time.Duration
}

var serial atomic.Int64

func newEnv(t T, h Harness, c Case) *Env {
	t.Helper()
	ns := fmt.Sprintf("lt%d-%x", serial.Add(1), rand.Uint32())
	e := &Env{T: t, h: h, ttl: TTL, Backend: h.Backend, Namespace: ns, address: h.Address}
	if c.Slow {
		e.ttl = longTTL
	}
	if c.Own {
		e.server = h.Own(t)
		_ = e.server.Resume() // whatever a case before left behind
		_ = e.server.Start()
		e.address = e.server.Address()
	}
	if h.Backend == "etcd" {
		e.raw = newRawEtcd(t, e.address, ns)
	} else {
		e.raw = newRawRedis(t, e.address, ns)
	}
	return e
}

const (
	// TTL is the time to live that cases use: short, and granted as asked by both stores.
	TTL = 2 * time.Second
	// longTTL is for cases in which nothing must expire.
	longTTL = 20 * time.Second
	// soon is for what happens at once on an idle machine, however busy this one is. It is
	// shorter than longTTL, so that no expiry passes for it.
	soon = 10 * time.Second
)

func (e *Env) config() lockprovider.Config { return e.configAt(e.address) }

func (e *Env) configAt(address string) lockprovider.Config {
	return lockprovider.Config{
		Backend: e.Backend, RedisURL: "redis://" + address, EtcdEndpoints: strings.Split(address, ","),
		Namespace: e.Namespace, TTL: e.ttl, Clock: e.clock, Logger: quiet(e.T),
	}
}

// Open makes a provider straight to the store.
func (e *Env) Open() *lockprovider.Provider { return e.OpenWith(e.config()) }

// Via makes a provider behind a proxy of its own.
func (e *Env) Via() (*lockprovider.Provider, *Proxy) {
	e.Helper()
	x := NewProxy(e.T, e.address)
	return e.OpenWith(e.configAt(x.Address())), x
}

// OpenWith makes a provider that is closed, and checked to have closed, with the test.
func (e *Env) OpenWith(cfg lockprovider.Config) *lockprovider.Provider {
	e.Helper()
	if e.h.Adjust != nil {
		e.h.Adjust(&cfg)
	}
	p, err := lockprovider.Open(context.Background(), cfg)
	if err != nil {
		e.Fatalf("open: %v", err)
	}
	e.closes(p)
	return p
}

// closes lets a provider end with the case, before its proxy and client do.
func (e *Env) closes(p *lockprovider.Provider) {
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_ = p.Close(ctx) // the proxy may be dead; what Close promises is tested in group I
	})
}

// Ctx ends with the given limit; cases use it so that nothing hangs.
func (e *Env) Ctx(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	e.Cleanup(cancel)
	return ctx
}

// Acquire must succeed within 15 s.
func (e *Env) Acquire(p *lockprovider.Provider, name string, opts ...lockprovider.Option) *lockprovider.Lease {
	e.Helper()
	l, err := p.Acquire(context.Background(), name, append([]lockprovider.Option{lockprovider.WithWait(15 * time.Second)}, opts...)...)
	if err != nil {
		e.Fatalf("acquire %q: %v", name, err)
	}
	return l
}

// Release must be confirmed, on a busy machine not at once.
func (e *Env) Release(l *lockprovider.Lease) {
	e.Helper()
	if err := confirm(l); err != nil {
		e.Fatalf("release %q: %v", l.Name(), err)
	}
}

// confirm releases and waits for the store's word.
func confirm(l *lockprovider.Lease) error {
	err := l.Release(context.Background())
	for end := time.Now().Add(soon); errors.Is(err, lockprovider.ErrReleasePending) && time.Now().Before(end); {
		err = l.Release(context.Background())
	}
	return err
}

// Breach fails the case for something that no busy machine excuses: two holders, a
// number lost behind the fence, a token that fell.
func (e *Env) Breach(format string, args ...any) {
	e.Helper()
	if r, ok := e.T.(*recorder); ok {
		r.Breach(format, args...)
		return
	}
	e.Errorf(format, args...)
}

// Must fails the case on an error.
func (e *Env) Must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%v", err)
	}
}

// Within polls until ok says true, at most for d; it returns how long that took.
func (e *Env) Within(d time.Duration, what string, ok func() bool) time.Duration {
	e.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > d {
			e.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// Ends waits for a lease's context to end, at most for d, and returns its cause.
func (e *Env) Ends(d time.Duration, l *lockprovider.Lease) error {
	e.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(d):
		e.Fatalf("context of the lease on %q did not end within %v", l.Name(), d)
	}
	return context.Cause(l.Context())
}

// Clock is a clock that can be bent: shifted, or stopped on its monotonic side.
type Clock struct {
	base   time.Time
	mu     sync.Mutex
	mono   time.Duration
	wall   time.Duration
	frozen *time.Duration
}

// NewClock shows the real time until it is bent.
func NewClock() *Clock { return &Clock{base: time.Now()} }

// Now is for lockprovider.
func (c *Clock) Now() lockprovider.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	i := lockprovider.Instant{Mono: now.Sub(c.base) + c.mono, Wall: time.Duration(now.UnixNano()) + c.wall}
	if c.frozen != nil {
		i.Mono = *c.frozen
	}
	return i
}

// StepWall moves the wall clock.
func (c *Clock) StepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// FreezeMono stops the monotonic clock, as a suspended machine does.
func (c *Clock) FreezeMono() {
	now := c.Now().Mono
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = &now
}

// short cuts a name so that it fits into one line of a table.
func short(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i]
	}
	return s[:min(len(s), 110)]
}
