package lockprovider

import (
	"context"
	"fmt"
	"time"
)

// closeGrace is how long Close waits, after its limit, for goroutines that have been
// told to stop.
const closeGrace = time.Second

func (c *core) close(ctx context.Context) error {
	c.mu.Lock()
	if c.isClosing {
		c.mu.Unlock()
		select {
		case <-c.closed:
			return c.closeErr
		case <-ctx.Done():
			return fmt.Errorf("lockprovider: close: %w", context.Cause(ctx))
		}
	}
	c.isClosing = true
	close(c.closing)
	c.jobs++ // until everything has begun to be given back
	c.wg.Add(1)
	c.mu.Unlock()
	c.closeErr = c.shutdown(ctx)
	close(c.closed)
	return c.closeErr
}

func (c *core) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TTL+maxCallLimit)
	defer cancel()
	c.giveAllBack()
	c.end()
	pending := 0
	select {
	case <-c.idle:
	case <-ctx.Done():
		c.mu.Lock()
		pending = c.jobs
		c.mu.Unlock()
	}
	c.stop()
	err := c.finishAll()
	if pending > 0 {
		return fmt.Errorf("lockprovider: close: %d store calls not confirmed (%w); what they should have freed expires within its TTL", pending, context.Cause(ctx))
	}
	return err
}

// giveAllBack ends every hold. Sessions that holds share are ended as a whole, which
// frees all their keys in one call.
func (c *core) giveAllBack() {
	c.mu.Lock()
	holds := make([]*hold, 0, len(c.holds))
	for _, h := range c.holds {
		holds = append(holds, h)
	}
	sessions := make([]*session, 0, len(c.sessions))
	for _, s := range c.sessions {
		sessions = append(sessions, s)
	}
	c.mu.Unlock()
	for _, h := range holds {
		if h.lose(Closed, nil) && !c.backend.shared() {
			h.reap(0)
		}
	}
	for _, s := range sessions {
		c.retireSession(s)
	}
}

// finishAll waits for all goroutines, the backend's included.
func (c *core) finishAll() error {
	done := make(chan error, 1)
	go func() {
		err := c.backend.close()
		c.wg.Wait()
		done <- err
	}()
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("lockprovider: close: store calls did not stop within %v; they end at their own limits", closeGrace)
	}
}
