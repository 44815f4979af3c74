package lockprovider

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The kinds of failure. Every error of this package matches at most one of the
// sentinels below with errors.Is, save that an error of the caller's own
// context (context.Cause) is passed through as it is.
var (
	// ErrHeld: somebody held the name at the moment of the try. Details: *HeldError.
	ErrHeld = errors.New("held by another")
	// ErrWaitTimeout: the limit given by WithWait passed while somebody held the name.
	ErrWaitTimeout = errors.New("still held by another when the wait was over")
	// ErrNotHeld: the lease was lost before (Release), or nobody holds the name (Inspect, ForceRelease).
	ErrNotHeld = errors.New("not held")
	// ErrReleased: the lease was given back by its holder.
	ErrReleased = errors.New("lease was released")
	// ErrReleasePending: the store has not confirmed the release yet; it is repeated
	// in the background until confirmed or expired.
	ErrReleasePending = errors.New("release not confirmed yet")
	// ErrReentrant: the context already carries a hold on this name and WithReentry was not given.
	ErrReentrant = errors.New("already held by the caller's own context")
	// ErrTokenMismatch: ForceRelease named a token that is not the present holder's.
	ErrTokenMismatch = errors.New("held under another token")
	// ErrForeignKey: the key in the store was not written by this package; it is left alone.
	ErrForeignKey = errors.New("key in the store is not a lock of this package")
	// ErrUnavailable: the store could not be asked, or did not answer in time.
	ErrUnavailable = errors.New("lock store unavailable")
	// ErrClosed: the provider is closed.
	ErrClosed = errors.New("lock provider is closed")
	// ErrLost matches every *LostError.
	ErrLost = errors.New("lease lost")
)

// Reason says why a lease ended without being released.
type Reason uint8

// The reasons of a LostError.
const (
	// Expired: the local deadline passed without a confirmed renewal.
	Expired Reason = iota + 1
	// Revoked: the key was deleted, by ForceRelease or by an operator.
	Revoked
	// Stolen: another owner is in the key's place.
	Stolen
	// SessionLost: the store ended the session that the lease belonged to (etcd).
	SessionLost
	// MaxHold: the limit given by WithMaxHold passed.
	MaxHold
	// Closed: the provider was closed and gave the lease back.
	Closed
)

var reasonNames = [...]string{"unknown", "expired", "revoked", "stolen", "session_lost", "max_hold", "closed"}

// String is the word used in logs and in the reason label of the metrics.
func (r Reason) String() string {
	if int(r) >= len(reasonNames) {
		return "reason " + strconv.Itoa(int(r))
	}
	return reasonNames[r]
}

// LostError is the cause of a lease's context, and the result of Lease.Err, once
// the lease must be treated as lost. errors.Is(err, ErrLost) matches it.
type LostError struct {
	Name   string
	Token  uint64 // 0 if the loss came while still waiting
	Reason Reason
	At     time.Time // when the loss was noticed, by the local wall clock
	Cause  error     // last failure of the store before the loss; may be nil
}

// Error says which lease was lost and why.
func (e *LostError) Error() string {
	s := fmt.Sprintf("lockprovider: lease on %q (token %d) lost: %s; stop the work, acquire again", e.Name, e.Token, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is makes every LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// HeldError tells who holds the name. errors.Is(err, ErrHeld) matches it.
type HeldError struct {
	Holder Info // as seen by the try; TTL is 0 (unknown) on etcd
}

// Error names the holder.
func (e *HeldError) Error() string {
	s := fmt.Sprintf("lockprovider: %q is held by %q (token %d", e.Holder.Name, e.Holder.Owner, e.Holder.Token)
	if e.Holder.TTL > 0 {
		s += fmt.Sprintf(", %v left", e.Holder.TTL)
	}
	return s + ")"
}

// Is makes every HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// releasedError is the cause of every lease's context that was given back. Few are read,
// so the words are found when one is.
type releasedError struct{ name string }

func (e releasedError) Error() string {
	return fmt.Sprintf("lockprovider: lease on %q: %v", e.name, ErrReleased)
}

func (e releasedError) Unwrap() error { return ErrReleased }
