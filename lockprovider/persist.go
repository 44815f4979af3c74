package lockprovider

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// undo removes what an attempt of unknown outcome may have left, for as long as that
// could still block somebody.
func (c *core) undo(a *attempt) {
	if c.off.undo {
		return
	}
	c.metrics.undo.Inc()
	sess := a.sess
	if sess == nil {
		sess = newSession(0, a.req.ttl, pulse{sent: c.clock.Now(), granted: a.req.ttl})
	}
	c.persistUnder(sess, a.req.ttl, func(ctx context.Context) error {
		err := c.backend.undo(ctx, a)
		if errors.Is(err, errSessionGone) {
			return nil
		}
		return err
	})
}

// undoLater is undo for an attempt that goes on under another name.
func (c *core) undoLater(a *attempt) {
	if !c.begin(true) {
		return
	}
	old := &attempt{
		name: a.name, nonce: a.nonce, owner: a.owner, value: a.value, req: a.req, sess: a.sess,
		landed: a.landed, unsure: a.unsure,
	}
	if old.sess != nil {
		c.joinAgain(old.sess)
	}
	go func() {
		defer c.end()
		defer c.leaveSession(old.sess)
		c.undo(old)
	}()
}

// joinAgain counts one more user of a session that the caller is known to be in.
func (c *core) joinAgain(s *session) {
	c.mu.Lock()
	s.users++
	c.mu.Unlock()
}

// persistUnder repeats call until it succeeds or the session has ended by itself. A shared
// session under which it fails for long is retired, and ended with its last hold: that
// frees what the call could not.
func (c *core) persistUnder(s *session, ttl time.Duration, call func(context.Context) error) {
	began := c.clock.Now()
	warned := false
	c.persist(ttl, func() bool {
		since := c.clock.Now().Since(began)
		if !warned && since > ttl {
			warned = true
			c.log.Warn("the store still refuses to give a lock back; trying on", "for", since)
		}
		if !c.backend.shared() {
			return since > 0 && c.over(s)
		}
		if since > stuckAfter*ttl {
			c.retireSession(s)
		}
		return c.over(s)
	}, func(ctx context.Context) error {
		if !c.drained(s) {
			return call(ctx)
		}
		err := c.backend.endSession(ctx, s)
		if err == nil {
			c.loseSession(s, SessionLost, nil) // whoever waits under it has to ask again
		}
		return err
	})
}

// drained tells whether a shared session was retired and holds nothing any more.
func (c *core) drained(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backend.shared() && s.retired && len(s.holds) == 0
}

// persist repeats call with a pause in between until it succeeds, over says that it
// does not matter any more, or the provider stops.
func (c *core) persist(ttl time.Duration, over func() bool, call func(context.Context) error) {
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(c.ctx, callLimit(ttl))
		err := call(ctx)
		cancel()
		if err == nil || over() || c.off.releaseRetry {
			return
		}
		c.log.Debug("store call failed; repeating", "try", n+1, slog.Any("err", err))
		if !sleep(c.ctx, backoff(n)) {
			return
		}
	}
}
