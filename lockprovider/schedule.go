package lockprovider

import (
	"context"
	mathrand "math/rand/v2"
	"time"
)

const (
	longestNap = time.Second           // a step of the wall clock is noticed within this time
	clockStep  = 50 * time.Millisecond // a larger change between the clocks counts as a step
	retryShare = 12                    // a failed renewal is repeated after a twelfth of the TTL at the latest
	lateLimit  = 10 * time.Millisecond // the shortest time worth giving a renewal
)

// jitter spreads renewals by a tenth, always to the early side.
func jitter(d time.Duration) time.Duration {
	if d < 20 {
		return d
	}
	return d - time.Duration(mathrand.Int64N(int64(d)/10))
}

// schedule is the one goroutine that watches all deadlines and starts all renewals.
func (c *core) schedule() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
		for _, batch := range c.look() {
			c.wg.Add(1)
			go func() {
				defer c.wg.Done()
				c.renew(batch)
			}()
		}
		timer.Reset(c.nap())
	}
}

// nap is how long nothing is due.
func (c *core) nap() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now().Mono
	d := longestNap
	if at, ok := c.nextEntry(); ok {
		d = min(d, at-now)
	}
	d = max(d, time.Millisecond)
	c.napEnd = now + d
	return d
}

// nextEntry is the time of the earliest entry of both agendas. c.mu is held.
func (c *core) nextEntry() (time.Duration, bool) {
	at, ok := c.renewals.next()
	if other, also := c.deadlines.next(); also && (!ok || other < at) {
		return other, true
	}
	return at, ok
}

// sleepsPast tells whether an entry is due before the scheduler looks. c.mu is held.
func (c *core) sleepsPast() bool {
	at, ok := c.nextEntry()
	return ok && at < c.napEnd
}

// look ends what has passed its deadline and returns what has to be renewed.
func (c *core) look() [][]*session {
	c.mu.Lock()
	now := c.clock.Now()
	late := c.passed(now)
	batches, idle := c.dueBatches(now)
	c.mu.Unlock()
	for _, e := range late {
		switch x := e.(type) {
		case *session:
			c.loseSession(x, Expired, nil)
		case *hold:
			x.expire(now)
		}
	}
	for _, s := range idle {
		c.retireSession(s)
	}
	return batches
}

// passed collects the sessions and holds whose deadline has passed. A deadline that
// was moved by a renewal is entered again. c.mu is held.
func (c *core) passed(now Instant) []any {
	var late []any
	if step := now.Wall - now.Mono - c.offset; step > clockStep || step < -clockStep {
		c.offset += step
		late = c.everyPassed(now)
	}
	for e := c.deadlines.due(now.Mono); e != nil; e = c.deadlines.due(now.Mono) {
		var left time.Duration
		switch x := e.of.(type) {
		case *session:
			left = x.pulse.Load().left(now)
		case *hold:
			left = x.left(now)
		}
		if left > 0 {
			c.deadlines.set(e, now.Mono+left)
			continue
		}
		late = append(late, e.of)
	}
	return late
}

// everyPassed looks at all deadlines: the clocks have stepped against each other, so
// their order by the monotonic clock means nothing. c.mu is held.
func (c *core) everyPassed(now Instant) []any {
	var late []any
	for _, e := range c.deadlines {
		switch x := e.of.(type) {
		case *session:
			if x.pulse.Load().left(now) <= 0 {
				late = append(late, x)
			}
		case *hold:
			if x.left(now) <= 0 {
				late = append(late, x)
			}
		}
	}
	return late
}

// renew makes one renewal call for a batch and applies the answers. A call that has
// had no answer for a sixth of the TTL is not given up, since the answer may only be
// slow: another one starts beside it. So at most five are under way for a session.
func (c *core) renew(batch []*session) {
	sent := c.clock.Now()
	limit := time.Hour
	c.mu.Lock()
	for _, s := range batch {
		p := s.pulse.Load()
		limit = min(limit, p.left(sent))
		if c.alive(s) {
			c.renewals.set(&s.renewal, sent.Mono+p.granted/6)
		}
		s.asked++
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, max(limit, lateLimit))
	answers, err := c.backend.renew(ctx, batch)
	cancel()
	c.mu.Lock()
	for _, s := range batch {
		s.asked--
	}
	c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.metrics.renewSeconds.Observe(c.clock.Now().Since(sent).Seconds())
	if c.off.sendTime {
		sent = c.clock.Now()
	}
	at := jitter(time.Duration(1 << 20)) // one share of jitter for all, so that they stay together
	for i, s := range batch {
		switch {
		case err != nil:
			c.renewFailed(s, err)
		case answers[i].lost != 0:
			c.loseSession(s, answers[i].lost, nil)
		default:
			c.renewed(s, sent, answers[i].granted, float64(at)/(1<<20))
		}
	}
	c.poke()
}

// renewed moves the deadline, unless the session was over when the answer came.
func (c *core) renewed(s *session, sent Instant, granted time.Duration, share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics.renew.Add(float64(max(len(s.holds), 1)))
	if !c.alive(s) {
		return
	}
	old := s.pulse.Load()
	now := c.clock.Now()
	if old.left(now) <= 0 && !c.off.localDeadline {
		c.deadlines.set(&s.deadline, now.Mono) // too late: lost, and it stays so
		return
	}
	if sent.Mono < old.sent.Mono {
		return // an older call, answered after a newer one
	}
	c.metrics.remaining.Observe(float64(old.left(now)) / float64(old.valid))
	valid := old.valid + granted - old.granted
	s.pulse.Store(&pulse{sent: sent, granted: granted, valid: valid})
	s.failures, s.cause = 0, nil
	c.renewals.set(&s.renewal, sent.Mono+time.Duration(share*float64(valid/3)))
}

// alive tells whether a session is to be renewed again. c.mu is held.
func (c *core) alive(s *session) bool {
	return s.lost == 0 && (c.backend.shared() || (len(s.holds) > 0 && !s.retired))
}

// renewFailed tries again soon; only the deadline makes it a loss.
func (c *core) renewFailed(s *session, err error) {
	c.mu.Lock()
	n := float64(max(len(s.holds), 1))
	s.cause = err
	s.failures++
	failures := s.failures
	var holds []*hold
	if c.alive(s) {
		if at := c.clock.Now().Mono + min(backoff(s.failures-1), s.ttl/retryShare); s.renewal.i == 0 || at < s.renewal.at {
			c.renewals.set(&s.renewal, at)
		}
		for h := range s.holds {
			holds = append(holds, h)
		}
	}
	c.mu.Unlock()
	c.metrics.renew.Add(n)
	c.metrics.renewFail.Add(n)
	for _, h := range holds {
		h.tracing().Event("renew_failed")
	}
	if failures == 1 && len(holds) > 0 {
		c.log.Warn("renewal not confirmed; trying again until the lease's deadline", "name", holds[0].name, "leases", len(holds), "err", err)
	}
}
