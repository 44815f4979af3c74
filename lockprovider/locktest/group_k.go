package locktest

import (
	"strconv"
	"time"

	"seckill/lockprovider"
)

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
	if _, err := p.TryAcquire(e.Ctx(soon), "b"); err != nil {
		e.Fatalf("first try after the session's end: %v", err)
	}
	e.reason(e.Ends(soon, a), lockprovider.SessionLost, lockprovider.Revoked)
}

func frozenServer(e *Env) {
	p, q := e.Open(), e.Open()
	a := e.Acquire(p, "n")
	e.Must(e.server.Pause())
	e.reason(e.Ends(soon, a), lockprovider.Expired)
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
	e.reason(e.Ends(soon, a), lockprovider.SessionLost, lockprovider.Revoked)
	e.reason(e.Ends(soon, b), lockprovider.SessionLost, lockprovider.Revoked)
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
