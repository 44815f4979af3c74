package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/deploy/stack"
)

// swallowed is a cut: bytes are lost in the given directions, connections seem alive and break when it is over.
// One direction alone is a half-open connection.
func swallowed(where, what string, lasts time.Duration, directions ...string) fault {
	return poisoned(fmt.Sprintf("%s %s for %v: bytes are lost, connections break afterwards", what, where, lasts),
		"dropped", where, lostToxic, lasts, directions...)
}

// withheld is a cut that TCP survives: everything is delivered late, when it is over.
func withheld(where string, lasts time.Duration, directions ...string) fault {
	return poisoned(fmt.Sprintf("cut %s for %v; what was sent meanwhile is delivered when it is over", where, lasts),
		"held back", where, heldToxic, lasts, directions...)
}

func poisoned(about, word, where, kind string, lasts time.Duration, directions ...string) fault {
	var met func() int64
	return fault{
		about: about, lasts: lasts, links: true,
		strike: func(_ context.Context, f *field) (proof string, err error) {
			met, err = f.links.poison(where, kind, nil, directions...)
			return "", err
		},
		heal: func(_ context.Context, f *field) (string, error) {
			n := met()
			f.links.cure()
			if n == 0 {
				return "", fmt.Errorf("the cut of %s is not proven: no byte met it in %v", where, lasts)
			}
			return fmt.Sprintf("%d bytes %s (%s)", n, word, strings.Join(directions, ", ")), nil
		},
	}
}

// delayed makes answers of a server late.
func delayed(server string, delay, lasts time.Duration) fault {
	return fault{
		about: fmt.Sprintf("every answer of %s comes %v late, for %v", server, delay, lasts), lasts: lasts, links: true,
		strike: func(ctx context.Context, f *field) (string, error) {
			_, err := f.links.poison(server, "latency", map[string]any{"latency": delay.Milliseconds()}, downstream)
			if err != nil {
				return "", err
			}
			return f.links.proveSlow(ctx, server, 0, delay)
		},
		heal: func(_ context.Context, f *field) (string, error) { f.links.cure(); return "", nil },
	}
}

// slowed gives each connection of a server so many KiB/s, each way.
func slowed(server string, rate int, lasts time.Duration) fault {
	const payload = 8 << 10
	atLeast := time.Duration(float64(payload) / float64(rate<<10) * 0.7 * float64(time.Second))
	return fault{
		about: fmt.Sprintf("a link to %s carries %d KiB/s, for %v", server, rate, lasts), lasts: lasts, links: true,
		strike: func(ctx context.Context, f *field) (string, error) {
			_, err := f.links.poison(server, "bandwidth", map[string]any{"rate": rate}, upstream, downstream)
			if err != nil {
				return "", err
			}
			return f.links.proveSlow(ctx, server, payload, atLeast)
		},
		heal: func(_ context.Context, f *field) (string, error) { f.links.cure(); return "", nil },
	}
}

// proveSlow asks the server a question of so many bytes through the API's proxy and wants it to take its time.
// A worker's proxy has the same toxics; only it has a link to etcd in use, which makes no difference here.
func (l *links) proveSlow(ctx context.Context, server string, payload int, atLeast time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*storeCall)
	defer cancel()
	began := time.Now()
	if err := askServer(ctx, server, l.proxies["api/"+server].Listen, strings.Repeat("x", payload)); err != nil {
		return "", fmt.Errorf("ask %s through its slow link: %w", server, err)
	}
	took := time.Since(began)
	if took < atLeast {
		return "", fmt.Errorf("the slow link to %s is not proven: a question of %d bytes took %v, not %v", server, payload, took, atLeast)
	}
	return fmt.Sprintf("a question of %d bytes to %s took %v", payload, server, took.Round(time.Millisecond)), nil
}

// askServer asks one real question at an address.
func askServer(ctx context.Context, server, address, payload string) error {
	switch server {
	case stack.Redis:
		client := redis.NewClient(&redis.Options{
			Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 1, ReadTimeout: -1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer client.Close()
		return client.Echo(ctx, payload).Err()
	case stack.Postgres:
		db, err := pgx.Connect(ctx, "postgres://postgres@"+address+"/postgres?sslmode=disable")
		if err != nil {
			return err
		}
		defer db.Close(context.WithoutCancel(ctx))
		_, err = db.Exec(ctx, "select length($1::text)", payload)
		return err
	case stack.NATS:
		nc, err := nats.Connect("nats://"+address, nats.NoReconnect(), nats.Timeout(3*storeCall))
		if err != nil {
			return err
		}
		defer nc.Close()
		if err := nc.Publish("lab.slow", []byte(payload)); err != nil {
			return err
		}
		return nc.FlushWithContext(ctx)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: storeCall, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Put(ctx, "seckill-lab-slow", payload)
	return err
}
