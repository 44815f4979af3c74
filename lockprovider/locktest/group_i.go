package locktest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"seckill/lockprovider"
)

// I: life cycle.
var groupI = []Case{
	{ID: "I1", Name: "close_leaves_nothing", Run: closeLeavesNothing},
	{ID: "I2", Name: "close_is_bounded_on_a_dead_store", Run: closeIsBounded},
	{ID: "I4", Name: "works_again_after_an_outage", Run: worksAgain},
	{ID: "I5", Name: "opens_without_a_store", Run: opensWithoutStore},
	{ID: "I6", Name: "thousand_locks_renewed_together", Run: thousandLocks},
}

// closeLeavesNothing covers I3 too. That no goroutine is left is checked once for the
// whole test binary.
func closeLeavesNothing(e *Env) {
	p, q := e.Open(), e.Open()
	long := lockprovider.WithTTL(30 * time.Second)
	other := e.Acquire(q, "taken", long)
	a := e.Acquire(p, "a", long)
	b := e.Acquire(p, "b", long)
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Acquire(context.Background(), "taken", long)
		waiting <- err
	}()
	e.waiters(q, "taken", 1)
	_, _ = p.TryAcquire(e.Ctx(soon), "taken", long)
	e.Must(p.Close(e.Ctx(soon)))
	if err := <-waiting; !errors.Is(err, lockprovider.ErrClosed) {
		e.Fatalf("waiter of a closed provider: %v", err)
	}
	for _, l := range []*lockprovider.Lease{a, b} {
		e.reason(e.Ends(soon, l), lockprovider.Closed)
		e.Release(e.Acquire(q, l.Name(), lockprovider.WithWait(soon)))
	}
	if _, err := p.TryAcquire(e.Ctx(time.Second), "a"); !errors.Is(err, lockprovider.ErrClosed) {
		e.Fatalf("try on a closed provider: %v", err)
	}
	e.Must(p.Close(e.Ctx(time.Second)))
	e.Release(other)
	e.Within(soon, "no lock is left", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
}

func closeIsBounded(e *Env) {
	for _, fault := range []func(*Proxy){(*Proxy).Drop, (*Proxy).Cut} {
		p, x := e.Via()
		q := e.Open()
		other := e.Acquire(q, "taken")
		a := e.Acquire(p, "a")
		failed := make(chan error, 1)
		go func() {
			_, err := p.Acquire(context.Background(), "taken")
			failed <- err
		}()
		e.waiters(q, "taken", 1)
		fault(x)
		began := time.Now()
		err := p.Close(e.Ctx(500 * time.Millisecond))
		if took := time.Since(began); took > 1500*time.Millisecond+slack {
			e.Fatalf("close took %v", took)
		}
		if err == nil {
			e.Fatalf("close reports that all was given back to a dead store")
		}
		if err := <-failed; !errors.Is(err, lockprovider.ErrClosed) {
			e.Fatalf("waiter: %v", err)
		}
		e.reason(a.Err(), lockprovider.Closed)
		x.HealLossy()
		e.Release(other)
		e.Release(e.Acquire(q, "a", lockprovider.WithWait(soon)))
		e.Release(e.Acquire(q, "taken", lockprovider.WithWait(soon)))
	}
}

func worksAgain(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n")
	x.Cut()
	e.Ends(soon, a)
	_, err := p.Acquire(e.Ctx(soon), "n", lockprovider.WithWait(300*time.Millisecond))
	if !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("acquire without a store: %v", err)
	}
	got := e.later(p, "n")
	x.Heal()
	b := e.granted(got, soon)
	e.hold(b, TTL)
	e.Release(b)
}

func opensWithoutStore(e *Env) {
	x := NewProxy(e.T, e.address)
	x.Cut()
	began := time.Now()
	p := e.OpenWith(e.configAt(x.Address()))
	if took := time.Since(began); took > slack {
		e.Fatalf("open took %v", took)
	}
	if _, err := p.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("try: %v", err)
	}
	x.Heal()
	e.Release(e.Acquire(p, "n", lockprovider.WithWait(soon)))
}

func thousandLocks(e *Env) {
	const n = 1000
	ttl := lockprovider.WithTTL(6 * time.Second)
	asked := newCounter()
	p := asked.provider(e)
	ls := make([]*lockprovider.Lease, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				ls[i] = e.Acquire(p, "lock/"+strconv.Itoa(i), ttl)
			}
		})
	}
	wg.Wait()
	e.hold(ls[0], 4*time.Second) // the batches have formed
	before := asked.renewals.Load()
	const watched = 4 * time.Second
	e.hold(ls[0], watched)
	got := float64(asked.renewals.Load() - before)
	intervals := float64(watched) / float64(ls[0].TTL()) * 3.7 // a third of the validity, jitter to the early side
	most := (intervals + 1) * n / 100
	if e.Backend == "etcd" {
		most = intervals + 1
	}
	e.Logf("%v renewal requests in %.1f intervals for %d locks", got, intervals, n)
	if got == 0 || got > most {
		e.Fatalf("%v renewal requests in %.1f intervals for %d locks", got, intervals, n)
	}
	for _, l := range ls {
		e.Must(l.Err())
	}
	e.Must(p.Close(e.Ctx(15 * time.Second)))
}
