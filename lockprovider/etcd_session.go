package lockprovider

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	markerLife  = 10 * time.Minute // longer than any put can be under way
	sweepPause  = 30 * time.Second
	watchPause  = 200 * time.Millisecond
	maxMarkers  = 10000
	countEvery  = 3 // renewals: once a TTL
	revokeLimit = 2 * time.Second
)

// openSession grants a lease. The library repeats a grant that had no answer; one
// granted in vain expires by itself.
func (b *etcdBackend) openSession(ctx context.Context, ttl time.Duration) (int64, time.Duration, error) {
	resp, err := b.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, 0, err
	}
	return int64(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

func (b *etcdBackend) endSession(ctx context.Context, s *session) error {
	_, err := b.client.Revoke(ctx, clientv3.LeaseID(s.id))
	if err := etcdError(err); err != errSessionGone {
		return err
	}
	return nil
}

// renew sends one keep-alive and reads one answer. Not concurrency.Session, which
// counts its deadline from the answer's arrival; not KeepAlive, whose answers may be
// old ones out of a buffer; not KeepAliveOnce, which repeats without a pause.
func (b *etcdBackend) renew(ctx context.Context, batch []*session) ([]renewal, error) {
	answers := make([]renewal, len(batch))
	for i, s := range batch {
		ttl, err := b.keepAlive(ctx, s.id)
		if err = etcdError(err); err != nil && err != errSessionGone {
			return nil, err
		}
		if err == errSessionGone || ttl <= 0 {
			answers[i].lost = SessionLost
			continue
		}
		answers[i].granted = time.Duration(ttl) * time.Second
		if s.beats.Add(1)%countEvery == 0 {
			b.countKeys(s)
		}
	}
	return answers, nil
}

// countKeys looks whether every hold of a session still has its key: the watch tells
// sooner, but a watch can miss what a read cannot.
func (b *etcdBackend) countKeys(s *session) {
	c := b.core
	if !c.begin(false) {
		return
	}
	owners := map[string]string{}
	c.mu.Lock()
	for h := range s.holds {
		owners[b.key(h.name, h.nonce)] = h.owner
	}
	c.mu.Unlock()
	go func() {
		defer c.end()
		ctx, cancel := context.WithTimeout(c.ctx, callLimit(s.ttl))
		defer cancel()
		resp, err := b.client.TimeToLive(ctx, clientv3.LeaseID(s.id), clientv3.WithAttachedKeys())
		if err != nil || resp.TTL <= 0 {
			return // the renewal will tell
		}
		for _, key := range resp.Keys {
			delete(owners, string(key))
		}
		for _, owner := range owners {
			c.suspect(owner, 0)
		}
	}()
}

func (b *etcdBackend) keepAlive(ctx context.Context, id int64) (int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // ends the stream
	stream, err := b.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		return 0, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return resp.TTL, nil
}

// listen hears of deleted queue keys of the namespace, so that a revoked lease ends
// within milliseconds, and removes old abort markers.
func (b *etcdBackend) listen(ctx context.Context) {
	b.core.wg.Add(2)
	go func() {
		defer b.core.wg.Done()
		b.hearDeletes(ctx)
	}()
	go func() {
		defer b.core.wg.Done()
		b.sweepMarkers(ctx)
	}()
}

// hearDeletes keeps one watch open. After a gap every hold of ours is looked at.
func (b *etcdBackend) hearDeletes(ctx context.Context) {
	if b.off.push {
		return
	}
	for {
		wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		ch := b.client.Watch(wctx, b.root+"q/", clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithPrevKV())
		for resp := range ch {
			for _, ev := range resp.Events {
				if ev.PrevKv != nil {
					b.core.suspect(ownerOf(ev.PrevKv.Value), 0)
				}
			}
		}
		cancel()
		if !sleep(ctx, watchPause) {
			return
		}
		b.core.suspectAll()
	}
}

func (b *etcdBackend) sweepLater(marker string) {
	select {
	case b.sweep <- marker:
	default: // the marker then lives as long as its session
	}
}

type oldMarker struct {
	key string
	at  time.Time
}

// sweepMarkers deletes markers once no put can be under way any more.
func (b *etcdBackend) sweepMarkers(ctx context.Context) {
	var old []oldMarker
	t := time.NewTicker(sweepPause)
	defer t.Stop()
	for {
		select {
		case key := <-b.sweep:
			if len(old) < maxMarkers {
				old = append(old, oldMarker{key, time.Now()})
			}
		case <-t.C:
			for len(old) > 0 && time.Since(old[0].at) > markerLife {
				dctx, cancel := context.WithTimeout(ctx, revokeLimit)
				_, err := b.client.Delete(dctx, old[0].key)
				cancel()
				if err != nil {
					break
				}
				old = old[1:]
			}
		case <-ctx.Done():
			return
		}
	}
}

func (b *etcdBackend) close() error {
	if !b.owned {
		return nil
	}
	if err := b.client.Close(); err != nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
		return fmt.Errorf("lockprovider: close etcd client: %w", err)
	}
	return nil
}
