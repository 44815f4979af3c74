package locktest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/lockprovider"
)

// J: Redis only.
var groupJ = []Case{
	{ID: "G2", Name: "token_rises_when_redis_lost_its_data", Run: tokenAfterLoss, Only: "redis", Own: true},
	{ID: "J1", Name: "scripts_flushed", Run: scriptsFlushed, Only: "redis", Own: true},
	{ID: "J3", Name: "lost_data_makes_two_holders_and_one_writer", Run: lostData, Only: "redis", Own: true},
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
			func() error { return r.client.Del(e.Ctx(soon), r.tag+"fence").Err() },
			func() error { return r.client.FlushAll(e.Ctx(soon)).Err() },
			func() error {
				if err := r.client.FlushAll(e.Ctx(soon)).Err(); err != nil {
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
			_ = l.Release(e.Ctx(soon))
		}
	}
}

// lostData is what a failover to a replica without the key does: a second holder gets
// in while the first one is valid. Not the lock, the fence keeps their writes apart.
func lostData(e *Env) {
	f := newFenced(e)
	p, q := e.Open(), e.Open()
	nothing := func() {}
	a := e.Acquire(p, "n", lockprovider.WithTTL(longTTL))
	e.Must(f.add(e.Ctx(soon), a.Token(), 1, nothing))
	e.Must(e.raw.(*rawRedis).client.FlushAll(e.Ctx(soon)).Err())
	b := e.Acquire(q, "n")
	e.Must(f.add(e.Ctx(soon), b.Token(), 2, nothing))
	if err := f.add(e.Ctx(soon), a.Token(), 3, nothing); !errors.Is(err, errFenced) {
		e.Breach("the first holder wrote after the second: %v", err)
	}
	e.reason(e.Ends(longTTL, a), lockprovider.Revoked, lockprovider.Stolen)
	e.Release(b)
}

func scriptsFlushed(e *Env) {
	p, q := e.Open(), e.Open()
	r := e.raw.(*rawRedis)
	keep := e.Acquire(p, "keep")
	for range 20 {
		e.Must(r.client.ScriptFlush(e.Ctx(soon)).Err())
		a := e.Acquire(p, "n", lockprovider.WithTTL(longTTL))
		e.Must(r.client.ScriptFlush(e.Ctx(soon)).Err())
		e.Release(a)
		e.Release(e.Acquire(q, "n", lockprovider.WithWait(soon)))
	}
	for end := time.Now().Add(TTL); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		e.Must(r.client.ScriptFlush(e.Ctx(soon)).Err())
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
		"no replicas":   {{"config", "set", "min-replicas-to-write", "1"}, {"config", "set", "min-replicas-to-write", "0"}},
		"cannot save":   {{"config", "set", "save", "3600 1"}, {"config", "set", "save", ""}},
	} {
		e.Must(r.client.Do(e.Ctx(soon), set[0]...).Err())
		if what == "cannot save" {
			e.failSnapshot(r)
		}
		if _, err := p.TryAcquire(e.Ctx(soon), "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
			e.Fatalf("%s: %v", what, err)
		}
		e.Must(r.client.Do(e.Ctx(soon), set[1]...).Err())
		e.Release(e.Acquire(p, "n", lockprovider.WithWait(soon)))
	}
}

// failSnapshot puts a folder where the snapshot would be.
func (e *Env) failSnapshot(r *rawRedis) {
	e.Helper()
	at, err := r.client.ConfigGet(e.Ctx(soon), "dir").Result()
	e.Must(err)
	folder := filepath.Join(at["dir"], "dump.rdb")
	e.Must(os.Mkdir(folder, 0o700))
	e.Cleanup(func() { _ = os.Remove(folder) })
	e.Must(r.client.BgSave(e.Ctx(soon)).Err())
	e.Within(soon, "the snapshot has failed", func() bool {
		return strings.Contains(r.client.Info(e.Ctx(soon), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

func evictionPolicy(e *Env) {
	r := e.raw.(*rawRedis)
	e.Must(r.client.ConfigSet(e.Ctx(soon), "maxmemory-policy", "allkeys-lru").Err())
	e.Cleanup(func() { _ = r.client.ConfigSet(context.Background(), "maxmemory-policy", "noeviction").Err() })
	var said lockedBuffer
	cfg := e.config()
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	e.OpenWith(cfg)
	e.Within(soon, "a warning", func() bool { return strings.Contains(said.String(), "allkeys-lru") })
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
	left, err := r.client.PTTL(e.Ctx(soon), keys[0]).Result()
	e.Must(err)
	if left <= 0 {
		e.Fatalf("%s never expires", keys[0])
	}
}
