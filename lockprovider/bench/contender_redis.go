package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"seckill/lockprovider"
)

// closeLimit bounds giving back what is held at the end.
const closeLimit = 10 * time.Second

type ourLocker struct{ p *lockprovider.Provider }

func openOurs(backend string) func(context.Context, servers) (locker, error) {
	return func(ctx context.Context, at servers) (locker, error) {
		p, err := lockprovider.Open(ctx, lockprovider.Config{
			Backend: backend, RedisURL: "redis://" + at.Redis, EtcdEndpoints: []string{at.Etcd},
			Namespace: "bench", TTL: ttl, Logger: slog.New(slog.DiscardHandler),
		})
		return ourLocker{p}, err
	}
}

func (l ourLocker) acquire(ctx context.Context, name string) (func() error, error) {
	lease, err := l.p.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { return lease.Release(context.Background()) }, nil
}

func (l ourLocker) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return l.p.Close(ctx)
}

// redsyncLocker waits as redsync does by default: it asks again after 50 to 250 ms.
type redsyncLocker struct {
	client *redis.Client
	rs     *redsync.Redsync
}

func openRedsync(_ context.Context, at servers) (locker, error) {
	client := redis.NewClient(&redis.Options{
		Addr: at.Redis, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &redsyncLocker{client, redsync.New(goredis.NewPool(client))}, nil
}

func (l *redsyncLocker) acquire(ctx context.Context, name string) (func() error, error) {
	m := l.rs.NewMutex("bench:"+name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		if ok, err := m.Unlock(); err != nil || !ok {
			return errors.Join(errors.New("redsync: not unlocked"), err)
		}
		return nil
	}, nil
}

func (l *redsyncLocker) close() error { return l.client.Close() }

// rueidisLocker takes one key a lock (the library's default is a majority of three) and
// spares it the notifications of its own writes.
type rueidisLocker struct{ l rueidislock.Locker }

func openRueidis(_ context.Context, at servers) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{at.Redis}},
		KeyValidity:  ttl, KeyMajority: 1, NoLoopTracking: true, TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidisLocker{l}, nil
}

func (l rueidisLocker) acquire(ctx context.Context, name string) (func() error, error) {
	_, release, err := l.l.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { release(); return nil }, nil
}

func (l rueidisLocker) close() error { l.l.Close(); return nil }
