package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"seckill/lockprovider"
)

// L: histories under faults, and what a lock alone does not do.
var groupL = []Case{
	{ID: "L1", Name: "histories_under_network_faults", Run: func(e *Env) { e.histories(6*time.Second, rand.Uint64(), networkFaults) }},
	{ID: "L1b", Name: "histories_under_server_faults", Run: func(e *Env) { e.histories(8*time.Second, rand.Uint64(), serverFaults) }, Own: true},
	{ID: "L2", Name: "list_in_memory_loses_a_number_in_a_pause", Run: listInMemory},
	{ID: "L3", Name: "list_in_postgres_behind_lock_and_fence", Run: func(e *Env) { e.fencedList(6*time.Second, rand.Uint64(), networkFaults) }},
}

// A victim is what one provider depends on: its way to the store, and its clock.
type victim struct {
	*Proxy
	clock *Clock
}

// A fault disturbs for a while and returns when all is well again.
type fault func(e *Env, r *rand.Rand, x victim, stop <-chan struct{})

func pause(stop <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	}
}

func some(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

var networkFaults = []fault{
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.Cut()
		pause(stop, some(r, 2*TTL))
		x.Heal()
	},
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.Drop()
		pause(stop, some(r, 2*TTL))
		x.HealLossy()
	},
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.Drop()
		pause(stop, some(r, 2*TTL))
		x.Heal()
	},
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.Hold(false, true)
		pause(stop, some(r, TTL))
		x.Heal()
	},
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.Delay(some(r, TTL/3), some(r, TTL))
		pause(stop, some(r, TTL))
		x.Heal()
	},
	func(_ *Env, _ *rand.Rand, x victim, _ <-chan struct{}) { x.Break() },
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.SwallowAnswer()
		pause(stop, some(r, TTL/4))
	},
	func(_ *Env, r *rand.Rand, x victim, stop <-chan struct{}) {
		x.Strand()
		pause(stop, some(r, TTL/2))
		x.BreakClients()
		pause(stop, some(r, TTL))
		x.Deliver()
	},
	func(_ *Env, r *rand.Rand, x victim, _ <-chan struct{}) { x.clock.StepWall(some(r, 4*TTL) - 2*TTL) },
}

var serverFaults = []fault{
	func(e *Env, r *rand.Rand, _ victim, stop <-chan struct{}) {
		e.Must(e.server.Pause())
		pause(stop, some(r, 2*TTL))
		e.Must(e.server.Resume())
	},
	func(e *Env, r *rand.Rand, _ victim, stop <-chan struct{}) {
		if e.Backend == "redis" {
			return // a killed Redis may lose a second of locks: not promised, see G2
		}
		e.Must(e.server.Kill())
		pause(stop, some(r, TTL))
		e.Must(e.server.Start())
	},
	func(e *Env, r *rand.Rand, _ victim, stop <-chan struct{}) {
		e.Must(e.server.Stop())
		pause(stop, some(r, TTL))
		e.Must(e.server.Start())
	},
}

// disturb injects faults on every victim until stop.
func (e *Env) disturb(seed uint64, faults []fault, victims []victim, stop <-chan struct{}) *sync.WaitGroup {
	e.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i, x := range victims {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					pause(stop, some(r, TTL/2))
					faults[r.IntN(len(faults))](e, r, x, stop)
				}
			}
		})
	}
	return &wg
}

// victims makes providers with what faults can hit. Of a server that the case has for
// itself there is one, and the ways to it are straight.
func (e *Env) victims(n int) (ps []*lockprovider.Provider, xs []victim) {
	e.Helper()
	for range n {
		if e.server != nil {
			ps, xs = append(ps, e.Open()), []victim{{}}
			continue
		}
		x := victim{NewProxy(e.T, e.address), NewClock()}
		cfg := e.configAt(x.Address())
		cfg.Clock = x.clock
		ps, xs = append(ps, e.OpenWith(cfg)), append(xs, x)
	}
	return ps, xs
}

// histories lets clients of three providers contend for two names under faults.
func (e *Env) histories(d time.Duration, seed uint64, faults []fault) {
	stop := make(chan struct{})
	names := []string{"x", "y"}
	hs := []*history{newHistory(), newHistory()}
	ps, victims := e.victims(3)
	var wg sync.WaitGroup
	for id, p := range ps {
		for n, h := range hs {
			for k := range 2 {
				wg.Go(func() { h.client(e, 2*id+k, p, names[n], stop, 20*time.Millisecond<<(3*n)) })
			}
		}
	}
	bad := e.disturb(seed, faults, victims, stop)
	time.AfterFunc(d, func() { close(stop) })
	bad.Wait()
	for _, x := range victims {
		if x.Proxy != nil {
			x.Heal()
		}
	}
	wg.Wait()
	for _, h := range hs {
		h.check(e)
	}
	p := e.Open()
	for _, n := range names {
		e.Release(e.Acquire(p, n, lockprovider.WithWait(2*soon))) // no ghost is left
	}
}

// listInMemory shows what the lock cannot do: a holder that is paused between its
// check and its write overwrites what the next one wrote. The same with the fence
// loses nothing. It is the reason for the first paragraph of the package comment.
func listInMemory(e *Env) {
	p, x := e.Via()
	q := e.Open()
	f := newFenced(e)
	var list []int64
	overtaken := func() *lockprovider.Lease { // what happens while the first holder is paused
		x.Drop()
		return e.Acquire(q, "n")
	}
	a := e.Acquire(p, "n")
	e.Must(a.Err())
	old := list
	b := overtaken()
	list = append(list, 2)
	if err := missing([]int64{2}, list); err != nil {
		e.Fatalf("%v", err)
	}
	list = append(old, 1) // paused until here
	if missing([]int64{1, 2}, list) == nil {
		e.Fatalf("nothing was lost: the case does not show what it should")
	}
	e.Must(f.add(e.Ctx(soon), b.Token(), 2, func() {}))
	if err := f.add(e.Ctx(soon), a.Token(), 1, func() {}); !errors.Is(err, errFenced) {
		e.Fatalf("the overtaken holder wrote: %v", err)
	}
	x.HealLossy()
	e.Release(b)
}

// fencedList adds numbers under lock and fence, with holders that do not look whether
// their lease is lost: every number that was acknowledged must be there.
func (e *Env) fencedList(d time.Duration, seed uint64, faults []fault) {
	f := newFenced(e)
	stop := make(chan struct{})
	var mu sync.Mutex
	var acked []int64
	var number, refused atomic.Int64
	ps, victims := e.victims(3)
	var wg sync.WaitGroup
	for _, p := range ps {
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					l, err := p.Acquire(context.Background(), "list", lockprovider.WithWait(TTL))
					if err != nil {
						continue
					}
					for range 3 {
						n := number.Add(1)
						err := f.add(e.Ctx(time.Minute), l.Token(), n, func() { time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) })
						switch {
						case err == nil:
							mu.Lock()
							acked = append(acked, n)
							mu.Unlock()
						case errors.Is(err, errFenced):
							refused.Add(1)
						default:
							e.Errorf("add: %v", err)
						}
						if rand.IntN(4) == 0 {
							pause(stop, some(rand.New(rand.NewPCG(seed, uint64(n))), TTL)) // a long pause, without a look at the lease
						}
					}
					_ = l.Release(context.Background())
				}
			})
		}
	}
	bad := e.disturb(seed, faults, victims, stop)
	time.AfterFunc(d, func() { close(stop) })
	bad.Wait()
	wg.Wait()
	list, err := f.list(e.Ctx(soon))
	e.Must(err)
	if err := missing(acked, list); err != nil {
		e.Breach("%v; %d of %d there", err, len(list), len(acked))
	}
	if len(acked) == 0 {
		e.Errorf("nobody added a number: that shows nothing")
	}
	e.Logf("%d numbers added, %d refused by the fence", len(acked), refused.Load())
}

// Soak runs the histories and the fenced list under random faults for d. The seed
// gives the same faults again.
func Soak(t T, h Harness, d time.Duration, seed uint64) {
	var wg sync.WaitGroup
	for i, run := range []func(*Env){
		func(e *Env) { e.histories(d, seed, networkFaults) },
		func(e *Env) { e.fencedList(d, seed+1, networkFaults) },
		func(e *Env) { e.histories(d, seed+2, serverFaults) },
	} {
		e := newEnv(t, h, Case{Own: i == 2})
		wg.Go(func() { run(e) })
	}
	wg.Wait()
}
