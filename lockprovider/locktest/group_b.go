package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/lockprovider"
)

// slack is what a limit may be overrun by on a busy machine.
const slack = 2 * time.Second

// B: acquiring.
var groupB = []Case{
	{ID: "B1", Name: "try_on_held_tells_who_and_leaves_nothing", Run: tryOnHeld, Slow: true},
	{ID: "B2", Name: "fifty_tries_on_a_free_name", Run: fiftyTries, Slow: true},
	{ID: "B3", Name: "wait_limit_is_kept", Run: waitLimit, Slow: true},
	{ID: "B4", Name: "wait_limit_is_kept_by_a_silent_store", Run: waitLimitSilent},
	{ID: "B5", Name: "errors_can_be_told_apart", Run: errorsApart, Slow: true},
	{ID: "B6", Name: "abandoned_attempt_leaves_no_ghost", Run: noGhost, Slow: true},
	{ID: "B6b", Name: "request_that_arrives_after_its_undo", Run: lateRequest, Slow: true},
	{ID: "B6c", Name: "request_of_a_waiter_that_has_left", Run: lateRequestOfWaiter, Slow: true},
	{ID: "B6d", Name: "request_that_arrives_after_the_release", Run: lateRequestOfHolder, Slow: true},
	{ID: "B7", Name: "swallowed_answer_is_one_hold", Run: swallowedAnswer, Slow: true},
	{ID: "B7b", Name: "evicted_before_its_answer_came", Run: evictedUnanswered, Slow: true},
	{ID: "B8", Name: "waiter_leaves_and_its_successor_proceeds", Run: waiterLeaves, Slow: true},
	{ID: "B9", Name: "waiter_whose_key_is_gone_returns", Run: waiterKeyGone, Only: "etcd"},
	{ID: "B10", Name: "dead_context_asks_nobody", Run: deadContext},
	{ID: "B11", Name: "grant_that_comes_too_late_is_no_lease", Run: lateGrant, Slow: true},
	{ID: "B12", Name: "cancel_at_every_moment", Run: cancelAtEveryMoment},
	{ID: "B13", Name: "silent_store_keeps_no_caller", Run: silentStoreKeepsNobody, Slow: true},
}

func tryOnHeld(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n", lockprovider.WithNote("the note"))
	before, err := e.raw.All()
	e.Must(err)
	_, err = q.TryAcquire(e.Ctx(soon), "n")
	var held *lockprovider.HeldError
	if !errors.Is(err, lockprovider.ErrHeld) || !errors.As(err, &held) {
		e.Fatalf("try: %v", err)
	}
	if held.Holder.Owner != a.Owner() || held.Holder.Token != a.Token() || held.Holder.Note != "the note" {
		e.Fatalf("holder %+v", held.Holder)
	}
	after, err := e.raw.All()
	e.Must(err)
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		e.Fatalf("keys before %v, after %v", before, after)
	}
	e.Release(a)
}

func fiftyTries(e *Env) {
	ps := []*lockprovider.Provider{e.Open(), e.Open()}
	for round := range 10 {
		var won atomic.Int32
		var wg sync.WaitGroup
		var last *lockprovider.Lease
		for i := range 50 {
			wg.Go(func() {
				l, err := ps[i%2].TryAcquire(context.Background(), "n")
				switch {
				case err == nil:
					won.Add(1)
					last = l
				case !errors.Is(err, lockprovider.ErrHeld):
					e.Errorf("try: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			e.Fatalf("round %d: %d of 50 tries on a free name won", round, won.Load())
		}
		e.Release(last)
	}
}

func waitLimit(e *Env) {
	p, x := e.Via()
	e.Acquire(e.Open(), "n")
	e.Release(e.Acquire(p, "warm")) // connections and session are there
	const limit = 1500 * time.Millisecond
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		x.Delay(delay, delay)
		began := time.Now()
		_, err := p.Acquire(e.Ctx(soon), "n", lockprovider.WithWait(limit))
		took := time.Since(began)
		if !errors.Is(err, lockprovider.ErrWaitTimeout) || took < limit || took > limit+slack {
			e.Fatalf("delay %v: %v after %v", delay, err, took)
		}
	}
}

// waitLimitSilent covers a store that falls silent before the wait and in it.
func waitLimitSilent(e *Env) {
	p, x := e.Via()
	e.Acquire(e.Open(), "n")
	e.Release(e.Acquire(p, "warm")) // connections and session are there
	limits := func() {
		began := time.Now()
		if _, err := p.Acquire(context.Background(), "n", lockprovider.WithWait(400*time.Millisecond)); !errors.Is(err, lockprovider.ErrWaitTimeout) && !errors.Is(err, lockprovider.ErrUnavailable) {
			e.Fatalf("silent store: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if _, err := p.Acquire(ctx, "n"); !errors.Is(err, context.DeadlineExceeded) {
			e.Fatalf("silent store: %v", err)
		}
		if took := time.Since(began); took > 700*time.Millisecond+slack {
			e.Fatalf("waits of 0.7 s took %v", took)
		}
	}
	time.AfterFunc(150*time.Millisecond, x.Drop)
	limits()
	limits()
	began := time.Now()
	if _, err := p.TryAcquire(context.Background(), "free"); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("try on a silent store: %v", err)
	}
	if took := time.Since(began); took > TTL+slack {
		e.Fatalf("try took %v", took)
	}
}

func errorsApart(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	_, held := p.TryAcquire(e.Ctx(soon), "n")
	_, timeout := p.Acquire(e.Ctx(soon), "n", lockprovider.WithWait(time.Second))
	ctx, cancel := context.WithCancelCause(context.Background())
	mine := errors.New("my cause")
	time.AfterFunc(20*time.Millisecond, func() { cancel(mine) })
	_, cancelled := p.Acquire(ctx, "n")
	_, reentrant := p.Acquire(a.Context(), "n")
	_, inspect := p.Inspect(e.Ctx(soon), "nobody")
	mismatch := p.ForceRelease(e.Ctx(soon), "n", a.Token()+1)
	q := e.Open()
	e.Must(q.Close(e.Ctx(soon)))
	_, closed := q.Acquire(e.Ctx(soon), "n")
	away, x := e.Via()
	x.Cut()
	_, unavailable := away.TryAcquire(e.Ctx(soon), "n")
	kinds := []error{
		lockprovider.ErrHeld, lockprovider.ErrWaitTimeout, mine, lockprovider.ErrReentrant,
		lockprovider.ErrNotHeld, lockprovider.ErrTokenMismatch, lockprovider.ErrClosed, lockprovider.ErrUnavailable,
	}
	for i, err := range []error{held, timeout, cancelled, reentrant, inspect, mismatch, closed, unavailable} {
		for j, kind := range kinds {
			if errors.Is(err, kind) != (i == j) {
				e.Errorf("error %v: is %q = %v", err, kind, errors.Is(err, kind))
			}
		}
	}
	e.Release(a)
}

func waiterLeaves(e *Env) {
	p, q, r := e.Open(), e.Open(), e.Open()
	a := e.Acquire(p, "n")
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := q.Acquire(ctx, "n")
		left <- err
	}()
	e.waiters(p, "n", 1)
	got := e.later(r, "n")
	e.waiters(p, "n", 2)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		e.Fatalf("cancelled waiter: %v", err)
	}
	e.Release(a)
	e.Release(e.granted(got, soon))
}

func waiterKeyGone(e *Env) {
	p, q := e.Open(), e.Open()
	e.Acquire(p, "n")
	failed := make(chan error, 1)
	go func() {
		_, err := q.Acquire(context.Background(), "n")
		failed <- err
	}()
	e.waiters(p, "n", 1)
	e.Must(e.raw.(*rawEtcd).revoke("n", 1))
	select {
	case err := <-failed:
		if !errors.Is(err, lockprovider.ErrLost) {
			e.Fatalf("waiter without a session: %v", err)
		}
	case <-time.After(4 * time.Second): // sooner than it would read again
		e.Fatalf("the waiter did not notice that its session is gone")
	}
}

// silentStoreKeepsNobody: the store falls silent just after it has answered at once, and
// nothing but a word to leave ends the call.
func silentStoreKeepsNobody(e *Env) {
	p, x := e.Via()
	for _, try := range []func(context.Context) (*lockprovider.Lease, error){
		func(ctx context.Context) (*lockprovider.Lease, error) { return p.Acquire(ctx, "n") },
		func(ctx context.Context) (*lockprovider.Lease, error) { return p.TryAcquire(ctx, "n") },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		e.near(p)
		x.Drop()
		e.leaves(cancel, context.Canceled, func() error { _, err := try(ctx); return err })
		x.HealLossy()
	}
	e.near(p)
	x.Drop()
	e.leaves(func() { _ = p.Close(e.Ctx(time.Second)) }, lockprovider.ErrClosed, func() error {
		_, err := p.Acquire(context.Background(), "n")
		return err
	})
}

// leaves fails the case unless call ends soon after leave, with an error of the kind.
func (e *Env) leaves(leave func(), kind error, call func() error) {
	e.Helper()
	time.AfterFunc(20*time.Millisecond, leave)
	began := time.Now()
	err := call()
	if took := time.Since(began); took > slack {
		e.Fatalf("a caller who was to leave stayed for %v", took)
	}
	if !errors.Is(err, kind) {
		e.Fatalf("a caller who had to leave: %v", err)
	}
}

func deadContext(e *Env) {
	p, x := e.Via()
	x.Cut()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	began := time.Now()
	for range 100 {
		if _, err := p.Acquire(ctx, "n"); !errors.Is(err, context.Canceled) {
			e.Fatalf("acquire: %v", err)
		}
		if _, err := p.TryAcquire(ctx, "n"); !errors.Is(err, context.Canceled) {
			e.Fatalf("try: %v", err)
		}
	}
	if took := time.Since(began); took > slack {
		e.Fatalf("200 calls with a dead context took %v", took)
	}
}
