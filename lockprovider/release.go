package lockprovider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// giveBack is a release under way. Everyone who waits for it sees one result.
type giveBack struct {
	done  chan struct{}
	err   error // set before done is closed
	calls int   // of the store
	last  error // of the latest call
}

// stuckAfter is how many TTLs a release may fail under a shared session before the
// session itself is retired, so that its end frees what the release could not.
const stuckAfter = 3

func (l *Lease) release(ctx context.Context) error {
	h, c := l.hold, l.c
	_ = h.err() // a deadline that has passed counts first
	c.mu.Lock()
	end := h.ended.Load()
	if l.closed && !l.last {
		c.mu.Unlock()
		return nil // a nested lease, given back before
	}
	if end != nil && end.lost != nil {
		l.closed, l.last = true, true
		c.mu.Unlock()
		return fmt.Errorf("lockprovider: release %q: %w: %w", h.name, ErrNotHeld, end.lost)
	}
	first := !l.closed
	if first {
		l.closed = true
		h.open--
		if h.open > 0 {
			delete(h.handles, l)
			c.mu.Unlock()
			l.cancel(releasedError{h.name})
			return nil
		}
		l.last = true
		h.back = &giveBack{done: make(chan struct{})}
	}
	back := h.back
	c.mu.Unlock()
	until := time.Now().Add(h.granted / 3)
	if first {
		h.startRelease(ctx, back)
	}
	return h.await(ctx, back, time.Until(until))
}

// startRelease ends the hold and gives it back. A caller who cannot leave makes the first
// call himself; everything else is done on a goroutine of the provider.
func (h *hold) startRelease(ctx context.Context, back *giveBack) {
	c := h.c
	if !h.finish(&ending{released: true}) {
		back.err = fmt.Errorf("lockprovider: release %q: %w: %w", h.name, ErrNotHeld, h.ended.Load().err(h.name))
		close(back.done)
		return
	}
	span := h.tracing()
	span.Event("released")
	span.End(nil)
	if !c.begin(true) {
		back.err = fmt.Errorf("lockprovider: release %q: %w", h.name, ErrReleasePending)
		close(back.done)
		return
	}
	c.joinAgain(h.sess)
	c.metrics.releasePending.Inc()
	if ctx.Done() == nil && h.tryGiveBack(back) {
		h.gaveBack(back)
		return
	}
	from := context.Background()
	if c.off.callerContext {
		from = ctx
	}
	c.run(func() {
		h.giveBack(from, back)
		h.gaveBack(back)
	})
}

// gaveBack ends what startRelease has begun.
func (h *hold) gaveBack(back *giveBack) {
	close(back.done)
	h.c.metrics.releasePending.Dec()
	h.c.leaveSession(h.sess)
	h.c.end()
}

// tryGiveBack makes one call, within the time that a caller waits.
func (h *hold) tryGiveBack(back *giveBack) bool {
	ctx, cancel := context.WithTimeout(h.c.ctx, h.granted/3)
	defer cancel()
	return back.call(ctx, h) == nil
}

// giveBack repeats until the store has answered or has dropped the hold by itself.
func (h *hold) giveBack(from context.Context, back *giveBack) {
	c := h.c
	c.persistUnder(h.sess, h.granted, func(ctx context.Context) error {
		if back.last = from.Err(); back.last != nil {
			return back.last
		}
		return back.call(ctx, h)
	})
	if back.last != nil && c.off.releaseRetry {
		back.err = ErrReleasePending
	}
}

// call asks the store once. An answer "not yours" to a repeated call means that an
// earlier one arrived.
func (b *giveBack) call(ctx context.Context, h *hold) error {
	c := h.c
	b.calls++
	mine, err := c.backend.release(ctx, h)
	if b.last = err; err != nil {
		c.metrics.releaseFail.Inc()
		return err
	}
	if mine && b.calls == 1 && !h.unsure && c.backend.shared() {
		c.spares.keep(h.name, h.nonce)
	}
	if !mine && b.calls == 1 {
		lost := &LostError{Name: h.name, Token: h.token, Reason: Revoked, At: time.Now()}
		b.err = fmt.Errorf("lockprovider: release %q: %w: %w", h.name, ErrNotHeld, lost)
		c.metrics.lost.WithLabelValues(Revoked.String()).Inc()
	}
	return nil
}

// await bounds how long a caller waits for the release.
func (h *hold) await(ctx context.Context, back *giveBack, limit time.Duration) error {
	select {
	case <-back.done:
		return back.err
	default:
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-back.done:
		return back.err
	case <-ctx.Done():
	case <-t.C:
	}
	return fmt.Errorf("lockprovider: release %q: %w; it goes on in the background", h.name, ErrReleasePending)
}

// reap takes a hold that ended by the clock out of the store, once the time in
// which its holder may still be winding down is over.
func (h *hold) reap(after time.Duration) {
	c := h.c
	if !c.begin(true) {
		return
	}
	c.joinAgain(h.sess)
	go func() {
		defer c.end()
		defer c.leaveSession(h.sess)
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.closing:
		}
		c.persistUnder(h.sess, h.granted, func(ctx context.Context) error {
			_, err := c.backend.release(ctx, h)
			return err
		})
	}()
}

// do is Do.
func do(ctx context.Context, p *Provider, name string, fn func(context.Context, *Lease) error, opts []Option) (err error) {
	l, err := p.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	defer func() {
		rerr := l.Release(context.WithoutCancel(ctx))
		if errors.Is(rerr, ErrLost) && !errors.Is(err, ErrLost) {
			err = errors.Join(err, rerr)
		}
	}()
	return fn(l.Context(), l)
}
