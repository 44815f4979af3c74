package locktest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
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
	_, _ = p.TryAcquire(e.Ctx(5*time.Second), "taken", long)
	e.Must(p.Close(e.Ctx(10 * time.Second)))
	if err := <-waiting; !errors.Is(err, lockprovider.ErrClosed) {
		e.Fatalf("waiter of a closed provider: %v", err)
	}
	for _, l := range []*lockprovider.Lease{a, b} {
		e.reason(e.Ends(time.Second, l), lockprovider.Closed)
		e.Release(e.Acquire(q, l.Name(), lockprovider.WithWait(500*time.Millisecond)))
	}
	if _, err := p.TryAcquire(e.Ctx(time.Second), "a"); !errors.Is(err, lockprovider.ErrClosed) {
		e.Fatalf("try on a closed provider: %v", err)
	}
	e.Must(p.Close(e.Ctx(time.Second)))
	e.Release(other)
	e.Within(3*time.Second, "no lock is left", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
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
		if took := time.Since(began); took > 2500*time.Millisecond {
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
		e.Release(e.Acquire(q, "a", lockprovider.WithWait(2*TTL)))
		e.Release(e.Acquire(q, "taken", lockprovider.WithWait(2*TTL)))
	}
}

func worksAgain(e *Env) {
	p, x := e.Via()
	a := e.Acquire(p, "n")
	x.Cut()
	e.Ends(2*TTL, a)
	_, err := p.Acquire(e.Ctx(5*time.Second), "n", lockprovider.WithWait(300*time.Millisecond))
	if !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("acquire without a store: %v", err)
	}
	got := e.later(p, "n")
	x.Heal()
	b := e.granted(got, 5*time.Second)
	e.hold(b, TTL)
	e.Release(b)
}

func opensWithoutStore(e *Env) {
	x := NewProxy(e.T, e.address)
	x.Cut()
	began := time.Now()
	p := e.OpenWith(e.configAt(x.Address()))
	if took := time.Since(began); took > 500*time.Millisecond {
		e.Fatalf("open took %v", took)
	}
	if _, err := p.TryAcquire(e.Ctx(10*time.Second), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
		e.Fatalf("try: %v", err)
	}
	x.Heal()
	e.Release(e.Acquire(p, "n", lockprovider.WithWait(5*time.Second)))
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
	if got > most {
		e.Fatalf("%v renewal requests in %.1f intervals for %d locks", got, intervals, n)
	}
	for _, l := range ls {
		e.Must(l.Err())
	}
	e.Must(p.Close(e.Ctx(15 * time.Second)))
}

// J: Redis only.
var groupJ = []Case{
	{ID: "G2", Name: "token_rises_when_redis_lost_its_data", Run: tokenAfterLoss, Only: "redis", Own: true},
	{ID: "J1", Name: "scripts_flushed", Run: scriptsFlushed, Only: "redis", Own: true},
	{ID: "J5", Name: "server_that_refuses_is_unavailable", Run: serverRefuses, Only: "redis", Own: true},
	{ID: "J6", Name: "eviction_policy_is_warned_of", Run: evictionPolicy, Only: "redis", Own: true},
	{ID: "G8", Name: "nothing_is_kept_for_ever", Run: keysExpire, Only: "redis"},
}

// tokenAfterLoss: fence deleted, everything flushed, restart without the data.
func tokenAfterLoss(e *Env) {
	r := e.raw.(*rawRedis)
	p := e.Open()
	last := uint64(0)
	for range 3 {
		for _, disaster := range []func() error{
			func() error { return r.client.Del(e.Ctx(5*time.Second), r.tag+"fence").Err() },
			func() error { return r.client.FlushAll(e.Ctx(5 * time.Second)).Err() },
			func() error {
				if err := r.client.FlushAll(e.Ctx(5 * time.Second)).Err(); err != nil {
					return err
				}
				return errors.Join(e.server.Kill(), e.server.Start())
			},
		} {
			l := e.Acquire(p, "n")
			if l.Token() <= last {
				e.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			e.Must(disaster())
			_ = l.Release(e.Ctx(5 * time.Second))
		}
	}
}

func scriptsFlushed(e *Env) {
	p, q := e.Open(), e.Open()
	r := e.raw.(*rawRedis)
	keep := e.Acquire(p, "keep")
	for range 20 {
		e.Must(r.client.ScriptFlush(e.Ctx(5 * time.Second)).Err())
		a := e.Acquire(p, "n")
		e.Must(r.client.ScriptFlush(e.Ctx(5 * time.Second)).Err())
		e.Release(a)
		e.Release(e.Acquire(q, "n", lockprovider.WithWait(500*time.Millisecond)))
	}
	for end := time.Now().Add(TTL); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		e.Must(r.client.ScriptFlush(e.Ctx(5 * time.Second)).Err())
	}
	e.Must(keep.Err())
	e.Release(keep)
}

func serverRefuses(e *Env) {
	r := e.raw.(*rawRedis)
	p := e.Open()
	e.Release(e.Acquire(p, "warm"))
	for what, set := range map[string][2][]any{
		"out of memory": {{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
		"read only":     {{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
	} {
		e.Must(r.client.Do(e.Ctx(5*time.Second), set[0]...).Err())
		if _, err := p.TryAcquire(e.Ctx(5*time.Second), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
			e.Fatalf("%s: %v", what, err)
		}
		e.Must(r.client.Do(e.Ctx(5*time.Second), set[1]...).Err())
		e.Release(e.Acquire(p, "n", lockprovider.WithWait(TTL+time.Second)))
	}
}

func evictionPolicy(e *Env) {
	r := e.raw.(*rawRedis)
	e.Must(r.client.ConfigSet(e.Ctx(5*time.Second), "maxmemory-policy", "allkeys-lru").Err())
	e.Cleanup(func() { _ = r.client.ConfigSet(context.Background(), "maxmemory-policy", "noeviction").Err() })
	var said lockedBuffer
	cfg := e.config()
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	e.OpenWith(cfg)
	e.Within(5*time.Second, "a warning", func() bool { return strings.Contains(said.String(), "allkeys-lru") })
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func keysExpire(e *Env) {
	p := e.Open()
	r := e.raw.(*rawRedis)
	for i := range 50 {
		e.Release(e.Acquire(p, strconv.Itoa(i)))
	}
	keys, err := e.raw.All()
	e.Must(err)
	if len(keys) != 1 {
		e.Fatalf("left after 50 names: %v", keys)
	}
	left, err := r.client.PTTL(e.Ctx(5*time.Second), keys[0]).Result()
	e.Must(err)
	if left <= 0 {
		e.Fatalf("%s never expires", keys[0])
	}
}

// K: etcd only.
var groupK = []Case{
	{ID: "K1", Name: "floor_and_rounding", Run: floorAndRounding, Only: "etcd"},
	{ID: "K2", Name: "session_gone_before_the_acquire", Run: sessionGone, Only: "etcd"},
	{ID: "K3", Name: "frozen_server", Run: frozenServer, Only: "etcd", Own: true},
	{ID: "K4", Name: "revoked_lease_stays_lost", Run: revokedStaysLost, Only: "etcd"},
	{ID: "K6", Name: "one_session_for_all_locks", Run: oneSession, Only: "etcd", Slow: true},
}

func floorAndRounding(e *Env) {
	p := e.Open()
	l := e.Acquire(p, "n", lockprovider.WithTTL(lockprovider.MinTTL))
	if l.TTL() < time.Second || l.TTL()%time.Second != 0 || l.Remaining() > l.TTL() {
		e.Fatalf("TTL %v, %v remain", l.TTL(), l.Remaining())
	}
	e.hold(l, 2*l.TTL())
	e.Release(l)
}

func sessionGone(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "a")
	e.Must(e.raw.(*rawEtcd).revoke("a", 0))
	if _, err := p.TryAcquire(e.Ctx(5*time.Second), "b"); err != nil {
		e.Fatalf("first try after the session's end: %v", err)
	}
	e.reason(e.Ends(interval+500*time.Millisecond, a), lockprovider.SessionLost, lockprovider.Revoked)
}

func frozenServer(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n")
	e.Must(e.server.Pause())
	e.reason(e.Ends(2*TTL, a), lockprovider.Expired)
	e.Must(e.server.Resume())
	b := e.Acquire(q, "n", lockprovider.WithWait(15*time.Second))
	if a.Err() == nil {
		e.Breach("two holders")
	}
	e.Release(b)
}

func revokedStaysLost(e *Env) {
	p := e.Open()
	a := e.Acquire(p, "n")
	b := e.Acquire(p, "m")
	e.Must(e.raw.(*rawEtcd).revoke("n", 0))
	e.reason(e.Ends(interval+500*time.Millisecond, a), lockprovider.SessionLost, lockprovider.Revoked)
	e.reason(e.Ends(interval+500*time.Millisecond, b), lockprovider.SessionLost, lockprovider.Revoked)
	for end := time.Now().Add(TTL); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if a.Err() == nil || b.Err() == nil {
			e.Fatalf("a revoked lease came back")
		}
	}
}

func oneSession(e *Env) {
	p := e.Open()
	for i := range 20 {
		e.Acquire(p, strconv.Itoa(i))
	}
	leases := map[int64]bool{}
	for i := range 20 {
		_, ls, err := e.raw.(*rawEtcd).queued(strconv.Itoa(i))
		e.Must(err)
		leases[ls[0]] = true
	}
	if len(leases) != 1 {
		e.Fatalf("%d etcd leases for one provider", len(leases))
	}
}
