package lockprovider

import "time"

// Instant is one reading of two clocks. Only differences mean anything.
type Instant struct {
	Mono time.Duration // never steps, but stands still while the machine is suspended
	Wall time.Duration // since 1970; may be stepped in either direction
}

// Since returns how much time must be assumed to have passed between start and i:
// the larger of what the two clocks say. A wall clock set back, and a monotonic
// clock that stood still, then both fail to stretch a lease; a wall clock set
// forward ends leases early, which is safe.
func (i Instant) Since(start Instant) time.Duration {
	return max(i.Mono-start.Mono, i.Wall-start.Wall)
}

// Clock is read for every deadline of a lease. It must be safe for concurrent use.
// Config.Clock replaces it in tests.
type Clock interface {
	Now() Instant
}

type systemClock struct{ base time.Time }

func newSystemClock() systemClock { return systemClock{base: time.Now()} }

func (c systemClock) Now() Instant {
	now := time.Now()
	return Instant{Mono: now.Sub(c.base), Wall: time.Duration(now.UnixNano())}
}
