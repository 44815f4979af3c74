package lockprovider

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config describes a provider. Zero values mean the defaults named at each field.
type Config struct {
	// Backend is "etcd" or "redis". Used by Open only.
	Backend string
	// RedisURL is redis://user:password@host:port/db or rediss://…; several,
	// comma-separated, are the seeds of a cluster. Used by Open only.
	RedisURL string
	// EtcdEndpoints are host:port or URLs. Used by Open only.
	EtcdEndpoints []string
	// EtcdUser and EtcdPassword are the credentials for etcd; empty: none. Used by
	// Open only.
	EtcdUser, EtcdPassword string
	// TLS is how rediss:// and https:// are spoken; nil believes the system's
	// authorities. Used by Open only.
	TLS *tls.Config

	// Namespace is the prefix of everything written to the store. Providers see
	// each other's locks only under the same namespace. Default "seckill".
	Namespace string
	// TTL is how long a holder that vanished keeps a name; leases are renewed at a
	// third of it. Default 10 s, at least MinTTL; whole seconds on etcd, rounded up.
	TTL time.Duration
	// Guard is how long before the store may hand a name on its holder stops.
	// Default a tenth of the TTL, at least 50 ms; at most a third of the TTL.
	Guard time.Duration
	// Instance names this process in Lease.Owner and Info.Owner. Default: host name
	// and process id.
	Instance string

	// Registerer receives the metrics; nil keeps them unregistered. Providers that
	// share a Registerer share the series of their backend.
	Registerer prometheus.Registerer
	// Logger receives warnings (losses, failed renewals, slow releases). Default slog.Default().
	Logger *slog.Logger
	// Tracer receives the spans lock.acquire and lock.hold; nil records none.
	Tracer Tracer
	// Clock replaces the system's clock in tests.
	Clock Clock

	holes holes // safeguards that a test switched off
}

// MinTTL is the shortest TTL that a lease can have. etcd's floor is higher (see Lease.TTL).
const MinTTL = 300 * time.Millisecond

// Info describes the present holder of a name.
type Info struct {
	Name    string        `json:"name"`
	Owner   string        `json:"owner"`          // instance and a number that is never used again
	Note    string        `json:"note,omitempty"` // WithNote of the holder
	Token   uint64        `json:"token"`
	TTL     time.Duration `json:"ttl"`     // left, by the store's clock, unless renewed
	Since   time.Time     `json:"since"`   // start of the hold: Redis's clock, or the holder's on etcd
	Waiters int           `json:"waiters"` // etcd: queued acquisitions; Redis: waiting processes, for up to a second after the last
}

// Provider grants leases. It is safe for concurrent use; one per process and
// store is enough. Make one with Open, OpenRedis or OpenEtcd.
type Provider struct {
	*core
}

// Acquire waits for name. It returns when the lease is granted, when the limit of
// WithWait is over (ErrWaitTimeout, or ErrUnavailable if the store failed last),
// when ctx ends (context.Cause(ctx)), when the provider closes (ErrClosed), or, on
// etcd, when the session under which it waits ends (*LostError; acquire again).
// These limits hold even if the store never answers; on Redis a cancelled ctx and the
// closing may be noticed 50 ms late. After an error nothing stays
// locked: an attempt whose outcome is unknown is undone in the background.
//
// ctx also covers the work: Lease.Context is derived from it. When ctx ends the
// lease is no longer renewed, so a forgotten Release costs at most one TTL, but it
// is not freed early either, because the work may still be winding down.
func (p *Provider) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return p.acquire(ctx, name, true, opts)
}

// TryAcquire makes one attempt and never queues. If the name is held it returns
// *HeldError (errors.Is ErrHeld), and only if somebody really held it at that
// moment; a store that fails or does not answer is ErrUnavailable.
func (p *Provider) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return p.acquire(ctx, name, false, opts)
}

// Inspect reads the present holder from the store (linearizable on etcd, from the
// primary on Redis). ErrNotHeld if the name is free.
func (p *Provider) Inspect(ctx context.Context, name string) (Info, error) {
	return p.inspect(ctx, name)
}

// List reads every present holder whose name begins with prefix, ordered by name;
// "" lists all of the namespace. One request on Redis; on etcd one, and one more
// for each process among the holders.
func (p *Provider) List(ctx context.Context, prefix string) ([]Info, error) {
	return p.list(ctx, prefix)
}

// ForceRelease evicts the holder whose token is given, and nobody else
// (ErrTokenMismatch; ErrNotHeld if the name is free). The evicted lease ends with
// reason Revoked (on Redis Stolen, if the next holder is seen before the message of the
// eviction). The evicted holder may still be at work: what it writes must be
// fenced.
func (p *Provider) ForceRelease(ctx context.Context, name string, token uint64) error {
	return p.forceRelease(ctx, name, token)
}

// Close refuses new acquisitions, fails waiters with ErrClosed, gives back what is
// held (those leases end with reason Closed) and returns when every goroutine is
// gone, or shortly after ctx ends; what could not be given back by then expires
// within its TTL. It closes the store connection if Open made it. Idempotent; later
// calls wait for the first.
func (p *Provider) Close(ctx context.Context) error {
	return p.close(ctx)
}

// Do acquires name, runs fn under Lease.Context and releases, also when fn panics.
// If the lease is lost while fn runs, the result carries the *LostError even if fn
// returned nil. A release that the store has not confirmed yet is no error.
func Do(ctx context.Context, p *Provider, name string, fn func(context.Context, *Lease) error, opts ...Option) error {
	return do(ctx, p, name, fn, opts)
}
