package locktest

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// raw is the store without lockprovider: what an operator or an intruder can do. It
// knows how keys are laid out.
type raw interface {
	// Delete removes the holder's key.
	Delete(name string) error
	// Steal puts a stranger in the holder's place.
	Steal(name string) error
	// Usurp puts a stranger under the very key of the holder.
	Usurp(name string) error
	// Foreign puts something that is no lock where the lock would be.
	Foreign(name string) error
	// Left is the time to live of the holder's key; 0 if there is none.
	Left(name string) (time.Duration, error)
	// Locks lists the keys of locks and of waiters in the namespace.
	Locks() ([]string, error)
	// All lists every key of the namespace.
	All() ([]string, error)
}

// stranger is the value of a key that somebody else wrote into a queue of etcd.
const stranger = `{"owner":"stranger"}`

const rawLimit = soon

func quiet(T) *slog.Logger { return slog.New(slog.DiscardHandler) }

// code is how a name is written in a key.
func code(name string) string {
	return strings.NewReplacer("+", "%20", "~", "%7E").Replace(url.QueryEscape(name))
}

type rawRedis struct {
	client *redis.Client
	tag    string
}

func newRawRedis(t T, address, ns string) *rawRedis {
	c := redis.NewClient(&redis.Options{
		Addr: address, ContextTimeoutEnabled: true, PoolSize: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	return &rawRedis{client: c, tag: ns + ":{" + ns + "/lock}:"}
}

func (r *rawRedis) key(name string) string { return r.tag + "held:" + code(name) }

func (r *rawRedis) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), rawLimit)
}

func (r *rawRedis) Delete(name string) error {
	ctx, cancel := r.ctx()
	defer cancel()
	return r.client.Del(ctx, r.key(name)).Err()
}

func (r *rawRedis) Steal(name string) error {
	ctx, cancel := r.ctx()
	defer cancel()
	return r.client.Set(ctx, r.key(name), "lease 8 stranger 1 0 ", time.Minute).Err()
}

// Usurp is Steal: Redis has one key for a name.
func (r *rawRedis) Usurp(name string) error { return r.Steal(name) }

func (r *rawRedis) Foreign(name string) error {
	ctx, cancel := r.ctx()
	defer cancel()
	return r.client.Set(ctx, r.key(name), "a value of somebody else's", time.Minute).Err()
}

func (r *rawRedis) Left(name string) (time.Duration, error) {
	ctx, cancel := r.ctx()
	defer cancel()
	d, err := r.client.PTTL(ctx, r.key(name)).Result()
	return max(d, 0), err
}

func (r *rawRedis) Locks() ([]string, error) { return r.scan(r.tag + "held:*") }

func (r *rawRedis) All() ([]string, error) { return r.scan(r.tag + "*") }

func (r *rawRedis) scan(pattern string) ([]string, error) {
	ctx, cancel := r.ctx()
	defer cancel()
	var keys []string
	it := r.client.Scan(ctx, 0, pattern, 1000).Iterator()
	for it.Next(ctx) {
		keys = append(keys, it.Val())
	}
	return keys, it.Err()
}

type rawEtcd struct {
	client *clientv3.Client
	root   string
}

func newRawEtcd(t T, address, ns string) *rawEtcd {
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(address, ","), DialTimeout: rawLimit, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("etcd client: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawEtcd{client: c, root: ns + "/lock/"}
}

func (r *rawEtcd) queue(name string) string { return r.root + "q/" + code(name) + "/" }

func (r *rawEtcd) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), rawLimit)
}

// queued reads the keys of a name, the holder's first.
func (r *rawEtcd) queued(name string) (keys []string, leases []int64, err error) {
	ctx, cancel := r.ctx()
	defer cancel()
	resp, err := r.client.Get(ctx, r.queue(name), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, nil, err
	}
	for _, kv := range resp.Kvs {
		keys, leases = append(keys, string(kv.Key)), append(leases, kv.Lease)
	}
	return keys, leases, nil
}

func (r *rawEtcd) head(name string) (string, int64, error) {
	keys, leases, err := r.queued(name)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("nobody holds %q", name)
	}
	if err != nil {
		return "", 0, err
	}
	return keys[0], leases[0], nil
}

func (r *rawEtcd) Delete(name string) error {
	key, _, err := r.head(name)
	if err != nil {
		return err
	}
	ctx, cancel := r.ctx()
	defer cancel()
	_, err = r.client.Delete(ctx, key)
	return err
}

func (r *rawEtcd) Steal(name string) error {
	key, _, err := r.head(name)
	if err != nil {
		return err
	}
	ctx, cancel := r.ctx()
	defer cancel()
	_, err = r.client.Txn(ctx).Then(clientv3.OpDelete(key), clientv3.OpPut(r.queue(name)+"stranger", stranger)).Commit()
	return err
}

// Usurp takes two steps: etcd changes a key once in a transaction.
func (r *rawEtcd) Usurp(name string) error {
	key, _, err := r.head(name)
	if err != nil {
		return err
	}
	ctx, cancel := r.ctx()
	defer cancel()
	if _, err := r.client.Delete(ctx, key); err != nil {
		return err
	}
	_, err = r.client.Put(ctx, key, stranger)
	return err
}

func (r *rawEtcd) Foreign(name string) error {
	ctx, cancel := r.ctx()
	defer cancel()
	_, err := r.client.Put(ctx, r.queue(name)+"0", "a value of somebody else's")
	return err
}

func (r *rawEtcd) Left(name string) (time.Duration, error) {
	_, leases, err := r.queued(name)
	if err != nil || len(leases) == 0 {
		return 0, err
	}
	ctx, cancel := r.ctx()
	defer cancel()
	resp, err := r.client.TimeToLive(ctx, clientv3.LeaseID(leases[0]))
	if err != nil {
		return 0, err
	}
	return time.Duration(max(resp.TTL, 0)) * time.Second, nil
}

func (r *rawEtcd) Locks() ([]string, error) { return r.keys(r.root + "q/") }

func (r *rawEtcd) All() ([]string, error) { return r.keys(r.root) }

func (r *rawEtcd) keys(prefix string) ([]string, error) {
	ctx, cancel := r.ctx()
	defer cancel()
	resp, err := r.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		keys[i] = string(kv.Key)
	}
	return keys, nil
}

// revoke ends the session that holds or waits for a name, at the given place in its queue.
func (r *rawEtcd) revoke(name string, at int) error {
	_, leases, err := r.queued(name)
	if err != nil {
		return err
	}
	if at >= len(leases) {
		return fmt.Errorf("queue of %q has %d keys", name, len(leases))
	}
	ctx, cancel := r.ctx()
	defer cancel()
	_, err = r.client.Revoke(ctx, clientv3.LeaseID(leases[at]))
	return err
}
