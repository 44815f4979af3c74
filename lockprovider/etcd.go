package lockprovider

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdBackend keeps one key per acquisition, <ns>/lock/q/<name>/<nonce>, under the
// session's lease. Of all keys under one name the one created first holds; its create
// revision is the token. A key that was given back is taken again (spares).
type etcdBackend struct {
	client *clientv3.Client
	leases pb.LeaseClient
	core   *core
	owned  bool
	root   string // "<ns>/lock/"
	off    holes
	sweep  chan string // abort markers to remove later
}

// etcdValue is what a key says about its owner.
type etcdValue struct {
	Owner string `json:"owner"`
	Note  string `json:"note,omitempty"`
	Since int64  `json:"since"` // Unix ms, by the owner's clock
}

func newEtcdBackend(client *clientv3.Client, cfg Config, owned bool) *etcdBackend {
	return &etcdBackend{
		client: client, leases: pb.NewLeaseClient(client.ActiveConnection()), owned: owned,
		root: cfg.Namespace + "/lock/", off: cfg.holes, sweep: make(chan string, 1024),
	}
}

func (b *etcdBackend) name() string { return "etcd" }

func (b *etcdBackend) shared() bool { return true }

func (b *etcdBackend) batch() int { return 1 }

// roundTTL: etcd counts whole seconds. Its floor (half as long again as an election
// time-out) is applied by the server; Lease.TTL shows what was granted.
func (b *etcdBackend) roundTTL(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

func (b *etcdBackend) queue(name string) string { return b.root + "q/" + encodeName(name) + "/" }

func (b *etcdBackend) key(name, nonce string) string { return b.queue(name) + nonce }

func (b *etcdBackend) marker(nonce string) string { return b.root + "x/" + nonce }

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

func created(key string, token uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", int64(token))
}

func (b *etcdBackend) first(name string) clientv3.Op {
	return clientv3.OpGet(b.queue(name), clientv3.WithFirstCreate()...)
}

func (b *etcdBackend) put(a *attempt) clientv3.Op {
	if a.value == "" {
		v, _ := json.Marshal(etcdValue{Owner: a.owner, Note: a.req.note, Since: time.Now().UnixMilli()})
		a.value = string(v)
	}
	return clientv3.OpPut(b.key(a.name, a.nonce), a.value, clientv3.WithLease(clientv3.LeaseID(a.sess.id)))
}

// mark is the write of an abort marker that lives at most as long as the session.
func (b *etcdBackend) mark(nonce, why string, s *session) clientv3.Op {
	return clientv3.OpPut(b.marker(nonce), why, clientv3.WithLease(clientv3.LeaseID(s.id)))
}

// tryHere: etcd's client hands every call to goroutines of its own anyhow.
func (b *etcdBackend) tryHere(*attempt, bool) (grant, error) {
	return grant{}, errNotHere
}

// try is one transaction: take the name if nobody is in its queue.
func (b *etcdBackend) try(ctx context.Context, a *attempt) (grant, error) {
	resp, err := b.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(b.queue(a.name)).WithPrefix(), "=", 0), absent(b.marker(a.nonce))).
		Then(b.put(a)).
		Else(b.first(a.name)).Commit()
	if err != nil {
		return grant{}, etcdError(err)
	}
	if resp.Succeeded {
		return grant{token: uint64(resp.Header.Revision)}, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return grant{}, errAborted
	}
	if ownerOf(kvs[0].Value) == a.owner {
		return grant{token: uint64(kvs[0].CreateRevision)}, nil // an earlier call arrived
	}
	in, err := b.info(kvs[0])
	if err != nil {
		return grant{}, err
	}
	return grant{}, &HeldError{Holder: in}
}

// release deletes the hold's own key, by key and create revision.
func (b *etcdBackend) release(ctx context.Context, h *hold) (bool, error) {
	key := b.key(h.name, h.nonce)
	guard := []clientv3.Cmp{created(key, h.token)}
	if b.off.revision {
		guard = nil
	}
	ops := []clientv3.Op{clientv3.OpDelete(key)}
	if h.unsure { // one of its puts may still be under way, and would find the key absent
		ops = append(ops, b.mark(h.nonce, "released", h.sess))
	}
	resp, err := b.client.Txn(ctx).If(guard...).Then(ops...).Commit()
	if err != nil {
		return false, etcdError(err)
	}
	if h.unsure && resp.Succeeded {
		b.sweepLater(b.marker(h.nonce))
	}
	return resp.Succeeded, nil
}

// undo deletes the attempt's key, if it is this attempt's. If some call had no answer a
// put may still be under way: then a marker blocks it, under the same lease, so that the
// put fails either for the marker or for the lease.
func (b *etcdBackend) undo(ctx context.Context, a *attempt) error {
	key := b.key(a.name, a.nonce)
	var ops []clientv3.Op
	mark := a.unsure && !b.off.abortMarker
	if mark {
		ops = append(ops, b.mark(a.nonce, "abandoned", a.sess))
	}
	_, err := b.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(key), "=", a.value)).
		Then(append(ops, clientv3.OpDelete(key))...).
		Else(ops...).Commit()
	if err == nil && mark {
		b.sweepLater(b.marker(a.nonce))
	}
	return etcdError(err)
}

// force deletes the first key of the queue if it has the given create revision. The
// marker tells its owner that it was evicted, and not robbed by whoever came next.
func (b *etcdBackend) force(ctx context.Context, name string, token uint64) error {
	resp, err := b.client.Do(ctx, b.first(name))
	if err != nil {
		return etcdError(err)
	}
	kvs := resp.Get().Kvs
	if len(kvs) == 0 {
		return ErrNotHeld
	}
	if uint64(kvs[0].CreateRevision) != token {
		return ErrTokenMismatch
	}
	key := string(kvs[0].Key)
	ops := []clientv3.Op{clientv3.OpDelete(key)}
	if kvs[0].Lease != 0 {
		nonce := key[strings.LastIndexByte(key, '/')+1:]
		ops = append(ops, clientv3.OpPut(b.marker(nonce), "evicted", clientv3.WithLease(clientv3.LeaseID(kvs[0].Lease))))
	}
	done, err := b.client.Txn(ctx).If(created(key, token)).Then(ops...).Commit()
	if errors.Is(etcdError(err), errSessionGone) {
		return ErrNotHeld // its lease ended meanwhile, and the key with it
	}
	if err != nil {
		return etcdError(err)
	}
	if !done.Succeeded {
		return ErrTokenMismatch
	}
	return nil
}

// etcdError names the one error that callers decide by.
func etcdError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) {
		return errSessionGone
	}
	return err
}
