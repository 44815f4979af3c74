package locktest

import (
	"context"
	"errors"
	"time"

	"seckill/lockprovider"
)

func acquireContextEnds(e *Env) {
	p := e.Open()
	keep := e.Acquire(p, "keep") // the session of etcd lives on
	ctx, cancel := context.WithCancelCause(context.Background())
	a, err := p.Acquire(ctx, "n")
	e.Must(err)
	q := e.Open()
	mine := errors.New("shutting down")
	cancel(mine)
	began := time.Now()
	if cause := e.Ends(soon, a); !errors.Is(cause, mine) {
		e.Fatalf("cause %v", cause)
	}
	e.Must(a.Err()) // still excluded: the work may be winding down
	b := e.Acquire(q, "n", lockprovider.WithWait(3*TTL))
	if took := time.Since(began); took < TTL/3 || took > TTL+slack {
		e.Fatalf("handed on %v after the context's end, TTL %v", took, TTL)
	}
	if a.Err() == nil {
		e.Breach("two holders")
	}
	e.Release(b)
	e.Must(keep.Err())
	ctx, cancel = context.WithCancelCause(context.Background())
	c, err := p.Acquire(ctx, "n", lockprovider.WithTTL(longTTL))
	e.Must(err)
	cancel(mine)
	e.Release(c)
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
}

func wallClockSteps(e *Env) {
	clock := NewClock()
	e.clock = clock
	p := e.Open()
	a := e.Acquire(p, "n")
	clock.StepWall(-time.Hour)
	e.hold(a, TTL)
	clock.StepWall(time.Hour) // back to the truth: no more than really passed
	e.Within(TTL, "a lease again", func() bool {
		if a.Err() == nil {
			return true
		}
		l, err := p.Acquire(e.Ctx(3*TTL), "n")
		if err == nil {
			a = l
		}
		return err == nil
	})
	clock.StepWall(time.Hour)
	if !errors.Is(a.Err(), lockprovider.ErrLost) {
		e.Fatalf("an hour later by the wall clock: %v, %v remain", a.Err(), a.Remaining())
	}
	e.Ends(soon, a)
}

func suspendedMachine(e *Env) {
	clock := NewClock()
	e.clock = clock
	p := e.Open()
	a := e.Acquire(p, "n")
	clock.FreezeMono()
	e.Must(a.Err())
	clock.StepWall(e.ttl)
	if err := a.Err(); !errors.Is(err, lockprovider.ErrLost) {
		e.Fatalf("first call after a suspend: %v", err)
	}
}

func maxHold(e *Env) {
	p, q := e.Open(), e.Open()
	keep := e.Acquire(p, "keep")
	began := time.Now()
	a := e.Acquire(p, "n", lockprovider.WithMaxHold(TTL*3/2))
	got := e.later(q, "n")
	e.reason(e.Ends(soon, a), lockprovider.MaxHold)
	if took := time.Since(began); took < TTL*3/2 {
		e.Fatalf("ended after %v", took)
	}
	b := e.granted(got, soon)
	e.Release(b)
	e.Must(keep.Err())
}

func lostStaysLost(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n")
	x.Drop()
	e.reason(e.Ends(soon, a), lockprovider.Expired)
	x.Heal() // delivers the renewals that were held
	for end := time.Now().Add(TTL); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if a.Err() == nil || a.Remaining() != 0 {
			e.Breach("a lost lease came back")
		}
	}
	b := e.Acquire(p, "gone")
	e.Must(e.raw.Delete("gone"))
	e.Ends(soon, b)
	for end := time.Now().Add(TTL); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left, err := e.raw.Left("gone")
		e.Must(err)
		if left != 0 {
			e.Fatalf("a renewal wrote the key anew")
		}
	}
}
