package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/lockprovider"
)

// noGhost gives up while answers are late: whatever arrived must be taken back.
func noGhost(e *Env) {
	p, x := e.Via()
	q := e.Open()
	e.Release(e.Acquire(p, "warm"))
	x.Delay(0, 400*time.Millisecond)
	for i, try := range []func(context.Context) (*lockprovider.Lease, error){
		func(ctx context.Context) (*lockprovider.Lease, error) { return p.TryAcquire(ctx, "n") },
		func(ctx context.Context) (*lockprovider.Lease, error) { return p.Acquire(ctx, "n") },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
		_, err := try(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			e.Fatalf("%d: %v", i, err)
		}
		x.Heal()
		e.Release(e.Acquire(q, "n", lockprovider.WithWait(TTL/2)))
		x.Delay(0, 400*time.Millisecond)
	}
	e.Within(TTL, "no key is left", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
}

// lateRequest keeps a request on its way until its undo has been done over another
// connection, and lets it arrive then.
func lateRequest(e *Env) {
	p, x := e.Via()
	q := e.Open()
	keep := e.Acquire(p, "warm") // keeps the session of etcd alive past the case
	x.Strand()
	time.AfterFunc(150*time.Millisecond, x.BreakClients) // the client opens new connections
	if _, err := p.TryAcquire(e.Ctx(10*time.Second), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("a stranded request: %v", err)
	}
	for end := time.Now().Add(time.Second); e.Backend == "etcd" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		keys, err := e.raw.All()
		e.Must(err)
		if slices.ContainsFunc(keys, isMarker) {
			break // the undo is done
		}
	}
	e.Release(e.Acquire(p, "again")) // the store answers over new connections
	x.Deliver()
	for end := time.Now().Add(TTL / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left, err := e.raw.Left("n")
		e.Must(err)
		if left > 0 && e.Backend == "etcd" {
			e.Fatalf("a request that was undone took the name")
		}
	}
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(TTL)))
	e.Must(keep.Verify(e.Ctx(5 * time.Second)))
}

func swallowedAnswer(e *Env) {
	p, x := e.Via()
	q := e.Open()
	e.Release(e.Acquire(p, "warm"))
	x.SwallowAnswer()
	a, err := p.Acquire(e.Ctx(10*time.Second), "n")
	e.Must(err)
	if !x.Swallowed() {
		e.Fatalf("no answer was swallowed")
	}
	e.Must(a.Verify(e.Ctx(5 * time.Second)))
	x.SwallowAnswer()
	e.Release(a)
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(500*time.Millisecond)))
}

// lateGrant bends the clock while the answer is under way.
func lateGrant(e *Env) {
	clock := NewClock()
	e.clock = clock
	p, x := e.Via()
	q := e.Open()
	e.Release(e.Acquire(p, "warm"))
	x.Delay(0, 150*time.Millisecond)
	time.AfterFunc(60*time.Millisecond, func() { clock.StepWall(TTL) })
	l, err := p.TryAcquire(e.Ctx(10*time.Second), "n")
	if err == nil && l.Err() == nil {
		e.Fatalf("a lease that was over when it arrived is valid for %v", l.Remaining())
	}
	if err == nil {
		e.Fatalf("a lease that was over when it arrived was handed out: %v", l.Err())
	}
	if !errors.Is(err, lockprovider.ErrUnavailable) && !errors.Is(err, lockprovider.ErrLost) {
		e.Fatalf("try: %v", err)
	}
	x.Heal()
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(2*TTL)))
}

// cancelAtEveryMoment: a nil error means that the key is there and ours; any other
// that it is not, or soon will not be.
func cancelAtEveryMoment(e *Env) {
	p, x := e.Via()
	e.Release(e.Acquire(p, "n"))
	x.Delay(2*time.Millisecond, 2*time.Millisecond)
	for i := range 40 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*250*time.Microsecond)
		l, err := p.Acquire(ctx, "n")
		if err == nil {
			e.Must(l.Verify(e.Ctx(5 * time.Second)))
			e.Release(l)
		}
		cancel()
	}
	x.Heal()
	e.Within(TTL+time.Second, "no key is left", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
}
