package locktest

import (
	"context"
	"errors"
	"time"

	"seckill/lockprovider"
)

// F: re-entry.
var groupF = []Case{
	{ID: "F1", Name: "nested_hold_is_the_same_hold", Run: nestedHold, Slow: true},
	{ID: "F3", Name: "nested_after_loss", Run: nestedAfterLoss},
	{ID: "F4", Name: "without_the_option_it_is_an_error", Run: reentrantError, Slow: true},
	{ID: "F5", Name: "inner_releases_do_not_free_the_outer", Run: innerReleases, Slow: true},
	{ID: "F6", Name: "other_names_are_not_affected", Run: otherNames, Slow: true},
}

var again = lockprovider.WithReentry()

// nestedHold also covers F2: a nested TTL changes nothing.
func nestedHold(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n")
	b, err := p.Acquire(a.Context(), "n", again, lockprovider.WithTTL(lockprovider.MinTTL), lockprovider.WithMaxHold(time.Millisecond))
	e.Must(err)
	c, err := p.TryAcquire(b.Context(), "n", again)
	e.Must(err)
	if b.Token() != a.Token() || c.Token() != a.Token() || c.Owner() != a.Owner() || b.TTL() != a.TTL() {
		e.Fatalf("tokens %d, %d, %d", a.Token(), b.Token(), c.Token())
	}
	e.hold(a, TTL)
	e.Release(a)
	if _, err := q.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("the outer release freed the nested holds: %v", err)
	}
	e.Release(c)
	e.Release(b)
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
}

func nestedAfterLoss(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	inner, err := p.Acquire(a.Context(), "n", again)
	e.Must(err)
	e.Must(e.raw.Delete("n"))
	e.reason(e.Ends(soon, inner), lockprovider.Revoked)
	_, err = p.Acquire(context.WithoutCancel(a.Context()), "n", again)
	e.reason(err, lockprovider.Revoked)
}

func reentrantError(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	for _, acquire := range []func(context.Context, string, ...lockprovider.Option) (*lockprovider.Lease, error){p.Acquire, p.TryAcquire} {
		ctx, cancel := context.WithTimeout(a.Context(), TTL)
		_, err := acquire(ctx, "n")
		cancel()
		if !errors.Is(err, lockprovider.ErrReentrant) {
			e.Fatalf("nested without the option: %v", err)
		}
	}
	e.Release(a)
	b, err := p.Acquire(context.WithoutCancel(a.Context()), "n")
	e.Must(err) // the hold in the context is over: an ordinary acquisition
	e.Release(b)
}

func innerReleases(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n")
	b, err := p.Acquire(a.Context(), "n", again)
	e.Must(err)
	for range 3 {
		e.Release(b)
	}
	e.Must(a.Err())
	if _, err := q.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("inner releases freed the outer hold: %v", err)
	}
	select {
	case <-b.Context().Done():
	default:
		e.Fatalf("the context of a released nested lease goes on")
	}
	e.Release(a)
}

func otherNames(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	b, err := p.Acquire(a.Context(), "m")
	e.Must(err)
	c, err := e.Open().TryAcquire(a.Context(), "n", again)
	if !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("another provider's hold was entered again: %v, %v", c, err)
	}
	if b.Token() == a.Token() && e.Backend == "etcd" {
		e.Fatalf("one token for two names")
	}
	e.Release(b)
	e.Release(a)
}
