package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// renewalResult is what held locks cost the store.
type renewalResult struct {
	contender
	requests  requests
	intervals float64
}

var errLost = errors.New("a lock was not held to the end")

// renewals counts what the store is asked while one process holds many locks.
func renewals(ctx context.Context, p plan, at servers) ([]renewalResult, error) {
	var all []renewalResult
	for _, c := range contenders {
		if c.interval == 0 {
			continue
		}
		r, err := renewalsOf(ctx, c, p, at)
		for n := 1; n < 3 && errors.Is(err, errLost); n++ { // a machine that was suspended, say
			fmt.Fprintf(os.Stderr, "bench: again: %v\n", err)
			r, err = renewalsOf(ctx, c, p, at)
		}
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", c.name, c.store, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func renewalsOf(ctx context.Context, c contender, p plan, at servers) (renewalResult, error) {
	result := renewalResult{contender: c}
	l, err := c.open(ctx, at)
	if err != nil {
		return result, err
	}
	defer func() { _ = l.close() }()
	releases := make([]func() error, p.locks)
	errs := make([]error, p.locks)
	var wg sync.WaitGroup
	const hands = 8
	for h := range hands {
		wg.Go(func() {
			for i := h; i < p.locks; i += hands {
				releases[i], errs[i] = l.acquire(ctx, "held/"+strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return result, err
		}
	}
	t := newTally(c, at)
	defer t.close()
	time.Sleep(ttl) // what the acquisitions have begun is over
	before, err := t.read(ctx)
	if err != nil {
		return result, err
	}
	began := time.Now()
	time.Sleep(p.watched)
	after, err := t.read(ctx)
	if err != nil {
		return result, err
	}
	result.requests = after.since(before)
	result.intervals = float64(time.Since(began)) / float64(c.interval)
	for i, release := range releases {
		if err := release(); err != nil {
			return result, fmt.Errorf("%w: number %d: %w", errLost, i, err)
		}
	}
	return result, nil
}
