package lockprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// check reads the hold's key and the head of its queue in one step.
func (b *etcdBackend) check(ctx context.Context, h *hold) (Reason, error) {
	key := b.key(h.name, h.nonce)
	resp, err := b.client.Txn(ctx).Then(clientv3.OpGet(key), b.first(h.name), clientv3.OpGet(b.marker(h.nonce))).Commit()
	if err != nil {
		return 0, etcdError(err)
	}
	own := resp.Responses[0].GetResponseRange().Kvs
	if len(own) == 1 && uint64(own[0].CreateRevision) == h.token && own[0].Lease == h.sess.id {
		return 0, nil
	}
	if resp.Responses[2].GetResponseRange().Count > 0 {
		b.sweepLater(b.marker(h.nonce))
		return Revoked, nil
	}
	if len(own) == 1 || len(resp.Responses[1].GetResponseRange().Kvs) > 0 {
		return Stolen, nil
	}
	return Revoked, nil
}

// list reads all queues below a prefix at one revision; the time left is asked for
// once per lease.
func (b *etcdBackend) list(ctx context.Context, prefix string, exact bool) ([]Info, error) {
	from := b.root + "q/" + encodeName(prefix)
	if exact {
		from = b.queue(prefix)
	}
	resp, err := b.client.Get(ctx, from, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, etcdError(err)
	}
	at := map[string]int{} // index of a queue's holder
	var infos []Info
	var leases []int64
	for _, kv := range resp.Kvs {
		queue := string(kv.Key[:strings.LastIndexByte(string(kv.Key), '/')])
		if i, ok := at[queue]; ok {
			infos[i].Waiters++
			continue
		}
		in, err := b.info(kv)
		if err != nil && exact {
			return nil, err
		}
		at[queue] = len(infos)
		infos, leases = append(infos, in), append(leases, kv.Lease)
	}
	return infos, b.timesLeft(ctx, infos, leases)
}

// timesLeft asks each lease once.
func (b *etcdBackend) timesLeft(ctx context.Context, infos []Info, leases []int64) error {
	left := map[int64]time.Duration{}
	for i, id := range leases {
		if _, ok := left[id]; !ok && id != 0 {
			resp, err := b.client.TimeToLive(ctx, clientv3.LeaseID(id))
			if err != nil && !errors.Is(etcdError(err), errSessionGone) {
				return etcdError(err)
			}
			left[id] = 0
			if err == nil {
				left[id] = time.Duration(max(resp.TTL, 0)) * time.Second
			}
		}
		infos[i].TTL = left[id]
	}
	return nil
}

// info reads a queue key. A value that is not ours is ErrForeignKey.
func (b *etcdBackend) info(kv *mvccpb.KeyValue) (Info, error) {
	code := strings.TrimPrefix(string(kv.Key), b.root+"q/")
	code, _, _ = strings.Cut(code, "/")
	name, err := decodeName(code)
	in := Info{Name: name, Token: uint64(kv.CreateRevision)}
	var v etcdValue
	if jerr := json.Unmarshal(kv.Value, &v); err != nil || jerr != nil || v.Owner == "" {
		return in, fmt.Errorf("lockprovider: %q: key %q: %w; remove it or choose another namespace", name, kv.Key, ErrForeignKey)
	}
	in.Owner, in.Note, in.Since = v.Owner, v.Note, time.UnixMilli(v.Since)
	return in, nil
}
