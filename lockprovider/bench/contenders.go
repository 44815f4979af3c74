package main

import (
	"context"
	"time"
)

// servers are the addresses of the two stores, HOST:PORT.
type servers struct{ Redis, Etcd string }

// ttl is the time to live of every lock, in each library.
const ttl = 6 * time.Second

// A locker is one process's use of a library.
type locker interface {
	// acquire waits for the name. The function it returns gives the lock back and
	// returns when the store has said so.
	acquire(ctx context.Context, name string) (func() error, error)
	close() error
}

const (
	storeRedis = "Redis"
	storeEtcd  = "etcd"
)

// A contender is a library on a store.
type contender struct {
	name  string
	store string
	open  func(ctx context.Context, at servers) (locker, error)

	polls bool // waits by asking again and again
	plain bool // sends commands beside scripts, see redisRequests
	// interval between two renewals of a lock with the given ttl; 0: the library renews
	// nothing by itself
	interval time.Duration
}

const ours = "lockprovider"

// ourInterval is a third of the validity (the time to live without drift and guard),
// less the jitter, which is a twentieth on average.
const ourInterval = (ttl - ttl/100 - 2*time.Millisecond - ttl/10) / 3 * 19 / 20

var contenders = []contender{
	{name: ours, store: storeRedis, open: openOurs("redis"), interval: ourInterval},
	{name: "redsync", store: storeRedis, open: openRedsync, polls: true, plain: true},
	{name: "rueidislock", store: storeRedis, open: openRueidis, interval: ttl / 2},
	{name: ours, store: storeEtcd, open: openOurs("etcd"), interval: ourInterval},
	{name: "concurrency.Mutex", store: storeEtcd, open: openMutex, interval: ttl / 3},
}
