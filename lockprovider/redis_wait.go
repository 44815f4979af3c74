package lockprovider

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"time"
)

// recheck is the longest time a waiter relies on messages alone.
const recheck = 2 * time.Second

// A line is the local queue for one name. Only its head talks to Redis, so a release
// wakes one waiter of each process (the gate of rueidislock, lock.go).
type line struct {
	waiting []chan struct{} // closed when its owner becomes the head
}

// A spot is that of the head of a line.
type spot struct {
	leave func()
	left  time.Duration // of the holder's time, by the first try; 0: it is still to be made
}

// tryHere needs a store that has been answering in a fraction of stayLimit. Whoever
// queues for a name does so as the first in line for one that nobody has waited for
// lately, and keeps his place if it is held.
func (b *redisBackend) tryHere(a *attempt, queue bool) (grant, error) {
	if !b.swift.Load() {
		return grant{}, errNotHere
	}
	limit := stayLimit
	if b.off.stay {
		limit = callLimit(a.req.ttl)
	}
	if !queue {
		g, _, err := b.tryOnce(b.core.ctx, a, limit)
		return g, err
	}
	leave, ok := b.enterFirst(a.name)
	if !ok {
		return grant{}, errNotHere
	}
	g, left, err := b.tryOnce(b.core.ctx, a, limit)
	if errors.Is(err, ErrHeld) {
		a.spot = &spot{leave, left}
		return g, err
	}
	leave()
	return g, err
}

// takeSpot is that of tryHere, or another one.
func (b *redisBackend) takeSpot(ctx context.Context, a *attempt) (*spot, error) {
	if p := a.spot; p != nil {
		a.spot = nil
		return p, nil
	}
	leave, err := b.enter(ctx, a.name)
	return &spot{leave: leave}, err
}

// enterFirst makes the caller the head of the name's line if that is empty and nobody
// listens for the name's release.
func (b *redisBackend) enterFirst(name string) (leave func(), ok bool) {
	if b.ears.hears(name) {
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines[name] != nil {
		return nil, false
	}
	turn := make(chan struct{})
	close(turn)
	l := &line{waiting: []chan struct{}{turn}}
	b.lines[name] = l
	return func() { b.step(name, l, turn) }, true
}

// enter waits until the caller is the head of the name's line.
func (b *redisBackend) enter(ctx context.Context, name string) (leave func(), err error) {
	turn := make(chan struct{})
	b.mu.Lock()
	l := b.lines[name]
	if l == nil {
		l = &line{}
		b.lines[name] = l
	}
	l.waiting = append(l.waiting, turn)
	if len(l.waiting) == 1 {
		close(turn)
	}
	b.mu.Unlock()
	leave = func() { b.step(name, l, turn) }
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// step takes one waiter out of the line and calls the next head.
func (b *redisBackend) step(name string, l *line, turn chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range l.waiting {
		if w != turn {
			continue
		}
		l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
		if i == 0 && len(l.waiting) > 0 {
			close(l.waiting[0])
		}
		break
	}
	if len(l.waiting) == 0 {
		delete(b.lines, name)
	}
}

// wait tries once at once, then as the head of the line: subscribe, have it
// confirmed, try, sleep until a message or a timer, try again. The subscription is
// live before the try that decides to sleep, so no release falls in between
// (Redisson's order, RedissonLock.lock).
func (b *redisBackend) wait(ctx context.Context, a *attempt) (grant, error) {
	p, err := b.takeSpot(ctx, a)
	if err != nil {
		return grant{}, err
	}
	defer p.leave()
	left := p.left
	if left == 0 && !b.ears.hears(a.name) {
		g, l, err := b.tryOnce(ctx, a, callLimit(a.req.ttl))
		if !errors.Is(err, ErrHeld) {
			return g, err
		}
		left = l
	}
	t := b.ears.listen(a.name)
	defer b.ears.unlisten(t)
	if !b.off.subscribeFirst {
		b.ears.confirmed(ctx, t, callLimit(a.req.ttl))
		left = 0
	}
	for {
		if left > 0 || b.off.subscribeFirst {
			if err := b.doze(ctx, t, left); err != nil {
				return grant{}, err
			}
		}
		g, l, err := b.tryOnce(ctx, a, callLimit(a.req.ttl))
		if !errors.Is(err, ErrHeld) {
			return g, err
		}
		left = l
	}
}

// tryOnce is a try with its own limit; for a held lock it returns the holder's time left.
func (b *redisBackend) tryOnce(ctx context.Context, a *attempt, limit time.Duration) (grant, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g, err := b.try(ctx, a)
	var held *HeldError
	if errors.As(err, &held) {
		a.held()
		if held.Holder.TTL == 0 {
			return g, recheck / 2, err // about to expire, or written by hand without an expiry
		}
		return g, held.Holder.TTL, err
	}
	return g, 0, err
}

// doze sleeps until a message, or until the holder's time is up.
func (b *redisBackend) doze(ctx context.Context, t *topic, left time.Duration) error {
	nap := min(left+10*time.Millisecond+time.Duration(mathrand.Int64N(int64(40*time.Millisecond))), recheck)
	if b.off.timer {
		nap = time.Hour
	}
	timer := time.NewTimer(nap)
	defer timer.Stop()
	select {
	case source := <-t.wake:
		b.core.metrics.wakeup.WithLabelValues(source).Inc()
	case <-timer.C:
		b.core.metrics.wakeup.WithLabelValues(wakeTimer).Inc()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
