package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	crowdProcesses = 4
	crowdEach      = 50
	stillFor       = 300 * time.Millisecond // the waiters have taken their places
	stillLimit     = 20 * time.Second
	idleFor        = 2 * time.Second
	pollingLimit   = 2 * time.Second // those that poll are never still, and the lock runs out
)

// crowdResult is what 200 waiters of four processes cost the store.
type crowdResult struct {
	contender
	idle       float64 // requests a second while all wait
	perRelease float64
	took       time.Duration // median, from a release to the next acquisition
}

func crowd(ctx context.Context, p plan, at servers) ([]crowdResult, error) {
	var all []crowdResult
	for _, c := range contenders {
		r, err := crowdOf(ctx, c, p, at)
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", c.name, c.store, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// crowdOf lets 200 goroutines over four lockers, as if of four processes, wait for a
// lock that is passed on from one to the next.
func crowdOf(ctx context.Context, c contender, p plan, at servers) (crowdResult, error) {
	result := crowdResult{contender: c}
	lockers := make([]locker, crowdProcesses+1)
	for i := range lockers {
		l, err := c.open(ctx, at)
		if err != nil {
			return result, err
		}
		defer func() { _ = l.close() }()
		lockers[i] = l
	}
	release, err := lockers[crowdProcesses].acquire(ctx, "crowd")
	if err != nil {
		return result, err
	}
	waiting, leave := context.WithCancel(ctx)
	granted := make(chan func() error, crowdProcesses*crowdEach)
	var wg sync.WaitGroup
	for i := range crowdProcesses * crowdEach {
		wg.Go(func() {
			if r, err := lockers[i%crowdProcesses].acquire(waiting, "crowd"); err == nil {
				granted <- r
			}
		})
	}
	defer func() {
		leave()
		go func() { wg.Wait(); close(granted) }()
		for r := range granted {
			_ = r()
		}
	}()
	t := newTally(c, at)
	defer t.close()
	resting, err := still(ctx, t)
	if err != nil {
		return result, err
	}
	time.Sleep(idleFor)
	before, err := t.read(ctx)
	if err != nil {
		return result, err
	}
	result.idle = before.since(resting).asked() / idleFor.Seconds()
	var took []time.Duration
	for range p.releases {
		began := time.Now()
		if err := release(); err != nil {
			return result, err
		}
		select {
		case release = <-granted:
		case <-time.After(time.Minute):
			return result, fmt.Errorf("nobody was granted the lock within a minute")
		}
		took = append(took, time.Since(began))
	}
	after, err := t.read(ctx)
	if err != nil {
		return result, err
	}
	granted <- release
	slices.Sort(took)
	result.perRelease, result.took = after.since(before).asked()/float64(p.releases), took[len(took)/2]
	return result, nil
}

// still waits until the store is asked nothing any more, or not for long.
func still(ctx context.Context, t *tally) (requests, error) {
	limit := stillLimit
	if t.c.polls {
		limit = pollingLimit
	}
	last, err := t.read(ctx)
	for end, since := time.Now().Add(limit), time.Now(); err == nil && time.Since(since) < stillFor && time.Now().Before(end); {
		time.Sleep(stillFor / 10)
		var now requests
		if now, err = t.read(ctx); now.asked() != last.asked() {
			last, since = now, time.Now()
		}
	}
	if err != nil {
		return last, err
	}
	return t.read(ctx)
}
