package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// snapshotAge is how old a node's picture of an activity may be when shown.
	snapshotAge = 200 * time.Millisecond
	// unknownAge is how long a node remembers that an activity does not exist.
	unknownAge = time.Second
	// mostUnknown bounds what made-up ids can occupy.
	mostUnknown = 10_000
	// lookupTimeout bounds one look into ledger and gate, new connections included.
	lookupTimeout = 2 * time.Second
)

// picture is what a node knows of an activity: the ledger's and the gate's side,
// read together.
type picture struct {
	activity Activity
	gate     GateView
	gateErr  error // the gate could not be read
	at       time.Time
}

// catalog keeps a picture of each activity that was asked for. However many ask,
// one reads; ids that do not exist are remembered for a second.
type catalog struct {
	ledger Ledger
	gate   *Gate
	flight singleflight.Group

	mu      sync.Mutex
	known   map[string]*picture
	unknown map[string]time.Time
}

func newCatalog(ledger Ledger, gate *Gate) *catalog {
	return &catalog{ledger: ledger, gate: gate, known: map[string]*picture{}, unknown: map[string]time.Time{}}
}

// get returns a picture at most age old; age 0 reads anew unless a read is just
// under way, any negative one takes whatever is known.
func (c *catalog) get(ctx context.Context, id string, age time.Duration) (*picture, error) {
	if !ValidName(id) {
		return nil, fmt.Errorf("activity %q: %w", id, ErrNoActivity)
	}
	c.mu.Lock()
	p, since := c.known[id], c.unknown[id]
	c.mu.Unlock()
	if p != nil && (age < 0 || time.Since(p.at) <= age) {
		return p, nil
	}
	if time.Since(since) <= unknownAge {
		return nil, fmt.Errorf("activity %s: %w", id, ErrNoActivity)
	}
	// The read outlives a caller that goes away: others wait for it too.
	read := c.flight.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return c.read(ctx, id)
	})
	select {
	case r := <-read:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*picture), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("look activity %s up: %w", id, ctx.Err())
	}
}

// since returns a picture that was read after a moment.
func (c *catalog) since(ctx context.Context, id string, moment time.Time) (*picture, error) {
	p, err := c.get(ctx, id, time.Since(moment))
	if err == nil && p.at.Before(moment) {
		p, err = c.get(ctx, id, time.Since(moment)) // that one was under way
	}
	return p, err
}

// forget makes the next look a fresh one: the activity was changed through this node.
func (c *catalog) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unknown, id)
	if p := c.known[id]; p != nil {
		old := *p
		old.at = time.Time{}
		c.known[id] = &old
	}
}

func (c *catalog) read(ctx context.Context, id string) (*picture, error) {
	p := &picture{at: time.Now()}
	var ledgerErr error
	var side sync.WaitGroup
	side.Go(func() { p.gate, p.gateErr = c.gate.View(ctx, id) })
	p.activity, ledgerErr = c.ledger.Activity(ctx, id)
	side.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(ledgerErr, ErrNoActivity) {
		if len(c.unknown) >= mostUnknown {
			clear(c.unknown)
		}
		c.unknown[id] = time.Now()
		return nil, fmt.Errorf("activity %s: %w", id, ledgerErr)
	}
	if ledgerErr != nil {
		// Admission goes on without the ledger: what an activity is changes
		// rarely, and the gate guards itself by its epoch.
		before := c.known[id]
		if before == nil {
			return nil, fmt.Errorf("look activity %s up: %w", id, ledgerErr)
		}
		p.activity = before.activity
	}
	delete(c.unknown, id)
	c.known[id] = p
	return p, nil
}
