package lockprovider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// An attempt is one acquisition on its way. The caller makes the first call himself if
// the store has been answering at once (tryHere). All others are made on a goroutine of
// the provider, so that the caller can leave at any moment; whoever leaves first decides:
// a grant that nobody waits for is undone.
type attempt struct {
	name, owner string
	nonce       string // names the attempt's key on etcd, see spares
	value       string // what that key says, the same in every call
	req         request
	sess        *session // shared backends only
	span        Span
	landed      bool  // the store is known to have a key of this attempt
	unsure      bool  // a call that writes had no answer: it may have arrived, or arrive yet
	spot        *spot // Redis: in the line of its name, since tryHere

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	abandoned bool
	settled   bool
	done      chan struct{}
	hold      *hold
	err       error
	last      error // latest store failure; nil once the store has said that the name is held
	behind    bool  // the store has said so
}

// held notes that the store answered and named another holder.
func (a *attempt) held() {
	a.mu.Lock()
	a.last, a.behind = nil, true
	a.mu.Unlock()
	a.span.Event("held")
}

// lineage is how a hold travels in a context, for re-entry.
type lineage struct {
	c    *core
	name string
}

func (c *core) acquire(ctx context.Context, name string, queue bool, opts []Option) (*Lease, error) {
	req, err := c.request(name, opts)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lockprovider: acquire %q: %w", name, context.Cause(ctx))
	}
	if outer, ok := ctx.Value(lineage{c, name}).(*hold); ok && !c.off.reentry {
		if l, err := outer.reenter(ctx, req); l != nil || err != nil {
			return l, err
		}
	}
	began := c.clock.Now()
	tctx, span := c.span(ctx, "lock.acquire", slog.String("name", name))
	l, err := c.pursue(tctx, span, name, queue, req)
	c.metrics.acquire.Inc()
	if err != nil {
		c.metrics.acquireFail.WithLabelValues(failure(err)).Inc()
		span.End(err)
		return nil, err
	}
	waited := c.clock.Now().Since(began)
	c.metrics.wait.Observe(waited.Seconds())
	span.Event("granted", slog.Uint64("token", l.token), slog.Duration("wait", waited))
	span.End(nil)
	return l, nil
}

func (c *core) request(name string, opts []Option) (request, error) {
	req := request{ttl: c.cfg.TTL, guard: c.cfg.Guard, purpose: "other"}
	for _, o := range opts {
		o(&req)
	}
	if name == "" || len(name) > maxName {
		return req, fmt.Errorf("lockprovider: name of %d bytes: want 1 to %d", len(name), maxName)
	}
	if len(req.note) > maxNote {
		req.note = req.note[:maxNote]
	}
	if req.wait < 0 || req.maxHold < 0 {
		return req, fmt.Errorf("lockprovider: acquire %q: WithWait and WithMaxHold must not be negative", name)
	}
	if err := checkTimes(req.ttl, req.guard); err != nil {
		return req, err
	}
	req.ttl = c.backend.roundTTL(req.ttl)
	return req, nil
}

// pursue starts the attempt and waits for it, for ctx, the wait limit or the end of
// the provider, whatever comes first.
func (c *core) pursue(ctx context.Context, span Span, name string, queue bool, req request) (*Lease, error) {
	if !c.begin(false) {
		return nil, fmt.Errorf("lockprovider: acquire %q: %w", name, ErrClosed)
	}
	began := time.Now()
	a := c.newAttempt(span, name, req)
	if c.tryHere(ctx, a, queue) {
		return c.collect(ctx, a)
	}
	a.ctx, a.cancel = context.WithCancel(c.ctx)
	c.run(func() {
		defer c.end()
		c.carry(a, queue)
	})
	var limit <-chan time.Time
	if d := c.waitLimit(queue, req); d > 0 {
		t := time.NewTimer(d - time.Since(began))
		defer t.Stop()
		limit = t.C
	}
	closing := c.closing
	left := ctx.Done()
	if c.off.bounded {
		limit, left = nil, nil
	}
	if queue {
		c.metrics.waiters.Inc()
		defer c.metrics.waiters.Dec()
	}
	select {
	case <-a.done:
	case <-left:
		return c.leave(ctx, a, context.Cause(ctx))
	case <-limit:
		return c.leave(ctx, a, a.tooLong(queue))
	case <-closing:
		return c.leave(ctx, a, ErrClosed)
	}
	return c.collect(ctx, a)
}

// stayLimit is how late a caller may notice that he should have left.
const stayLimit = 50 * time.Millisecond

// tryHere makes the first call on the caller's goroutine, if the backend allows it: handing
// it to another one and back costs a quarter of an uncontended acquisition. true: the
// attempt is settled; false: it goes on elsewhere.
func (c *core) tryHere(ctx context.Context, a *attempt, queue bool) bool {
	if !c.canStay(ctx, queue, a.req) {
		return false
	}
	g, err := c.backend.tryHere(a, queue)
	if errors.Is(err, errNotHere) {
		return false
	}
	g, err = c.heed(a, g, err)
	switch {
	case err == nil && ctx.Err() != nil:
		a.landed = true // but nobody wants it any more
		return false
	case err == nil, errors.Is(err, ErrForeignKey), errors.Is(err, ErrHeld) && !queue:
	case errors.Is(err, errLate) && !queue:
		err = unavailable("acquire", a.name, err)
	default:
		if !errors.Is(err, ErrHeld) {
			a.last = err
		}
		return false
	}
	if err = c.settle(a, g, err); err == nil || !a.landed {
		c.end()
		return true
	}
	c.run(func() {
		defer c.end()
		c.tidy(a, err)
	})
	return true
}

// canStay tells whether the caller has no limit shorter than stayLimit.
func (c *core) canStay(ctx context.Context, queue bool, req request) bool {
	if d := c.waitLimit(queue, req); d > 0 && d < stayLimit {
		return false
	}
	at, ok := ctx.Deadline()
	return !ok || time.Until(at) >= stayLimit
}

// waitLimit bounds TryAcquire by the limit of its store calls: opening a session,
// the try, and once more if the session turned out to be gone.
func (c *core) waitLimit(queue bool, req request) time.Duration {
	if queue {
		return req.wait
	}
	d := 2 * callLimit(req.ttl)
	if req.wait > 0 {
		d = min(d, req.wait)
	}
	return d
}

func (c *core) newAttempt(span Span, name string, req request) *attempt {
	a := &attempt{name: name, span: span, req: req, done: make(chan struct{})}
	c.rename(a)
	return a
}

// rename gives the attempt an identity that nobody had before.
func (c *core) rename(a *attempt) {
	fresh := c.nonce()
	a.owner = c.cfg.Instance + "/" + fresh
	a.nonce = fresh
	if c.backend.shared() {
		a.nonce = c.spares.take(a.name, fresh)
	}
	a.value, a.landed, a.unsure = "", false, false
}

// tooLong is the error of a wait that reached its limit.
func (a *attempt) tooLong(queue bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil {
		return unavailable("acquire", a.name, a.last)
	}
	if !queue || !a.behind {
		return unavailable("acquire", a.name, errors.New("no answer in time"))
	}
	return ErrWaitTimeout
}

// leave gives the attempt up, unless it was granted in the meantime.
func (c *core) leave(ctx context.Context, a *attempt, why error) (*Lease, error) {
	a.mu.Lock()
	if a.settled {
		a.mu.Unlock()
		return c.collect(ctx, a)
	}
	a.abandoned = true
	a.mu.Unlock()
	a.cancel()
	if errors.Is(why, ErrUnavailable) {
		return nil, why
	}
	return nil, fmt.Errorf("lockprovider: acquire %q: %w", a.name, why)
}

func (c *core) collect(ctx context.Context, a *attempt) (*Lease, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.hold.lease(ctx), nil
}

// failures are the reason labels of failed acquisitions; otherFailure is the end of the
// caller's context.
var failures = []struct {
	kind error
	word string
}{
	{ErrHeld, "held"},
	{ErrWaitTimeout, "wait_timeout"},
	{ErrUnavailable, "unavailable"},
	{ErrClosed, "closed"},
	{ErrForeignKey, "foreign_key"},
	{ErrLost, "lost"},
}

const otherFailure = "context"

func failure(err error) string {
	for _, k := range failures {
		if errors.Is(err, k.kind) {
			return k.word
		}
	}
	return otherFailure
}
