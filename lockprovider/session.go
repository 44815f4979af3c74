package lockprovider

import (
	"sync/atomic"
	"time"
)

// A session is what one renewal keeps alive: all holds of a process on etcd, one
// hold on Redis. Fields without a comment of their own are guarded by core.mu.
type session struct {
	id    int64         // etcd lease id
	ttl   time.Duration // as asked
	pulse atomic.Pointer[pulse]
	ended chan struct{} // closed when lost or retired for good
	beats atomic.Int64  // renewals that the store confirmed

	holds    map[*hold]struct{}
	users    int // attempts and undos under way
	lastUsed Instant
	lost     Reason
	retired  bool // no new holds; ended when the last one is gone

	renewal  entry
	asked    int // renewal calls under way
	deadline entry
	failures int
	cause    error // of the last failed renewal
}

// A pulse is the last good renewal (or the grant): when it was sent, what the store
// granted, and how much of that the holder may use.
type pulse struct {
	sent    Instant
	granted time.Duration
	valid   time.Duration
}

// left is how long the session is still valid locally.
func (p *pulse) left(now Instant) time.Duration { return p.valid - now.Since(p.sent) }

// Drift and guard follow the validity computation of redsync (mutex.go) and the
// Redlock description: 1 % + 2 ms for clocks that run at different rates.
const (
	driftShare = 100
	driftFixed = 2 * time.Millisecond
	minGuard   = 50 * time.Millisecond
)

// margin is the part of a granted TTL that the holder does not use.
func margin(granted, guard time.Duration) time.Duration {
	if guard == 0 {
		guard = max(granted/10, minGuard)
	}
	return granted/driftShare + driftFixed + guard
}

func newSession(id int64, ttl time.Duration, p pulse) *session {
	s := &session{id: id, ttl: ttl, holds: map[*hold]struct{}{}, ended: make(chan struct{}), lastUsed: p.sent}
	s.renewal.of, s.deadline.of = s, s
	s.pulse.Store(&p)
	return s
}

// interval is the time between renewals: a third of the validity.
func (s *session) interval() time.Duration { return s.pulse.Load().valid / 3 }
