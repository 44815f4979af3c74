package lockprovider

import (
	"context"
	"time"
)

// Lease is one hold on one name. All methods are safe for concurrent use.
type Lease struct {
	*hold
	ctx    context.Context
	cancel context.CancelCauseFunc
	forget func() bool // stops looking at the acquire context

	closed bool // released, or found lost; guarded by core.mu
	last   bool // its release was the one that counts; guarded by core.mu
}

// Name is the name given to Acquire.
func (l *Lease) Name() string { return l.name }

// Token is the fencing number: above 0, at most 2^63-1, greater than that of every
// earlier holder of the name, constant while held and equal for nested holds. By
// consensus on etcd, best effort on Redis (see the package comment).
func (l *Lease) Token() uint64 { return l.token }

// Owner identifies this acquisition (instance and a number that is never used again).
func (l *Lease) Owner() string { return l.owner }

// TTL is the duration the store granted; it may exceed the request.
func (l *Lease) TTL() time.Duration { return l.granted }

// Context ends when the lease is lost or released, or when the acquire context
// ends. context.Cause tells which: *LostError, ErrReleased or the caller's cause.
func (l *Lease) Context() context.Context { return l.ctx }

// Err is nil while the lease is locally valid, else *LostError or ErrReleased. It
// compares clocks on every call, so it is right even if no goroutine has run since
// the deadline passed. No I/O.
func (l *Lease) Err() error { return l.err() }

// Remaining is the time left before the lease must be treated as lost unless it is
// renewed; 0 once lost or released. No I/O.
func (l *Lease) Remaining() time.Duration { return l.remaining() }

// Verify asks the store whether the lease is still held. Use it before an effect
// that cannot check the token. *LostError if it is lost, ErrReleased if it was
// released, ErrUnavailable if the store could not be asked (then Err still counts).
func (l *Lease) Verify(ctx context.Context) error { return l.verify(ctx) }

// Release gives the lease back. ctx only limits how long the caller waits (and at
// most a third of the TTL): the work of releasing goes on without it until confirmed
// or expired. nil: given back by this or an earlier call; ErrNotHeld: it had been
// lost, see the wrapped *LostError; ErrReleasePending: not confirmed yet.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx) }
