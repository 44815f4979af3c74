package lockprovider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// opening is a shared session being granted; everyone who needs it waits for one call.
type opening struct {
	done chan struct{}
	s    *session
	err  error
}

// joinSession puts the attempt under a shared session with more than a third of its
// time left, and makes one if there is none.
func (c *core) joinSession(a *attempt) error {
	s, o, err := c.findSession(a.req.ttl)
	if err != nil {
		return err
	}
	if o != nil {
		select {
		case <-o.done:
			if o.err != nil {
				return o.err
			}
			s, _, err = c.findSession(a.req.ttl)
			if err != nil {
				return err
			}
			if s == nil {
				return errors.New("the session ended as soon as it was granted")
			}
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
	}
	if a.sess == s {
		c.leaveSession(s) // was counted before
		return nil
	}
	if a.sess != nil {
		c.moveOut(a)
	}
	a.sess = s
	return nil
}

// moveOut takes an attempt out of a session that was replaced. What it may have left
// there dies with a lost session; under a retired one, which may live on, it is undone.
func (c *core) moveOut(a *attempt) {
	c.mu.Lock()
	lives := a.sess.lost == 0
	c.mu.Unlock()
	if lives && (a.landed || a.unsure) {
		c.undoLater(a)
	}
	c.rename(a)
	c.leaveSession(a.sess)
}

// findSession returns a usable session and counts the caller as a user, or else an
// opening to wait for.
func (c *core) findSession(ttl time.Duration) (*session, *opening, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if s := c.sessions[ttl]; s != nil {
		p := s.pulse.Load()
		if p.left(now) > p.valid/3 {
			s.users++
			return s, nil, nil
		}
		if p.left(now) > 0 {
			return nil, nil, errors.Join(fmt.Errorf("session has only %v left until its renewal is confirmed", p.left(now)), s.cause)
		}
	}
	if o := c.opening[ttl]; o != nil {
		return nil, o, nil
	}
	if c.ctx.Err() != nil || c.isClosing {
		return nil, nil, ErrClosed
	}
	o := &opening{done: make(chan struct{})}
	c.opening[ttl] = o
	c.jobs++
	c.wg.Add(1)
	go func() {
		defer c.end()
		c.openSession(ttl, o)
	}()
	return nil, o, nil
}

func (c *core) openSession(ttl time.Duration, o *opening) {
	ctx, cancel := context.WithTimeout(c.ctx, callLimit(ttl))
	defer cancel()
	sent := c.clock.Now()
	id, granted, err := c.backend.openSession(ctx, ttl)
	if c.off.sendTime {
		sent = c.clock.Now()
	}
	var old *session
	c.mu.Lock()
	delete(c.opening, ttl)
	if err != nil {
		o.err = fmt.Errorf("open session: %w", err)
	} else {
		old = c.sessions[ttl]
		o.s = newSession(id, ttl, pulse{sent: sent, granted: granted, valid: granted - margin(granted, c.guardFor(granted))})
		c.sessions[ttl] = o.s
		c.watchSession(o.s)
	}
	c.mu.Unlock()
	if old != nil {
		c.loseSession(old, Expired, nil)
	}
	close(o.done)
	c.poke()
}

func (c *core) guardFor(granted time.Duration) time.Duration { return min(c.cfg.Guard, granted/3) }

// watchSession enters a session in both agendas. c.mu is held.
func (c *core) watchSession(s *session) {
	p := s.pulse.Load()
	c.renewals.set(&s.renewal, (p.sent.Mono + jitter(p.valid/3)))
	c.deadlines.set(&s.deadline, p.sent.Mono+p.valid)
}

// leaveSession takes back what findSession counted.
func (c *core) leaveSession(s *session) {
	if s == nil {
		return
	}
	c.mu.Lock()
	s.users--
	s.lastUsed = c.clock.Now()
	last := s.retired && s.users == 0 && len(s.holds) == 0
	c.mu.Unlock()
	if last {
		c.endSession(s)
	}
}

// retireSession lets a session run out: nobody new joins it, and it is ended in the
// store when its last hold is gone.
func (c *core) retireSession(s *session) {
	c.mu.Lock()
	s.retired = true
	if c.sessions[s.ttl] == s {
		delete(c.sessions, s.ttl)
	}
	last := s.users == 0 && len(s.holds) == 0
	c.mu.Unlock()
	if last {
		c.endSession(s)
	}
}

// endSession stops renewing and revokes in the background.
func (c *core) endSession(s *session) {
	c.mu.Lock()
	c.renewals.drop(&s.renewal)
	c.deadlines.drop(&s.deadline)
	over := s.lost != 0
	if !over {
		s.lost = Closed
		close(s.ended)
	}
	c.mu.Unlock()
	if over || !c.begin(true) {
		return
	}
	go func() {
		defer c.end()
		c.persist(s.ttl, func() bool { return c.over(s) }, func(ctx context.Context) error {
			return c.backend.endSession(ctx, s)
		})
	}()
}

// loseSession ends a session and every hold that it kept alive.
func (c *core) loseSession(s *session, why Reason, cause error) {
	c.mu.Lock()
	if s.lost != 0 {
		c.mu.Unlock()
		return
	}
	s.lost = why
	close(s.ended)
	if cause == nil {
		cause = s.cause
	}
	c.renewals.drop(&s.renewal)
	c.deadlines.drop(&s.deadline)
	if c.sessions[s.ttl] == s {
		delete(c.sessions, s.ttl)
	}
	holds := make([]*hold, 0, len(s.holds))
	for h := range s.holds {
		holds = append(holds, h)
	}
	c.mu.Unlock()
	if c.backend.shared() && why != Closed {
		c.metrics.sessionRecreated.Inc()
		c.log.Warn("session lost; every lease under it is lost, a new one is opened on demand", "reason", why.String(), "leases", len(holds), "err", cause)
	}
	for _, h := range holds {
		h.lose(why, cause)
	}
}

// over tells whether the store must have dropped the session by itself.
func (c *core) over(s *session) bool {
	p := s.pulse.Load()
	return c.clock.Now().Since(p.sent) >= p.granted+driftFixed+p.granted/driftShare
}
