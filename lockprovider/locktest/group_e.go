package locktest

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"seckill/lockprovider"
)

// E: waiting.
var groupE = []Case{
	{ID: "E1", Name: "order_and_no_starvation", Run: waitingOrder, Slow: true},
	{ID: "E2", Name: "release_at_any_moment_of_a_waiters_start", Run: releaseAtAnyMoment, Slow: true},
	{ID: "E2b", Name: "release_between_a_waiters_look_and_its_sleep", Run: releaseBeforeSleep, Slow: true},
	{ID: "E3", Name: "subscriptions_cut_during_the_wait", Run: subscriptionsCut, Own: true, Slow: true},
	{ID: "E4", Name: "two_hundred_waiters", Run: manyWaiters, Slow: true},
	{ID: "E5", Name: "idle_waiter_is_quiet", Run: idleWaiter},
	{ID: "E6", Name: "compaction_during_the_wait", Run: compaction, Only: "etcd", Slow: true},
	{ID: "E7", Name: "store_restart_during_the_wait", Run: restartInWait, Own: true},
	{ID: "E8", Name: "message_that_never_came", Run: messageLost},
}

// waitingOrder: first queued, first served on etcd across processes, on Redis within
// one; and nobody starves while others come again and again.
func waitingOrder(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n")
	const n = 6
	order := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		from := q
		if e.Backend == "etcd" && i%2 == 0 {
			from = p
		}
		queued := make(chan struct{})
		wg.Go(func() {
			close(queued)
			l := e.Acquire(from, "n")
			order <- i
			e.Release(l)
		})
		<-queued
		if e.Backend == "etcd" {
			e.waiters(p, "n", i+1)
		} else {
			time.Sleep(200 * time.Millisecond) // the local line cannot be seen from outside
		}
	}
	e.Release(a)
	wg.Wait()
	for i := range n {
		if got := <-order; got != i {
			e.Fatalf("waiter %d was served as number %d", got, i)
		}
	}
	e.noStarvation()
}

func (e *Env) noStarvation() {
	rounds := int32(100)
	if e.h.Long {
		rounds = 1000
	}
	stop := make(chan struct{})
	var served [3]atomic.Int32
	var wg sync.WaitGroup
	for i := range served {
		p := e.Open()
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l := e.Acquire(p, "busy")
				served[i].Add(1)
				e.Release(l)
			}
		})
	}
	e.Within(60*time.Second, "everybody is served", func() bool {
		total, starved := int32(0), false
		for i := range served {
			total += served[i].Load()
			starved = starved || served[i].Load() == 0
		}
		return total >= rounds && !starved
	})
	close(stop)
	wg.Wait()
}

// releaseAtAnyMoment looks for a wake-up lost between a waiter's look and its sleep.
func releaseAtAnyMoment(e *Env) {
	rounds := 150
	if e.h.Long {
		rounds = 10000
	}
	p, q := e.Open(), e.Open()
	slow := 0
	for i := range rounds {
		name := "n"
		if i%2 == 0 {
			name += strconv.Itoa(i) // nobody has listened to it before
		}
		a := e.Acquire(p, name)
		got := e.later(q, name)
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		e.Release(a)
		began := time.Now()
		e.Release(e.granted(got, 10*time.Second))
		if time.Since(began) > 1500*time.Millisecond { // a little less than until it looks by itself
			slow++
		}
		if slow > rounds/50 {
			e.Fatalf("%d of %d waiters slept through a release", slow, i+1)
		}
	}
}

// releaseBeforeSleep releases when the store has told a waiter that the name is held, and
// the waiter does not know yet.
func releaseBeforeSleep(e *Env) {
	p := e.Open()
	q, x := e.Via()
	slept := 0
	for i := range 5 {
		e.far(q, x)             // for a look that may take long
		name := strconv.Itoa(i) // nobody has listened to it before
		a := e.Acquire(p, name)
		x.Hold(false, true)
		got := e.later(q, name)
		time.Sleep(300 * time.Millisecond) // the look is a single request
		e.Release(a)
		x.Heal()
		began := time.Now()
		e.Release(e.granted(got, soon))
		if time.Since(began) > 1500*time.Millisecond {
			slept++
		}
	}
	if slept > 1 {
		e.Fatalf("%d of 5 waiters slept through a release", slept)
	}
}

func subscriptionsCut(e *Env) {
	p := e.Open()
	q, x := e.Via()
	for range 3 {
		a := e.Acquire(p, "n")
		got := e.later(q, "n")
		e.waiters(p, "n", 1)
		if r, ok := e.raw.(*rawRedis); ok {
			e.Must(r.client.ClientKillByFilter(e.Ctx(soon), "TYPE", "pubsub").Err())
		} else {
			x.Break()
		}
		e.Release(a)
		e.Release(e.granted(got, soon))
	}
}

// manyWaiters counts what the store is asked while many wait for one name.
func manyWaiters(e *Env) {
	const providers, each = 4, 50
	asked := newCounter()
	asked.reg = prometheus.NewRegistry()
	ps := make([]*lockprovider.Provider, providers)
	for i := range ps {
		ps[i] = asked.provider(e)
	}
	holder := e.Open()
	a := e.Acquire(holder, "n")
	ctx, cancel := context.WithCancel(context.Background())
	granted := make(chan *lockprovider.Lease, providers*each)
	var wg sync.WaitGroup
	for i := range providers * each {
		wg.Go(func() {
			l, err := ps[i%providers].Acquire(ctx, "n")
			if err == nil {
				granted <- l
			}
		})
	}
	want := providers
	if e.Backend == "etcd" {
		want = providers * each
	}
	e.waiters(holder, "n", want)
	e.settle(asked)
	const rounds = 20
	looks := func() int64 { // what waiters ask because of time, not because of a release
		return asked.total() - int64(series(e, asked.reg, "seckill_lock_wakeup_total timer")) - asked.renewals.Load()
	}
	before := looks()
	for range rounds {
		e.Release(a)
		a = e.granted(granted, 10*time.Second)
	}
	per := float64(looks()-before) / rounds
	e.Logf("%.1f store requests per release with %d waiters in %d processes", per, providers*each, providers)
	if per > 4+providers {
		e.Fatalf("%.1f store requests per release", per)
	}
	cancel()
	wg.Wait()
	close(granted)
	for l := range granted {
		_ = l.Release(context.Background())
	}
	_ = a.Release(context.Background())
}

// settle waits until nothing has been asked for a while.
func (e *Env) settle(c *counter) {
	last, since := c.total(), time.Now()
	e.Within(20*time.Second, "the waiters sleep", func() bool {
		if now := c.total(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 150*time.Millisecond
	})
}

func idleWaiter(e *Env) {
	asked := newCounter()
	p := asked.provider(e)
	holder := e.Open()
	a := e.Acquire(holder, "n", lockprovider.WithTTL(30*time.Second))
	got := e.later(p, "n", lockprovider.WithTTL(30*time.Second))
	e.waiters(holder, "n", 1)
	e.settle(asked)
	before := asked.total()
	e.hold(a, 4*time.Second)
	if n := asked.total() - before; n > 4 {
		e.Fatalf("an idle waiter asked %d times in 4 s", n)
	}
	e.Release(a)
	e.Release(e.granted(got, soon))
}

func compaction(e *Env) {
	p, q := e.Open(), e.Open()
	c := e.raw.(*rawEtcd).client
	a := e.Acquire(p, "n")
	got := e.later(q, "n")
	e.waiters(p, "n", 1)
	resp, err := c.Put(e.Ctx(soon), e.Namespace+"/other", "x")
	e.Must(err)
	_, err = c.Compact(e.Ctx(soon), resp.Header.Revision, clientv3.WithCompactPhysical())
	e.Must(err)
	e.Release(a)
	e.Release(e.granted(got, soon))
}

func restartInWait(e *Env) {
	p, q := e.Open(), e.Open()
	long := lockprovider.WithTTL(longTTL)
	a := e.Acquire(p, "n", long)
	got := e.later(q, "n", long)
	e.waiters(p, "n", 1)
	e.Must(e.server.Kill())
	e.Must(e.server.Start())
	e.Within(longTTL, "the holder is renewed", func() bool { e.Must(a.Err()); return a.Remaining() > longTTL*2/3 })
	e.Release(a)
	e.Release(e.granted(got, 2*soon))
}

// messageLost deletes the holder's key without telling anybody who listens on Redis;
// on etcd the waiter's connection is silent at that moment.
func messageLost(e *Env) {
	p := e.Open()
	looks := &looks{}
	q, x := e.viaTraced(looks)
	a := e.Acquire(p, "n", lockprovider.WithTTL(30*time.Second))
	got := e.later(q, "n", lockprovider.WithTTL(30*time.Second))
	e.waiters(p, "n", 1)
	if e.Backend == "redis" { // it looks at once, and again when it hears: then it sleeps
		e.Within(soon, "the waiter has looked twice", func() bool { return looks.held.Load() >= 2 })
	}
	if e.Backend == "etcd" {
		x.Hold(false, true)
	}
	e.Must(e.raw.Delete("n"))
	e.Ends(2*soon, a)
	if e.Backend == "etcd" {
		x.HealLossy()
	}
	e.Release(e.granted(got, soon))
}
