package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// spread is what a contender took, sorted.
type spread struct {
	contender
	took []time.Duration
}

// at returns a quantile.
func (s spread) at(q float64) time.Duration {
	return s.took[min(int(q*float64(len(s.took))), len(s.took)-1)]
}

func sorted(all []spread) []spread {
	for _, s := range all {
		slices.Sort(s.took)
	}
	return all
}

// inTurn calls do for each contender, in another order each round.
func inTurn(rounds int, do func(i int) error) error {
	for range rounds {
		for _, i := range rand.Perm(len(contenders)) {
			if err := do(i); err != nil {
				return fmt.Errorf("%s on %s: %w", contenders[i].name, contenders[i].store, err)
			}
		}
	}
	return nil
}

// uncontended times acquire and release of a lock that nobody else wants.
func uncontended(ctx context.Context, p plan, at servers) ([]spread, error) {
	all := make([]spread, len(contenders))
	lockers := make([]locker, len(contenders))
	for i, c := range contenders {
		l, err := c.open(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", c.name, err)
		}
		defer func() { _ = l.close() }()
		all[i].contender, lockers[i] = c, l
	}
	cycle := func(i int) (time.Duration, error) {
		began := time.Now()
		release, err := lockers[i].acquire(ctx, "free")
		if err == nil {
			err = release()
		}
		return time.Since(began), err
	}
	warm := func(i int) error {
		for range p.cycles {
			if _, err := cycle(i); err != nil {
				return err
			}
		}
		return nil
	}
	if err := inTurn(1, warm); err != nil {
		return nil, err
	}
	err := inTurn(p.rounds, func(i int) error {
		for range p.cycles {
			took, err := cycle(i)
			if err != nil {
				return err
			}
			all[i].took = append(all[i].took, took)
		}
		return nil
	})
	return sorted(all), err
}
