package lockprovider

import (
	"context"
	"errors"
)

// carry runs the attempt to its end and cleans up after it.
func (c *core) carry(a *attempt, queue bool) {
	defer a.cancel()
	g, err := c.strive(a, queue)
	c.tidy(a, c.settle(a, g, err))
}

// settle tells the caller the outcome, unless he has left. The error is why there is no
// hold.
func (c *core) settle(a *attempt, g grant, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.abandoned {
		if err == nil {
			a.hold, err = c.adopt(a, g)
		}
		a.err, a.settled = err, true
		close(a.done)
	} else if err == nil {
		err = context.Canceled
		a.landed = true
	}
	return err
}

// tidy takes away what an attempt that ended with err may have left in the store.
func (c *core) tidy(a *attempt, err error) {
	if err != nil && (a.landed || a.unsure) {
		c.undo(a)
	} else if err != nil && c.backend.shared() {
		c.spares.keep(a.name, a.nonce) // it was not used
	}
	c.leaveSession(a.sess)
}

// strive repeats until granted, refused, or given up.
func (c *core) strive(a *attempt, queue bool) (grant, error) {
	renewed := false
	for n := 0; ; n++ {
		g, err := c.once(a, queue)
		var lost *LostError
		switch {
		case err == nil:
			return g, nil
		case errors.Is(err, errSessionGone) && !renewed:
			renewed = true // the session ended unnoticed: once more, under a new one
			continue
		case errors.Is(err, ErrHeld), errors.Is(err, ErrForeignKey), errors.As(err, &lost), errors.Is(err, ErrClosed):
			return grant{}, err
		case !queue || a.ctx.Err() != nil:
			return grant{}, unavailable("acquire", a.name, err)
		}
		renewed = false
		a.mu.Lock()
		a.last = err
		a.mu.Unlock()
		if !sleep(a.ctx, backoff(n)) {
			return grant{}, unavailable("acquire", a.name, err)
		}
	}
}

// once makes one call of the store, under a session that has enough time left.
func (c *core) once(a *attempt, queue bool) (grant, error) {
	if c.backend.shared() {
		if err := c.joinSession(a); err != nil {
			return grant{}, err
		}
	}
	var g grant
	var err error
	if queue {
		g, err = c.backend.wait(a.ctx, a)
	} else {
		ctx, cancel := context.WithTimeout(a.ctx, callLimit(a.req.ttl))
		g, err = c.backend.try(ctx, a)
		cancel()
		if errors.Is(err, ErrHeld) {
			a.held()
		}
	}
	return c.heed(a, g, err)
}

// heed notes what an answer of the store says about the attempt.
func (c *core) heed(a *attempt, g grant, err error) (grant, error) {
	if err == nil {
		return c.inTime(a, g)
	}
	switch {
	case errors.Is(err, errSessionGone):
		c.loseSession(a.sess, SessionLost, nil)
		a.landed, a.unsure = false, false
	case errors.Is(err, errAborted):
		c.rename(a) // the marker stays, and would refuse every other call
	case !definite(err) && !a.landed:
		a.unsure = true
	}
	return grant{}, err
}

var errLate = errors.New("the answer came after the lease's deadline")

// inTime refuses a grant whose answer came when its deadline had passed already,
// and undoes it: the caller could do nothing with it.
func (c *core) inTime(a *attempt, g grant) (grant, error) {
	p := c.pulseOf(a, g)
	if c.off.lateGrant || p.left(c.clock.Now()) > 0 {
		return g, nil
	}
	a.landed = true
	c.undoLater(a)
	c.rename(a)
	return grant{}, errLate
}

// pulseOf is the pulse that a granted attempt starts from.
func (c *core) pulseOf(a *attempt, g grant) pulse {
	if a.sess != nil {
		p := *a.sess.pulse.Load()
		p.valid = p.granted - margin(p.granted, a.req.guard)
		return p
	}
	return pulse{sent: g.sent, granted: a.req.ttl, valid: a.req.ttl - margin(a.req.ttl, a.req.guard)}
}
