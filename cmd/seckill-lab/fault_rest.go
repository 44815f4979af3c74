package main

import (
	"context"
	"time"
)

const (
	// restWithin is the time for everything after healing: for every buyer to know, every order to be decided and
	// the books to agree. The longest single wait in it is a delivery that has to run out (5 s here).
	restWithin = 60 * time.Second
	restPoll   = 200 * time.Millisecond
	// restTwice apart, two readings have to be at rest: more than the period of everything that runs by itself.
	restTwice = 1500 * time.Millisecond
)

// verdict is how a sale ended.
type verdict struct {
	finding
	books  *books
	rested time.Duration // from healing to the first reading of the last rest
}

func (v *verdict) clean() bool { return len(v.violations) == 0 }

// awaitRest reads the books until they are at rest, twice, or the time is over; what is restless then is a
// violation. A law that must hold at any moment ends the waiting at once.
func (f *field) awaitRest(ctx context.Context, activity, sku string, t *told, healed time.Time) *verdict {
	deadline := healed.Add(restWithin)
	var restedAt time.Time
	for {
		reading, err := f.readBooks(ctx, activity, sku)
		v := &verdict{books: reading}
		if err != nil {
			v.restless("%v", err)
		} else {
			v.finding = *judge(reading, t)
		}
		now := time.Now()
		switch {
		case len(v.violations) > 0:
		case len(v.unrest) > 0:
			restedAt = time.Time{}
			if now.Before(deadline) && ctx.Err() == nil {
				break
			}
			for _, unrest := range v.unrest {
				v.violation("%v after healing, %s", now.Sub(healed).Round(time.Second), unrest)
			}
		case restedAt.IsZero():
			restedAt = now
		case now.Sub(restedAt) >= restTwice:
			v.rested = restedAt.Sub(healed)
			if left := v.books.total - v.live; t.notSold && left > 0 {
				v.violation("stranded: buyers were told %q, and %d of %d units are unsold", "sold-out", left, v.books.total)
			}
			return v
		}
		if len(v.violations) > 0 {
			return v
		}
		select {
		case <-ctx.Done():
		case <-time.After(restPoll):
		}
	}
}

// told hands over what the crowd heard, and adds who never came to know.
func (b *buyers) told(fault func(format string, args ...any), rejectionAllowed bool) *told {
	b.mu.Lock()
	defer b.mu.Unlock()
	if missing := b.size - int(b.known.Load()); missing > 0 {
		fault("%d of %d buyers do not know %v after healing what became of their request", missing, b.size, restWithin)
	}
	t := &told{
		admitted: b.admitted, repeated: b.repeated, faults: b.faults, faulty: b.faulty,
		rejectionAllowed: rejectionAllowed,
	}
	for _, kind := range b.refused {
		t.notSold = t.notSold || kind == "409 sold-out" && !rejectionAllowed
	}
	return t
}
