package lockprovider

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
)

func (c *core) inspect(ctx context.Context, name string) (Info, error) {
	infos, err := c.read(ctx, name, true)
	if err != nil {
		return Info{}, unavailable("inspect", name, err)
	}
	if len(infos) == 0 {
		return Info{}, fmt.Errorf("lockprovider: inspect %q: %w", name, ErrNotHeld)
	}
	return infos[0], nil
}

func (c *core) list(ctx context.Context, prefix string) ([]Info, error) {
	infos, err := c.read(ctx, prefix, false)
	if err != nil {
		return nil, unavailable("list", prefix, err)
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos, nil
}

func (c *core) read(ctx context.Context, name string, exact bool) ([]Info, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, maxCallLimit)
	defer cancel()
	return c.backend.list(ctx, name, exact)
}

func (c *core) forceRelease(ctx context.Context, name string, token uint64) error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("lockprovider: force release %q: %w", name, ErrClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, maxCallLimit)
	defer cancel()
	err := c.backend.force(ctx, name, token)
	switch err {
	case nil:
		c.log.Warn("lock taken from its holder by force", "name", name, "token", token)
		return nil
	case ErrTokenMismatch, ErrNotHeld:
		return fmt.Errorf("lockprovider: force release %q (token %d): %w; look who holds it now", name, token, err)
	}
	return unavailable("force release", name, err)
}

// suspect is called by a backend that heard of the end of a hold of ours. The store
// is asked: a message is a hint, not proof. If it confirms a loss, hint says why
// (0: as the store sees it).
func (c *core) suspect(owner string, hint Reason) {
	c.mu.Lock()
	h := c.holds[owner]
	c.mu.Unlock()
	if h == nil || !c.begin(false) {
		return
	}
	go func() {
		defer c.end()
		_ = c.examine(h, hint)
	}()
}

// examine ends a hold that the store no longer knows.
func (c *core) examine(h *hold, hint Reason) error {
	ctx, cancel := context.WithTimeout(c.ctx, callLimit(h.granted))
	defer cancel()
	why, err := c.backend.check(ctx, h)
	if err != nil || why == 0 {
		return err
	}
	if hint != 0 {
		why = hint
	}
	h.lose(why, nil)
	return nil
}

// suspectAll examines every hold, after a gap in what a backend hears; one after the
// other, and not while another look is under way. Renewal does the rest.
func (c *core) suspectAll() {
	if !c.examining.CompareAndSwap(false, true) {
		return
	}
	if !c.begin(false) {
		c.examining.Store(false)
		return
	}
	go func() {
		defer c.end()
		defer c.examining.Store(false)
		c.mu.Lock()
		holds := make([]*hold, 0, len(c.holds))
		for _, h := range c.holds {
			holds = append(holds, h)
		}
		c.mu.Unlock()
		for _, h := range holds {
			if c.examine(h, 0) != nil {
				return
			}
		}
	}()
}

// span starts a span, or none.
func (c *core) span(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, Span) {
	if c.cfg.Tracer == nil {
		return ctx, noSpan{}
	}
	return c.cfg.Tracer.Start(ctx, name, attrs...)
}

type noSpan struct{}

func (noSpan) Event(string, ...slog.Attr) {}
func (noSpan) End(error)                  {}
