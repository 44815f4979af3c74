package locktest

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"seckill/lockprovider"
)

// K: etcd only.
var groupK = []Case{
	{ID: "K1", Name: "floor_and_rounding", Run: floorAndRounding, Only: "etcd"},
	{ID: "K2", Name: "session_gone_before_the_acquire", Run: sessionGone, Only: "etcd"},
	{ID: "K3", Name: "frozen_server", Run: frozenServer, Only: "etcd", Own: true},
	{ID: "K4", Name: "revoked_lease_stays_lost", Run: revokedStaysLost, Only: "etcd"},
	{ID: "K6", Name: "stuck_release_heals_with_its_session", Run: stuckRelease, Only: "etcd"},
	{ID: "K7", Name: "one_session_for_all_locks", Run: oneSession, Only: "etcd", Slow: true},
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

// stuckRelease has a store that renews and refuses every release: the session then takes
// no new holds, and its end with the last one it has frees what the release could not.
func stuckRelease(e *Env) {
	var refuse atomic.Bool
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.address}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if refuse.Load() && method == pb.KV_Txn_FullMethodName {
					return status.Error(codes.Unavailable, "refused by the test")
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			},
		)},
	})
	e.Must(err)
	e.Cleanup(func() { _ = client.Close() })
	p, err := lockprovider.OpenEtcd(client, e.config())
	e.Must(err)
	e.closes(p)
	q := e.Open()
	keep := e.Acquire(p, "keep")
	a := e.Acquire(p, "n")
	taken := e.Acquire(q, "taken")
	waited := make(chan error, 1)
	go func() {
		_, err := p.Acquire(e.Ctx(time.Minute), "taken")
		waited <- err
	}()
	e.waiters(q, "taken", 1)
	refuse.Store(true)
	if err := a.Release(e.Ctx(time.Second)); !errors.Is(err, lockprovider.ErrReleasePending) {
		e.Fatalf("a release that is refused: %v", err)
	}
	if _, err := q.Acquire(e.Ctx(4*soon), "n", lockprovider.WithWait(4*TTL)); !errors.Is(err, lockprovider.ErrWaitTimeout) {
		e.Fatalf("while the session lives: %v", err)
	}
	e.Must(keep.Err())
	e.Release(keep)
	e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	refuse.Store(false)
	e.Release(taken)
	if err := <-waited; err != nil && !errors.Is(err, lockprovider.ErrLost) {
		e.Fatalf("who waited under the session was neither served nor told: %v", err)
	}
	e.Release(e.Acquire(p, "n"))
	e.Must(a.Release(e.Ctx(soon)))
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
