package lockprovider

import (
	"context"
	"time"
)

func (e *ending) err(name string) error {
	if e.lost != nil {
		return e.lost
	}
	return releasedError{name}
}

// left is the time until the hold must be treated as lost.
func (h *hold) left(now Instant) time.Duration {
	p := h.frozen.Load()
	if p == nil {
		p = h.sess.pulse.Load()
	}
	since := now.Since(p.sent)
	if h.c.off.wallClock {
		since = now.Mono - p.sent.Mono
	}
	d := p.granted - margin(p.granted, h.guard) - since
	if h.maxHold > 0 {
		d = min(d, h.maxHold-now.Since(h.began))
	}
	return d
}

func (h *hold) err() error {
	if e := h.ended.Load(); e != nil {
		return e.err(h.name)
	}
	if h.c.off.localDeadline {
		return nil
	}
	now := h.c.clock.Now()
	if h.left(now) > 0 {
		return nil
	}
	h.expire(now)
	return h.ended.Load().err(h.name)
}

func (h *hold) remaining() time.Duration {
	if h.err() != nil {
		return 0
	}
	return max(h.left(h.c.clock.Now()), 0)
}

// expire ends a hold whose deadline has passed, for the reason that applies. A hold
// under a shared session, or past its MaxHold, is taken out of the store afterwards:
// nothing else would.
func (h *hold) expire(now Instant) {
	why, after := Expired, time.Duration(0)
	orphaned := h.frozen.Load() != nil
	if h.maxHold > 0 && now.Since(h.began) >= h.maxHold {
		why = MaxHold
	}
	if orphaned || why == MaxHold {
		after = margin(h.granted, h.guard)
	} else if h.sess.pulse.Load().left(now) > 0 {
		after = margin(h.granted, h.guard) // its own guard is longer than the session's
	}
	h.c.mu.Lock()
	cause := h.sess.cause
	h.c.mu.Unlock()
	if h.lose(why, cause) && after > 0 {
		h.reap(after)
	}
}

// orphan stops the renewal of a hold whose acquire context ended. The hold stays
// valid until the deadline it has now.
func (h *hold) orphan() {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.ended.Load() != nil {
		return
	}
	p := *h.sess.pulse.Load()
	h.frozen.Store(&p)
	at := p.sent.Mono + p.granted - margin(p.granted, h.guard)
	if h.maxHold > 0 {
		at = min(at, h.began.Mono+h.maxHold)
	}
	c.deadlines.set(&h.limit, at)
	if !c.backend.shared() {
		h.sess.retired = true
		c.renewals.drop(&h.sess.renewal)
		c.deadlines.drop(&h.sess.deadline)
	}
	c.poke()
}

func (h *hold) verify(ctx context.Context) error {
	if err := h.err(); err != nil {
		return err
	}
	cctx, cancel := context.WithTimeout(ctx, callLimit(h.granted))
	defer cancel()
	why, err := h.c.backend.check(cctx, h)
	if err != nil {
		return unavailable("verify", h.name, err)
	}
	if why != 0 {
		h.lose(why, nil)
	}
	return h.err()
}
