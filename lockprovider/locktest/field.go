package locktest

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"seckill/lockprovider"
)

// The cases from the field that are a lock's business. They have tests of their own.
var fieldCases = []Case{
	{ID: "CASE17", Name: "ten_thousand_pairs_leave_nothing", Run: tenThousandPairs, Slow: true},
	{ID: "CASE18", Name: "deleted_key_stops_the_work", Run: deletedKeyStopsTheWork},
	{ID: "CASE19", Name: "waiter_whose_session_dies", Run: waiterSessionDies},
}

func tenThousandPairs(e *Env) {
	const pairs, side = 10000, 16
	p := e.Open()
	e.Release(e.Acquire(p, "warm"))
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range side {
		wg.Go(func() {
			for range pairs / side {
				l, err := p.Acquire(context.Background(), "n"+strconv.Itoa(i))
				if err == nil {
					err = confirm(l)
				}
				if err != nil {
					e.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	e.Within(longTTL, "no lock is left after one TTL", func() bool { keys, err := e.raw.Locks(); return err == nil && len(keys) == 0 })
	var after int
	e.Within(10*time.Second, "goroutines are back at the start", func() bool {
		after = runtime.NumGoroutine()
		return after <= before+2 // connections of the pool's own making
	})
	e.Must(p.Close(e.Ctx(soon)))
}

// deletedKeyStopsTheWork is the consumer's view: the work's context ends, Do says why,
// and the same process takes the lock again and does the work again.
func deletedKeyStopsTheWork(e *Env) {
	p := e.Open()
	runs := 0
	work := func(ctx context.Context, l *lockprovider.Lease) error {
		runs++
		if runs > 1 {
			return nil
		}
		e.Must(e.raw.Delete("partition/1"))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Second):
			return errors.New("the work was not stopped")
		}
	}
	began := time.Now()
	err := lockprovider.Do(context.Background(), p, "partition/1", work)
	e.reason(err, lockprovider.Revoked)
	if took := time.Since(began); took > interval+4*time.Second {
		e.Fatalf("the work was stopped after %v", took)
	}
	e.Must(lockprovider.Do(context.Background(), p, "partition/1", work))
	if runs != 2 {
		e.Fatalf("%d runs", runs)
	}
}

// waiterSessionDies: on etcd the session of a waiter is revoked; on Redis a waiter has
// none, so its connections are cut for good.
func waiterSessionDies(e *Env) {
	holder := e.Open()
	p, x := e.Via()
	a := e.Acquire(holder, "n")
	failed := make(chan error, 1)
	go func() {
		_, err := p.Acquire(context.Background(), "n", lockprovider.WithWait(5*time.Second))
		failed <- err
	}()
	e.waiters(holder, "n", 1)
	if r, ok := e.raw.(*rawEtcd); ok {
		e.Must(r.revoke("n", 1))
	} else {
		x.Cut()
	}
	select {
	case err := <-failed:
		if err == nil {
			e.Fatalf("the waiter was granted a held lock")
		}
		e.Logf("the waiter's error: %v", err)
	case <-time.After(2 * soon):
		e.Fatalf("the waiter did not return")
	}
	e.Must(a.Err())
	e.Release(a)
}
