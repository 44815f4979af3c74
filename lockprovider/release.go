package lockprovider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// giveBack is a release under way. Everyone who waits for it sees one result.
type giveBack struct {
	done chan struct{}
	err  error
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
			l.cancel(fmt.Errorf("lockprovider: lease on %q: %w", h.name, ErrReleased))
			return nil
		}
		l.last = true
		h.back = &giveBack{done: make(chan struct{})}
	}
	back := h.back
	c.mu.Unlock()
	if first {
		h.startRelease(ctx, back)
	}
	return h.await(ctx, back)
}

// startRelease ends the hold and gives it back on a goroutine of its own.
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
	c.run(func() {
		defer c.end()
		defer c.leaveSession(h.sess)
		defer close(back.done)
		from := context.Background()
		if c.off.callerContext {
			from = ctx
		}
		back.err = h.giveBack(from)
	})
}

// giveBack repeats until the store has answered or has dropped the hold by itself.
// An answer "not yours" to a repeated call means that an earlier one arrived.
func (h *hold) giveBack(from context.Context) error {
	c := h.c
	c.metrics.releasePending.Inc()
	defer c.metrics.releasePending.Dec()
	var result error
	calls := 0
	var last error
	c.persistUnder(h.sess, h.granted, func(ctx context.Context) error {
		if last = from.Err(); last != nil {
			return last
		}
		calls++
		mine, err := c.backend.release(ctx, h)
		if last = err; err != nil {
			c.metrics.releaseFail.Inc()
			return err
		}
		if mine && calls == 1 && !h.unsure && c.backend.shared() {
			c.spares.keep(h.name, h.nonce)
		}
		if !mine && calls == 1 {
			lost := &LostError{Name: h.name, Token: h.token, Reason: Revoked, At: time.Now()}
			result = fmt.Errorf("lockprovider: release %q: %w: %w", h.name, ErrNotHeld, lost)
			c.metrics.lost.WithLabelValues(Revoked.String()).Inc()
		}
		return nil
	})
	if last != nil && c.off.releaseRetry {
		return ErrReleasePending
	}
	return result
}

// await bounds how long a caller waits for the release.
func (h *hold) await(ctx context.Context, back *giveBack) error {
	select {
	case <-back.done:
		return back.err
	default:
	}
	t := time.NewTimer(h.granted / 3)
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
