package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"seckill/lockprovider"
)

// C: renewal and loss.
var groupC = []Case{
	{ID: "C1", Name: "held_lock_is_renewed", Run: heldIsRenewed},
	{ID: "C2", Name: "old_holder_stops_before_the_next_starts", Run: holderStopsFirst},
	{ID: "C3", Name: "slow_answers_lose_nothing", Run: slowAnswers},
	{ID: "C3b", Name: "late_answer_counts_from_its_request", Run: lateAnswer, Slow: true},
	{ID: "C4", Name: "deleted_key_ends_the_lease", Run: deletedKey},
	{ID: "C5", Name: "stolen_key_ends_the_lease", Run: stolenKey},
	{ID: "C6", Name: "failed_renewals_are_repeated", Run: failedRenewals},
	{ID: "C7", Name: "store_restart_within_the_TTL", Run: storeRestart, Own: true},
	{ID: "C8", Name: "losses_are_typed_and_counted", Run: lossesCounted},
	{ID: "C9", Name: "no_renewal_after_release", Run: noRenewalAfterRelease},
	{ID: "C10", Name: "acquire_context_ends_renewal_not_the_hold", Run: acquireContextEnds},
	{ID: "C12", Name: "wall_clock_steps", Run: wallClockSteps},
	{ID: "C13", Name: "suspended_machine", Run: suspendedMachine, Slow: true},
	{ID: "C14", Name: "max_hold", Run: maxHold},
	{ID: "C15", Name: "lost_stays_lost", Run: lostStaysLost},
}

func heldIsRenewed(e *Env) {
	const ttl = 2 * TTL
	p := e.Open()
	var ls []*lockprovider.Lease
	names := []string{"a", "b", "c", "d", "e"}
	for _, n := range names {
		ls = append(ls, e.Acquire(p, n, lockprovider.WithTTL(ttl)))
	}
	rounds := 5 * ttl / 2
	if e.h.Long {
		rounds = 10 * ttl
	}
	for end := time.Now().Add(rounds); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for i, n := range names {
			left, err := e.raw.Left(n)
			e.Must(err)
			e.Must(ls[i].Err())
			if e.Backend == "redis" && left < ttl/2 {
				e.Fatalf("%v of %v left in the store", left, ttl)
			}
			if r := ls[i].Remaining(); r < ttl/4 || r > ttl {
				e.Fatalf("%v of %v remain", r, ttl)
			}
		}
	}
	for _, l := range ls {
		e.Release(l)
	}
}

// holderStopsFirst disturbs the holder at random phases of its renewal in all ways
// and compares when its context ended with when the next holder got in.
func holderStopsFirst(e *Env) {
	phases := 2
	if e.h.Long {
		phases = 20
	}
	faults := map[string]func(*Proxy){
		"silent both ways": (*Proxy).Drop,
		"silent answers":   func(x *Proxy) { x.Hold(false, true) },
		"silent requests":  func(x *Proxy) { x.Hold(true, false) },
		"cut":              (*Proxy).Cut,
		"slow answers":     func(x *Proxy) { x.Delay(0, TTL*9/10) },
		"late answers, silent requests": func(x *Proxy) { // for a second, answers come to requests of a second ago
			x.Delay(0, TTL/2)
			time.Sleep(TTL/2 + time.Duration(rand.Int64N(int64(TTL/4))))
			x.Hold(true, false)
		},
	}
	var wg sync.WaitGroup
	for what, fault := range faults {
		for range phases {
			wg.Go(func() { e.stopsFirst(what, fault) })
		}
	}
	wg.Wait()
}

func (e *Env) stopsFirst(what string, fault func(*Proxy)) {
	p, x := e.Via()
	q := e.Open()
	name := what + time.Now().String()
	a, err := p.Acquire(context.Background(), name, lockprovider.WithWait(15*time.Second))
	if err != nil {
		e.Errorf("%s: %v", what, err)
		return
	}
	time.Sleep(time.Duration(rand.Int64N(int64(TTL)))) // the phase of the renewal
	fault(x)
	b, err := q.Acquire(context.Background(), name, lockprovider.WithWait(15*time.Second))
	if err != nil {
		e.Errorf("%s: the name was not handed on: %v", what, err)
		return
	}
	next := time.Now()
	if a.Err() == nil {
		e.Breach("%s: two holders: the old one has %v left", what, a.Remaining())
	}
	var lost *lockprovider.LostError
	switch cause := context.Cause(a.Context()); {
	case !errors.As(cause, &lost):
		e.Errorf("%s: the old holder's context goes on: %v", what, cause)
	case !lost.At.Before(next):
		e.Errorf("%s: the old holder's context ended %v after the next one had started", what, lost.At.Sub(next))
	}
	x.HealLossy()
	_ = b.Release(context.Background())
}

func slowAnswers(e *Env) {
	p, x := e.Via()
	q := e.Open()
	const ttl = 2 * TTL
	a := e.Acquire(p, "n", lockprovider.WithTTL(ttl))
	x.Delay(0, ttl/3)
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		e.Must(a.Err())
		if _, err := q.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrHeld) {
			e.Fatalf("overlap: %v", err)
		}
	}
	x.Heal()
	e.Release(a)
}

// lateAnswer lets the store renew and withholds its answer: what the holder counts on
// when it comes must end before what the store has granted.
func lateAnswer(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n")
	x.Hold(false, true)
	left, renewed := a.TTL(), time.Time{}
	look := func() {
		now, err := e.raw.Left("n")
		e.Must(err)
		if now > left+time.Second {
			renewed = time.Now() // it was asked for before
		}
		left = now
	}
	e.Within(a.TTL(), "the store has renewed for three seconds", func() bool {
		look()
		return !renewed.IsZero() && time.Since(renewed) > 3*time.Second
	})
	before := a.Remaining()
	x.Heal()
	e.Within(soon, "the answer is here", func() bool { look(); return a.Remaining() > before })
	if r := a.Remaining() + time.Since(renewed); r > a.TTL() {
		e.Breach("a lease of %v is to last %v from its renewal", a.TTL(), r)
	}
	e.Release(a)
}

// reason fails unless the lease ended for one of the reasons.
func (e *Env) reason(err error, want ...lockprovider.Reason) {
	e.Helper()
	var lost *lockprovider.LostError
	if !errors.As(err, &lost) {
		e.Fatalf("not a loss: %v", err)
	}
	for _, w := range want {
		if lost.Reason == w {
			return
		}
	}
	e.Fatalf("lost for reason %v, want %v", lost.Reason, want)
}

// interval is the longest time between two renewals under the TTL of the cases.
const interval = TTL / 3

func deletedKey(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	e.Must(e.raw.Delete("n"))
	e.reason(e.Ends(soon, a), lockprovider.Revoked)
	if err := a.Release(e.Ctx(soon)); !errors.Is(err, lockprovider.ErrNotHeld) {
		e.Fatalf("release: %v", err)
	}
}

func stolenKey(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	e.Must(e.raw.Steal("n"))
	e.reason(e.Ends(soon, a), lockprovider.Stolen)
}

func failedRenewals(e *Env) {
	const ttl = 3 * TTL
	p, x := e.Via()
	a := e.Acquire(p, "n", lockprovider.WithTTL(ttl))
	for range 3 {
		e.Within(2*ttl, "a fresh lease", func() bool { return a.Remaining() > ttl*3/4 })
		x.Cut()
		e.Within(ttl, "a renewal is overdue", func() bool { return a.Remaining() < ttl/2 })
		x.Heal()
		e.Within(ttl, "renewed again", func() bool { return a.Remaining() > ttl/2 })
	}
	e.Must(a.Err())
	e.Release(a)
	b := e.Acquire(p, "n")
	e.hold(b, 2*TTL)
	e.Release(b)
}

// hold watches a lease stay valid.
func (e *Env) hold(l *lockprovider.Lease, d time.Duration) {
	e.Helper()
	select {
	case <-l.Context().Done():
		e.Fatalf("lease on %q: %v", l.Name(), context.Cause(l.Context()))
	case <-time.After(d):
	}
	e.Must(l.Err())
}

func storeRestart(e *Env) {
	p := e.Open()
	long := lockprovider.WithTTL(longTTL)
	a := e.Acquire(p, "n", long)
	e.Must(e.server.Stop())
	e.Must(e.server.Start())
	e.Within(longTTL, "renewed after the restart", func() bool { e.Must(a.Err()); return a.Remaining() > longTTL*2/3 })
	e.Must(a.Verify(e.Ctx(soon)))
	e.Release(a)
	e.Must(e.server.Kill())
	if _, err := p.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("try on a killed store: %v", err)
	}
	got := e.later(p, "n", long)
	e.Must(e.server.Start())
	e.Release(e.granted(got, 25*time.Second))
}
