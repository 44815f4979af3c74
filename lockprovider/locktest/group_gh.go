package locktest

import (
	"errors"
	"math"
	"time"

	"seckill/lockprovider"
)

// G: tokens.
var groupG = []Case{
	{ID: "G1", Name: "tokens_rise", Run: tokensRise},
	{ID: "G3", Name: "token_is_constant_while_held", Run: tokenConstant},
	{ID: "G5", Name: "stale_holder_is_fenced_in_postgres", Run: fencedInPostgres, Slow: true},
	{ID: "G5b", Name: "fence_is_claimed_before_reading", Run: claimBeforeReading, Slow: true},
	{ID: "G6", Name: "failed_try_has_no_token", Run: failedTry, Slow: true},
}

// tokensRise: over release, force, deletion, expiry and new clients; in range (G4).
func tokensRise(e *Env) {
	last := uint64(0)
	rises := func(l *lockprovider.Lease) {
		e.Helper()
		if l.Token() <= last || l.Token() > math.MaxInt64 {
			e.Fatalf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
	}
	for range 4 {
		p, x := e.Via()
		l := e.Acquire(p, "n")
		rises(l)
		e.Release(l)
		l = e.Acquire(p, "n")
		rises(l)
		e.Must(p.ForceRelease(e.Ctx(soon), "n", l.Token()))
		l = e.Acquire(p, "n")
		rises(l)
		e.Must(e.raw.Delete("n"))
		l = e.Acquire(p, "n")
		rises(l)
		x.Cut()
		l = e.Acquire(e.Open(), "n") // after the expiry
		rises(l)
		e.Release(l)
	}
}

func tokenConstant(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	before := a.Token()
	e.hold(a, 2*TTL)
	in, err := p.Inspect(e.Ctx(soon), "n")
	e.Must(err)
	if a.Token() != before || in.Token != before {
		e.Fatalf("token %d, then %d, in the store %d", before, a.Token(), in.Token)
	}
	e.Release(a)
}

func failedTry(e *Env) {
	p := e.Open()
	e.Acquire(p, "n")
	l, err := p.TryAcquire(e.Ctx(soon), "n")
	if l != nil || err == nil {
		e.Fatalf("lease %v, error %v", l, err)
	}
}

// H: inspection and force.
var groupH = []Case{
	{ID: "H1", Name: "inspect_and_list_tell_who", Run: inspectTells},
	{ID: "H2", Name: "force_by_token", Run: forceByToken},
	{ID: "H3", Name: "verify_asks_the_store", Run: verifyAsks},
}

func inspectTells(e *Env) {
	cfg := e.config()
	cfg.Instance = "here-1"
	p := e.OpenWith(cfg)
	q := e.Open()
	began := time.Now()
	a := e.Acquire(p, "member/here-1", lockprovider.WithNote("api,worker"))
	b := e.Acquire(p, "partition/3")
	got := e.later(q, "partition/3")
	e.waiters(q, "partition/3", 1)
	in, err := q.Inspect(e.Ctx(soon), "member/here-1")
	e.Must(err)
	if in.Owner != a.Owner() || in.Token != a.Token() || in.Note != "api,worker" || in.Waiters != 0 {
		e.Fatalf("inspect: %+v", in)
	}
	if in.TTL <= 0 || in.TTL > TTL || in.Since.Before(began.Add(-time.Minute)) || in.Since.After(time.Now().Add(time.Minute)) {
		e.Fatalf("inspect: %+v", in)
	}
	all, err := q.List(e.Ctx(soon), "")
	e.Must(err)
	if len(all) != 2 || all[0].Name != "member/here-1" || all[1].Token != b.Token() || all[1].Waiters != 1 {
		e.Fatalf("list: %+v", all)
	}
	some, err := q.List(e.Ctx(soon), "partition/")
	e.Must(err)
	if len(some) != 1 || some[0].Name != "partition/3" {
		e.Fatalf("list of partition/: %+v", some)
	}
	e.Release(b)
	e.Release(e.granted(got, soon))
	e.Release(a)
	if _, err := q.Inspect(e.Ctx(soon), "member/here-1"); !errors.Is(err, lockprovider.ErrNotHeld) {
		e.Fatalf("inspect of a free name: %v", err)
	}
}

// forceByToken has a waiter, so that the next holder is there before the evicted one
// looks. The TTL is so long that no renewal tells in time.
func forceByToken(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n", lockprovider.WithTTL(5*longTTL))
	got := e.later(q, "n")
	e.waiters(q, "n", 1)
	if err := q.ForceRelease(e.Ctx(soon), "n", a.Token()+1); !errors.Is(err, lockprovider.ErrTokenMismatch) {
		e.Fatalf("force with a wrong token: %v", err)
	}
	e.Must(a.Verify(e.Ctx(soon)))
	e.Must(q.ForceRelease(e.Ctx(soon), "n", a.Token()))
	cause := e.Ends(4*time.Second, a)
	if e.Backend == "etcd" {
		e.reason(cause, lockprovider.Revoked)
	} else {
		e.reason(cause, lockprovider.Revoked, lockprovider.Stolen) // whatever is seen first
	}
	e.Release(e.granted(got, soon))
	if err := q.ForceRelease(e.Ctx(soon), "n", a.Token()); !errors.Is(err, lockprovider.ErrNotHeld) {
		e.Fatalf("force of a free name: %v", err)
	}
}

func verifyAsks(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n", lockprovider.WithTTL(30*time.Second))
	e.Must(a.Verify(e.Ctx(soon)))
	x.Cut()
	if err := a.Verify(e.Ctx(soon)); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("verify without a store: %v", err)
	}
	e.Must(a.Err())
	e.Must(e.raw.Delete("n"))
	x.Heal()
	e.Within(10*time.Second, "verify finds the loss", func() bool {
		return errors.Is(a.Verify(e.Ctx(soon)), lockprovider.ErrLost)
	})
	if !errors.Is(a.Err(), lockprovider.ErrLost) {
		e.Fatalf("a loss that Verify found is forgotten: %v", a.Err())
	}
}
