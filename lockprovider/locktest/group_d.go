package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/lockprovider"
)

// D: release.
var groupD = []Case{
	{ID: "D1", Name: "dead_context", Run: releaseDeadContext, Slow: true},
	{ID: "D2", Name: "store_away_then_back", Run: releaseStoreAway},
	{ID: "D4", Name: "next_waiter_starts_at_once", Run: handOff, Slow: true},
	{ID: "D5", Name: "lost_lease_is_not_held_without_IO", Run: releaseLost},
	{ID: "D6", Name: "do_releases_on_panic", Run: doPanic, Slow: true},
	{ID: "D7", Name: "release_races_renewal", Run: releaseRacesRenewal},
}

func releaseDeadContext(e *Env) {
	p, q := e.Open(), e.Open()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := p.Acquire(ctx, "n")
	e.Must(err)
	cancel()
	if err := a.Release(ctx); err != nil && !errors.Is(err, lockprovider.ErrReleasePending) {
		e.Fatalf("release: %v", err)
	}
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	e.Release(a)
}

// releaseStoreAway also keeps another lease of the provider, so that etcd's session
// lives through it all and cannot be what frees the name.
func releaseStoreAway(e *Env) {
	p, x := e.Via()
	q := e.Open()
	long := lockprovider.WithTTL(longTTL)
	keep := e.Acquire(p, "keep", long)
	a := e.Acquire(p, "n", long)
	x.Cut()
	began := time.Now()
	if err := a.Release(e.Ctx(300 * time.Millisecond)); !errors.Is(err, lockprovider.ErrReleasePending) {
		e.Fatalf("release on a dead store: %v", err)
	}
	if took := time.Since(began); took > 300*time.Millisecond+slack {
		e.Fatalf("release took %v", took)
	}
	began = time.Now()
	if err := a.Release(context.Background()); !errors.Is(err, lockprovider.ErrReleasePending) {
		e.Fatalf("second release on a dead store: %v", err)
	}
	if took := time.Since(began); took > longTTL/3+slack {
		e.Fatalf("release without a limit took %v", took)
	}
	x.Heal()
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon/2)))
	e.Release(a)
	e.Must(keep.Verify(e.Ctx(soon)))
}

func handOff(e *Env) {
	p, q := e.Open(), e.Open()
	var took []time.Duration
	for range 20 {
		a := e.Acquire(p, "n")
		got := e.later(q, "n")
		e.waiters(p, "n", 1)
		began := time.Now()
		e.Release(a)
		b := e.granted(got, 10*time.Second)
		took = append(took, time.Since(began))
		e.Release(b)
	}
	slices.Sort(took)
	e.Logf("hand-off: median %v, slowest %v", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second {
		e.Fatalf("hand-offs took %v", took)
	}
}

func releaseLost(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n")
	x.Drop()
	e.Ends(soon, a)
	began := time.Now()
	err := a.Release(context.Background())
	if !errors.Is(err, lockprovider.ErrNotHeld) || !errors.Is(err, lockprovider.ErrLost) {
		e.Fatalf("release: %v", err)
	}
	if took := time.Since(began); took > TTL/4 { // with a request it would wait for a third of the TTL
		e.Fatalf("release of a lost lease took %v", took)
	}
}

func doPanic(e *Env) {
	p, q := e.Open(), e.Open()
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				e.Errorf("recovered %v", r)
			}
		}()
		_ = lockprovider.Do(context.Background(), p, "n", func(context.Context, *lockprovider.Lease) error { panic("boom") })
	}()
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	mine := errors.New("mine")
	if err := lockprovider.Do(context.Background(), p, "n", func(context.Context, *lockprovider.Lease) error { return mine }); !errors.Is(err, mine) {
		e.Fatalf("do: %v", err)
	}
	err := lockprovider.Do(context.Background(), p, "n", func(ctx context.Context, l *lockprovider.Lease) error {
		e.Must(e.raw.Delete("n"))
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, lockprovider.ErrLost) {
		e.Fatalf("do with a lost lease: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = lockprovider.Do(ctx, p, "n", func(context.Context, *lockprovider.Lease) error { cancel(); return nil })
	if err != nil {
		e.Fatalf("do whose context ended in the work: %v", err)
	}
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
}

func releaseRacesRenewal(e *Env) {
	p, x := e.Via()
	x.Delay(5*time.Millisecond, 5*time.Millisecond)
	q := e.Open()
	e.Release(e.Acquire(q, "warm"))
	for i := range 6 {
		a := e.Acquire(p, "n")
		e.hold(a, interval-30*time.Millisecond+time.Duration(i)*8*time.Millisecond)
		e.Release(a)
		e.Release(e.Acquire(q, "n", lockprovider.WithWait(TTL*3/4)))
	}
}
