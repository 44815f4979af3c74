package main

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// mutexLocker is etcd's own lock. Two mutexes of one session on one name are the same
// hold, so waiters for one name need a session each; locks on different names share one.
type mutexLocker struct {
	client *clientv3.Client

	mu       sync.Mutex
	sessions []*concurrency.Session
	used     map[string]map[*concurrency.Session]bool // by name
}

func openMutex(_ context.Context, at servers) (locker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at.Etcd}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return &mutexLocker{client: client, used: map[string]map[*concurrency.Session]bool{}}, nil
}

// session takes one that is not used for the name.
func (l *mutexLocker) session(name string) (*concurrency.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used[name] == nil {
		l.used[name] = map[*concurrency.Session]bool{}
	}
	for _, s := range l.sessions {
		if !l.used[name][s] {
			l.used[name][s] = true
			return s, nil
		}
	}
	s, err := concurrency.NewSession(l.client, concurrency.WithTTL(int(ttl/time.Second)))
	if err != nil {
		return nil, err
	}
	l.sessions = append(l.sessions, s)
	l.used[name][s] = true
	return s, nil
}

func (l *mutexLocker) back(name string, s *concurrency.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.used[name], s)
}

func (l *mutexLocker) acquire(ctx context.Context, name string) (func() error, error) {
	s, err := l.session(name)
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, "bench-mutex/"+name)
	if err := m.Lock(ctx); err != nil {
		l.back(name, s)
		return nil, err
	}
	return func() error {
		defer l.back(name, s)
		return m.Unlock(context.Background())
	}, nil
}

func (l *mutexLocker) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range l.sessions {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, l.client.Close())...)
}
