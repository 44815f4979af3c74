package lockprovider

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// A hold is one grant of the store; the leases that re-entry made of it share it.
type hold struct {
	c           *core
	sess        *session
	name, nonce string
	unsure      bool // a call of its attempt that writes had no answer
	owner, note string
	purpose     string
	token       uint64
	granted     time.Duration
	guard       time.Duration
	began       Instant
	maxHold     time.Duration

	ended  atomic.Pointer[ending] // nil while held
	frozen atomic.Pointer[pulse]  // no renewal counts any more: the acquire context ended
	limit  entry                  // for frozen and maxHold, guarded by c.mu

	// guarded by c.mu
	open    int // leases not released
	span    Span
	handles map[*Lease]struct{}
	back    *giveBack
}

// ending is how a hold ended: exactly one of the two.
type ending struct {
	lost     *LostError
	released bool
}

// adopt turns a granted attempt into a hold that is kept alive.
func (c *core) adopt(a *attempt, g grant) (*hold, error) {
	p := c.pulseOf(a, g)
	h := &hold{
		c: c, sess: a.sess, name: a.name, nonce: a.nonce, unsure: a.unsure, owner: a.owner, note: a.req.note,
		purpose: a.req.purpose,
		token:   g.token, granted: p.granted, guard: a.req.guard, began: c.clock.Now(), maxHold: a.req.maxHold,
		handles: map[*Lease]struct{}{}, span: noSpan{},
	}
	h.limit.of = h
	c.mu.Lock()
	if c.isClosing || (h.sess != nil && h.sess.lost != 0 && !c.off.lateGrant) {
		c.mu.Unlock()
		a.landed = true
		if c.isClosing {
			return nil, fmt.Errorf("lockprovider: acquire %q: %w", a.name, ErrClosed)
		}
		return nil, &LostError{Name: a.name, Reason: SessionLost, At: time.Now()}
	}
	if h.sess == nil {
		h.sess = newSession(0, a.req.ttl, p)
		c.watchSession(h.sess)
	}
	h.sess.holds[h] = struct{}{}
	c.holds[h.owner] = h
	if h.maxHold > 0 {
		c.deadlines.set(&h.limit, h.began.Mono+h.maxHold)
	}
	c.mu.Unlock()
	c.noteToken(h.name, h.token)
	c.metrics.held.Inc()
	c.metrics.hold.WithLabelValues(h.purpose) // so that the series is there before its first sample
	c.entered()
	return h, nil
}

// lease makes a handle whose context ends with ctx, the hold or its own release.
func (h *hold) lease(ctx context.Context) *Lease {
	l := &Lease{hold: h}
	var cancel context.CancelCauseFunc
	sctx, span := h.c.span(ctx, "lock.hold", slog.String("name", h.name), slog.Uint64("token", h.token))
	l.ctx, cancel = context.WithCancelCause(context.WithValue(sctx, lineage{h.c, h.name}, h))
	l.cancel = cancel
	h.c.mu.Lock()
	first := len(h.handles) == 0
	if first {
		h.span = span
		l.forget = context.AfterFunc(ctx, h.orphan)
	}
	h.handles[l] = struct{}{}
	h.open++
	end := h.ended.Load()
	h.c.mu.Unlock()
	if !first {
		span.End(nil)
	}
	if end != nil {
		cancel(end.err(h.name))
	}
	return l
}

// reenter returns a second handle, or nil, nil if the hold that the context carries
// was given back long ago.
func (h *hold) reenter(ctx context.Context, req request) (*Lease, error) {
	err := h.err()
	end := h.ended.Load()
	switch {
	case end != nil && end.lost != nil:
		return nil, err
	case end != nil:
		return nil, nil
	case !req.reentry:
		return nil, fmt.Errorf("lockprovider: acquire %q (token %d): %w; pass WithReentry or another context", h.name, h.token, ErrReentrant)
	}
	return h.lease(ctx), nil
}

// lose ends the hold with a LostError; false if it had ended before.
func (h *hold) lose(why Reason, cause error) bool {
	lost := &LostError{Name: h.name, Token: h.token, Reason: why, At: time.Unix(0, int64(h.c.clock.Now().Wall)), Cause: cause}
	if !h.finish(&ending{lost: lost}) {
		return false
	}
	span := h.tracing()
	span.Event("lost", slog.String("reason", why.String()))
	span.End(lost)
	if why != Closed {
		h.c.metrics.lost.WithLabelValues(why.String()).Inc()
		h.c.log.Warn("lease lost; its work is being cancelled", "name", h.name, "token", h.token, "reason", why.String(), "err", cause)
	}
	return true
}

// tracing is the span of the hold; a loss may come before its lease is made.
func (h *hold) tracing() Span {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.span
}

// finish takes the hold out of all tables and ends the contexts of its leases.
func (h *hold) finish(e *ending) bool {
	c := h.c
	c.mu.Lock()
	if h.ended.Load() != nil {
		c.mu.Unlock()
		return false
	}
	h.ended.Store(e)
	c.deadlines.drop(&h.limit)
	delete(c.holds, h.owner)
	delete(h.sess.holds, h)
	h.sess.lastUsed = c.clock.Now()
	if !c.backend.shared() {
		c.renewals.drop(&h.sess.renewal)
		c.deadlines.drop(&h.sess.deadline)
	}
	handles := make([]*Lease, 0, len(h.handles))
	for l := range h.handles {
		handles = append(handles, l)
	}
	c.mu.Unlock()
	for _, l := range handles {
		l.cancel(e.err(h.name))
		if l.forget != nil {
			l.forget()
		}
	}
	c.metrics.held.Dec()
	c.metrics.hold.WithLabelValues(h.purpose).Observe(c.clock.Now().Since(h.began).Seconds())
	return true
}
