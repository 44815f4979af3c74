package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/lockprovider"
)

// A: exclusion and identity.
var groupA = []Case{
	{ID: "A1", Name: "never_two_inside", Run: neverTwoInside, Slow: true},
	{ID: "A2", Name: "owners_are_unique", Run: ownersAreUnique, Slow: true},
	{ID: "A3", Name: "expired_holder_frees_nothing", Run: expiredHolderFreesNothing},
	{ID: "A4", Name: "old_lease_cannot_free_new_one_of_same_provider", Run: oldLeaseOfSameProvider, Slow: true},
	{ID: "A5", Name: "one_provider_excludes_itself", Run: oneProviderExcludesItself, Slow: true},
	{ID: "A6", Name: "second_release_is_harmless", Run: secondRelease, Slow: true},
	{ID: "A7", Name: "names_are_opaque", Run: namesAreOpaque, Slow: true},
	{ID: "A8", Name: "times_are_validated", Run: timesAreValidated},
	{ID: "A9", Name: "release_spares_a_stranger", Run: releaseSparesAStranger, Slow: true},
}

func neverTwoInside(e *Env) {
	rounds := 12
	if e.h.Long {
		rounds = 110
	}
	var inside, done atomic.Int32
	count := 0 // guarded by the lock under test; the race detector is a second witness
	var wg sync.WaitGroup
	for range 3 {
		p := e.Open()
		for range 16 {
			wg.Go(func() {
				for range rounds {
					ctx, cancel := context.WithCancel(context.Background())
					if rand.IntN(4) == 0 {
						time.AfterFunc(time.Duration(rand.IntN(4000))*time.Microsecond, cancel)
					}
					l, err := p.Acquire(ctx, "section")
					if err == nil {
						if inside.Add(1) != 1 {
							e.Breach("two inside")
						}
						count++
						done.Add(1)
						inside.Add(-1)
						e.Release(l)
					} else if !errors.Is(err, context.Canceled) {
						e.Errorf("acquire: %v", err)
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	if count != int(done.Load()) {
		e.Breach("count is %d after %d sections", count, done.Load())
	}
	p := e.Open()
	e.Release(e.Acquire(p, "section", lockprovider.WithWait(10*time.Second)))
	e.Within(10*time.Second, "nothing is left in the store", func() bool {
		keys, err := e.raw.Locks()
		return err == nil && len(keys) == 0
	})
}

func ownersAreUnique(e *Env) {
	p, q := e.Open(), e.Open()
	seen := map[string]bool{}
	for range 50 {
		for _, x := range []*lockprovider.Provider{p, q} {
			l := e.Acquire(x, "who")
			if seen[l.Owner()] {
				e.Breach("owner %q came twice", l.Owner())
			}
			seen[l.Owner()] = true
			e.Release(l)
		}
	}
}

func expiredHolderFreesNothing(e *Env) {
	p, x := e.Via()
	q := e.Open()
	a := e.Acquire(p, "n")
	x.Drop()
	b := e.Acquire(q, "n")
	if a.Err() == nil {
		e.Breach("the old holder believes that it holds")
	}
	x.HealLossy()
	if err := a.Release(e.Ctx(soon)); !errors.Is(err, lockprovider.ErrNotHeld) {
		e.Fatalf("release after loss: %v", err)
	}
	e.Must(b.Verify(e.Ctx(soon)))
	e.Release(b)
}

func oldLeaseOfSameProvider(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	e.Must(e.raw.Delete("n"))
	b := e.Acquire(p, "n")
	_ = a.Release(e.Ctx(soon))
	e.Must(b.Verify(e.Ctx(soon)))
	if _, err := e.Open().TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("a third party got in: %v", err)
	}
	e.Release(b)
}

func oneProviderExcludesItself(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	if _, err := p.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("second acquisition of the same provider: %v", err)
	}
	e.Release(a)
	b := e.Acquire(p, "n")
	if b.Owner() == a.Owner() || b.Token() <= a.Token() {
		e.Fatalf("owner %q token %d after owner %q token %d", b.Owner(), b.Token(), a.Owner(), a.Token())
	}
	e.Release(b)
}

func secondRelease(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	e.Release(a)
	b := e.Acquire(p, "n")
	e.Release(a)
	e.Must(b.Verify(e.Ctx(soon)))
	if err := a.Err(); !errors.Is(err, lockprovider.ErrReleased) {
		e.Fatalf("Err of a released lease: %v", err)
	}
	e.Release(b)
}

func namesAreOpaque(e *Env) {
	p := e.Open()
	names := []string{
		"a", "ab", "a/", "a/b", "a/b/c", "a:b", "{a}", "a}b", "%2F", "/", "a%2Fb", " ", "ä", "\x00\xff", "*", "?", "[a]", "\r\n",
		strings.Repeat("x", 1024),
	}
	for _, n := range names {
		l, err := p.TryAcquire(e.Ctx(soon), n)
		if err != nil {
			e.Fatalf("name %.20q is not independent of the others: %v", n, err)
		}
		in, err := p.Inspect(e.Ctx(soon), n)
		if err != nil || in.Name != n || in.Token != l.Token() {
			e.Fatalf("inspect %.20q: %+v, %v", n, in, err)
		}
	}
	all, err := p.List(e.Ctx(soon), "")
	if err != nil || len(all) != len(names) {
		e.Fatalf("list: %d of %d, %v", len(all), len(names), err)
	}
	some, err := p.List(e.Ctx(soon), "a/")
	if err != nil || len(some) != 3 {
		e.Fatalf("list of a/: %+v, %v", some, err)
	}
	for _, n := range []string{"", strings.Repeat("x", 1025)} {
		if _, err := p.TryAcquire(e.Ctx(time.Second), n); err == nil {
			e.Fatalf("a name of %d bytes was taken", len(n))
		}
	}
	e.Must(e.raw.Foreign("foreign"))
	if _, err := p.TryAcquire(e.Ctx(soon), "foreign"); !errors.Is(err, lockprovider.ErrForeignKey) {
		e.Fatalf("try over a foreign key: %v", err)
	}
}

func timesAreValidated(e *Env) {
	p := e.Open()
	for _, o := range []lockprovider.Option{
		lockprovider.WithTTL(0), lockprovider.WithTTL(-time.Second), lockprovider.WithTTL(lockprovider.MinTTL - 1),
		lockprovider.WithGuard(-1), lockprovider.WithGuard(TTL), lockprovider.WithWait(-1), lockprovider.WithMaxHold(-1),
	} {
		if l, err := p.TryAcquire(e.Ctx(soon), "n", o); err == nil {
			e.Fatalf("accepted, with TTL %v", l.TTL())
		}
	}
	l := e.Acquire(p, "n", lockprovider.WithTTL(2500*time.Millisecond))
	want := 2500 * time.Millisecond
	if e.Backend == "etcd" {
		want = 3 * time.Second
	}
	if l.TTL() != want {
		e.Fatalf("TTL %v granted for 2.5s", l.TTL())
	}
	e.Release(l)
	for _, cfg := range []lockprovider.Config{{Backend: "paper"}, {Backend: "etcd"}, {Backend: "redis", RedisURL: "http://x"}, {Backend: "redis", TTL: 1}, {Namespace: "a b"}} {
		if _, err := lockprovider.Open(context.Background(), cfg); err == nil {
			e.Errorf("configuration %+v was accepted", cfg)
		}
	}
}

// releaseSparesAStranger keeps the holder from hearing of its loss, so that its release
// reaches the store.
func releaseSparesAStranger(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n")
	x.Hold(false, true)
	e.Must(e.raw.Usurp("n"))
	if err := a.Release(e.Ctx(500 * time.Millisecond)); !errors.Is(err, lockprovider.ErrReleasePending) {
		e.Fatalf("release without an answer: %v", err)
	}
	if _, err := e.Open().TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("the stranger's key was removed: %v", err)
	}
	x.Heal()
	if err := a.Release(e.Ctx(soon)); err != nil && !errors.Is(err, lockprovider.ErrNotHeld) {
		e.Fatalf("release: %v", err)
	}
	if _, err := e.Open().TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
		e.Fatalf("the stranger's key was removed: %v", err)
	}
}
