package lockprovider

import "math"

// dueBatches takes out the sessions to renew now, as few calls as the backend
// allows: once one is due, those due within the next twentieth of its interval go along,
// and as many more as the call takes.
// c.mu is held.
func (c *core) dueBatches(now Instant) (batches [][]*session, idle []*session) {
	at, ok := c.renewals.next()
	if !ok || at > now.Mono {
		return nil, nil
	}
	by := now.Mono + c.renewals[0].of.(*session).interval()/20
	var batch []*session
	for e := c.renewals.due(by); e != nil; e = c.renewals.due(by) {
		s := e.of.(*session)
		if c.backend.shared() && len(s.holds) == 0 && s.users == 0 && now.Since(s.lastUsed) > s.ttl {
			idle = append(idle, s)
			continue
		}
		if batch = append(batch, s); len(batch) == c.backend.batch() {
			batches, batch = append(batches, batch), nil
		}
	}
	if batch != nil {
		batches = append(batches, c.topUp(batch, now))
	}
	return batches, idle
}

// topUp fills a call that is sent anyway with the sessions that are due next, so that
// groups which began at different times come together and calls are full. Those whose
// renewal is under way stay out. c.mu is held.
func (c *core) topUp(batch []*session, now Instant) []*session {
	var busy []*entry
	for len(batch) < c.backend.batch() && len(busy) < c.backend.batch() {
		e := c.renewals.due(math.MaxInt64)
		if e == nil {
			break
		}
		s := e.of.(*session)
		if s.asked > 0 || now.Since(s.pulse.Load().sent) < s.interval()/2 {
			busy = append(busy, e)
			continue
		}
		batch = append(batch, s)
	}
	for _, e := range busy {
		c.renewals.set(e, e.at)
	}
	return batch
}
