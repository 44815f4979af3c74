package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/lockprovider"
)

// noGhost gives up when the store has granted and the answer is not here yet: it must be
// taken back.
func noGhost(e *Env) {
	p, x := e.Via()
	q := e.Open()
	for i, try := range []func(context.Context) (*lockprovider.Lease, error){
		func(ctx context.Context) (*lockprovider.Lease, error) { return p.TryAcquire(ctx, "n") },
		func(ctx context.Context) (*lockprovider.Lease, error) { return p.Acquire(ctx, "n") },
	} {
		for _, store := range []func(){func() { e.near(p) }, func() { e.far(p, x) }} {
			store()
			ctx, cancel := context.WithCancel(context.Background())
			x.Hold(false, true)
			failed := make(chan error, 1)
			go func() {
				_, err := try(ctx)
				failed <- err
			}()
			e.taken("n")
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				e.Fatalf("%d: %v", i, err)
			}
			x.Heal()
			e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
		}
	}
	e.Within(soon, "no key is left", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
}

// taken waits until the store has a holder of the name.
func (e *Env) taken(name string) {
	e.Helper()
	e.Within(soon, "the store has granted", func() bool { left, err := e.raw.Left(name); return err == nil && left > 0 })
}

// lateRequest keeps a request on its way until its undo has been done over another
// connection, and lets it arrive then.
func lateRequest(e *Env) {
	p, x := e.Via()
	q := e.Open()
	keep := e.Acquire(p, "keep") // keeps the session of etcd alive past the case
	e.far(p, x)
	x.Strand()
	go e.breakStranded(x)
	if _, err := p.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("a stranded request: %v", err)
	}
	e.undone()
	e.Release(e.Acquire(p, "again")) // the store answers over new connections
	e.arrivesLate(x)
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	e.Must(keep.Verify(e.Ctx(soon)))
}

// breakStranded makes the client open new connections, a while after something has been
// stranded: most probably the request, but the clients of the stores say other things too.
func (e *Env) breakStranded(x *Proxy) {
	for end := time.Now().Add(soon); !x.Stranded() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	x.BreakClients()
}

// undone waits for the marker that an undo leaves, as long as an undo may take.
func (e *Env) undone() {
	e.Helper()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		keys, err := e.raw.All()
		e.Must(err)
		if slices.ContainsFunc(keys, isMarker) {
			return
		}
	}
}

// arrivesLate delivers what is stranded, which must not take the name.
func (e *Env) arrivesLate(x *Proxy) {
	e.Helper()
	x.Deliver()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left, err := e.raw.Left("n")
		e.Must(err)
		if left > 0 {
			e.Fatalf("a request that was undone took the name")
		}
	}
}

// lateRequestOfHolder has a first request still on its way when a second one has been
// granted, and the lease released.
func lateRequestOfHolder(e *Env) {
	p, x := e.Via()
	keep := e.Acquire(p, "keep")
	e.near(p)
	x.Strand()
	go e.breakStranded(x)
	l := e.Acquire(p, "n")
	e.Release(l)
	e.arrivesLate(x)
	e.Must(keep.Verify(e.Ctx(soon)))
}

// lateRequestOfWaiter has a first request still on its way when a second one has queued
// the waiter, who then leaves.
func lateRequestOfWaiter(e *Env) {
	p, x := e.Via()
	q := e.Open()
	a := e.Acquire(q, "n")
	keep := e.Acquire(p, "keep")
	e.far(p, x)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	x.Strand()
	go func() {
		_, err := p.Acquire(ctx, "n")
		left <- err
	}()
	go e.breakStranded(x)
	e.waiters(q, "n", 1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		e.Fatalf("cancelled waiter: %v", err)
	}
	e.undone()
	x.Deliver()
	e.Release(e.Acquire(p, "again"))
	e.Release(a)
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	e.Must(keep.Verify(e.Ctx(soon)))
}

func swallowedAnswer(e *Env) {
	p, x := e.Via()
	q := e.Open()
	for _, store := range []func(){func() { e.near(p) }, func() { e.far(p, x) }} {
		store()
		x.SwallowAnswer()
		a, err := p.Acquire(e.Ctx(soon), "n")
		e.Must(err)
		if !x.Swallowed() {
			e.Fatalf("no answer was swallowed")
		}
		e.Must(a.Verify(e.Ctx(soon)))
		x.SwallowAnswer()
		e.Release(a)
		e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	}
}

// evictedUnanswered evicts a holder who does not know yet that it is one, and loses the
// answer: asking again must not find the door shut.
func evictedUnanswered(e *Env) {
	p, x := e.Via()
	q := e.Open()
	for _, store := range []func(){func() { e.near(p) }, func() { e.far(p, x) }} {
		store()
		x.Hold(false, true)
		got := e.later(p, "n")
		e.taken("n")
		in, err := q.Inspect(e.Ctx(soon), "n")
		e.Must(err)
		e.Must(q.ForceRelease(e.Ctx(soon), "n", in.Token))
		x.HealLossy()
		l := e.granted(got, 2*soon)
		if l.Token() <= in.Token {
			e.Breach("token %d after %d", l.Token(), in.Token)
		}
		e.Must(l.Verify(e.Ctx(soon)))
		e.Release(l)
	}
}

// lateGrant lets the lease's time pass while the answer is under way.
func lateGrant(e *Env) {
	clock := NewClock()
	e.clock = clock
	p, x := e.Via()
	q := e.Open()
	for _, store := range []func(){func() { e.near(p) }, func() { e.far(p, x) }} {
		store()
		x.Hold(false, true)
		answers := make(chan error, 1)
		go func() {
			l, err := p.TryAcquire(e.Ctx(soon), "n")
			if err == nil {
				err = fmt.Errorf("a lease that was over when it arrived was handed out: %w", l.Err())
			}
			answers <- err
		}()
		e.taken("n")
		clock.StepWall(e.ttl)
		x.Heal()
		if err := <-answers; !errors.Is(err, lockprovider.ErrUnavailable) && !errors.Is(err, lockprovider.ErrLost) || strings.HasPrefix(err.Error(), "a lease") {
			e.Fatalf("%v", err)
		}
		e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	}
}

// cancelAtEveryMoment: a nil error means that the key is there and ours; any other
// that it is not, or soon will not be.
func cancelAtEveryMoment(e *Env) {
	p, x := e.Via()
	e.near(p)
	x.Delay(2*time.Millisecond, 2*time.Millisecond)
	for i := range 80 {
		moment := time.Duration(i/2) * 250 * time.Microsecond
		ctx, cancel := context.WithCancel(context.Background())
		if i%2 == 0 {
			ctx, cancel = context.WithTimeout(ctx, moment)
		} else {
			time.AfterFunc(moment, cancel)
		}
		l, err := p.Acquire(ctx, "n")
		if err == nil {
			e.Must(l.Verify(e.Ctx(soon)))
			e.Release(l)
		}
		cancel()
	}
	x.Heal()
	e.Within(soon, "no key is left", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
}
