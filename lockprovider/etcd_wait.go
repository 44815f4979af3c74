package lockprovider

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// reread is how long a waiter relies on its watches alone.
const reread = 5 * time.Second

func ownerOf(value []byte) string {
	var v etcdValue
	if json.Unmarshal(value, &v) != nil {
		return ""
	}
	return v.Owner
}

// place is where an attempt stands in its queue.
type place struct {
	mine  int64  // create revision of its own key; 0: the key is gone
	ahead string // the key just before it; "": it holds
	at    int64  // revision of the store that this was read at
}

// wait puts a key into the queue and waits until it is the first: create revisions
// are the queue's order, and each waiter watches only its predecessor (the recipe of
// concurrency.Mutex, with a key per acquisition and a watch on the own key added).
func (b *etcdBackend) wait(ctx context.Context, a *attempt) (grant, error) {
	p, err := b.enqueue(ctx, a)
	for err == nil {
		if p.mine == 0 {
			return grant{}, b.unqueued(ctx, a)
		}
		a.landed = true
		if p.ahead == "" {
			return grant{token: uint64(p.mine)}, nil
		}
		a.held()
		source := b.sleepBehind(ctx, a, p)
		if ctx.Err() != nil {
			return grant{}, ctx.Err()
		}
		b.core.metrics.wakeup.WithLabelValues(source).Inc()
		p, err = b.look(ctx, a, p.mine)
	}
	if errors.Is(err, errSessionGone) && a.landed {
		return grant{}, b.unqueued(ctx, a)
	}
	return grant{}, err
}

// unqueued is the end of a waiter whose key was taken away, with its session or alone.
func (b *etcdBackend) unqueued(ctx context.Context, a *attempt) error {
	why := Revoked
	cctx, cancel := context.WithTimeout(ctx, callLimit(a.req.ttl))
	defer cancel()
	if resp, err := b.client.TimeToLive(cctx, clientv3.LeaseID(a.sess.id)); err == nil && resp.TTL <= 0 {
		why = SessionLost
		b.core.loseSession(a.sess, SessionLost, nil)
	}
	return &LostError{Name: a.name, Reason: why, At: time.Now(), Cause: errors.New("the waiter's place in the queue is gone")}
}

// enqueue is idempotent: a repeated call finds the key of the first.
func (b *etcdBackend) enqueue(ctx context.Context, a *attempt) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit(a.req.ttl))
	defer cancel()
	key := b.key(a.name, a.nonce)
	lastTwo := clientv3.OpGet(b.queue(a.name), append(clientv3.WithLastCreate(), clientv3.WithKeysOnly(), clientv3.WithLimit(2))...)
	resp, err := b.client.Txn(ctx).
		If(absent(key), absent(b.marker(a.nonce))).
		Then(b.put(a), lastTwo).
		Else(clientv3.OpGet(key)).Commit()
	if err = etcdError(err); err != nil {
		a.unsure = a.unsure || err != errSessionGone
		return place{}, err
	}
	if !resp.Succeeded {
		kvs := resp.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return place{}, errAborted
		}
		if ownerOf(kvs[0].Value) != a.owner { // a spare key that came back, with a backup say
			b.core.rename(a)
			return place{}, errors.New("the key is in use")
		}
		return b.look(ctx, a, kvs[0].CreateRevision)
	}
	p := place{mine: resp.Header.Revision, at: resp.Header.Revision}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		if string(kv.Key) != key {
			p.ahead = string(kv.Key)
		}
	}
	return p, nil
}

// look reads the place again: own key and predecessor in one step.
func (b *etcdBackend) look(ctx context.Context, a *attempt, mine int64) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit(a.req.ttl))
	defer cancel()
	ahead := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(mine-1), clientv3.WithKeysOnly())
	resp, err := b.client.Txn(ctx).Then(
		clientv3.OpGet(b.key(a.name, a.nonce), clientv3.WithKeysOnly()),
		clientv3.OpGet(b.queue(a.name), ahead...),
	).Commit()
	if err != nil {
		return place{}, etcdError(err)
	}
	p := place{at: resp.Header.Revision}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && kvs[0].CreateRevision == mine {
		p.mine = mine
	} else if b.off.ownKeyWatch {
		p.mine = mine
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) == 1 {
		p.ahead = string(kvs[0].Key)
	}
	return p, nil
}

// sleepBehind returns when the predecessor or the own key is deleted, the watch
// fails, the session ends, or the time for a look has come. None of these is a
// verdict: the caller reads again.
func (b *etcdBackend) sleepBehind(ctx context.Context, a *attempt, p place) (source string) {
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRev(p.at + 1), clientv3.WithFilterPut()}
	ahead := b.client.Watch(wctx, p.ahead, opts...)
	var own clientv3.WatchChan
	ended := a.sess.ended
	if !b.off.ownKeyWatch {
		own = b.client.Watch(wctx, b.key(a.name, a.nonce), opts...)
	} else {
		ended = nil
	}
	nap := reread
	if b.off.timer {
		nap = time.Hour
	}
	timer := time.NewTimer(nap)
	defer timer.Stop()
	select {
	case _, ok := <-ahead:
		if !ok {
			sleep(ctx, watchPause)
			return wakeResubbed
		}
		return wakeMessage
	case <-own:
		return wakeMessage
	case <-ended:
		return wakeMessage
	case <-timer.C:
		return wakeTimer
	case <-ctx.Done():
		return "context"
	}
}
