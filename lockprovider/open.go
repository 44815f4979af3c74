package lockprovider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
)

const (
	lockPool     = 8 // connections of the lock's own Redis pool, so that traffic cannot starve renewals
	dialLimit    = 2 * time.Second
	redisLimit   = 2 * maxCallLimit // every call has a shorter deadline of its own
	etcdPing     = 10 * time.Second // the shortest interval that gRPC allows
	etcdPingWait = 3 * time.Second
)

// Open makes a provider with store connections of its own, set up as leases need
// them. It checks the configuration and does not wait for the store: when the store
// is away, acquisitions report ErrUnavailable until it is back. Close closes the
// connections.
func Open(ctx context.Context, cfg Config) (*Provider, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lockprovider: open: %w", context.Cause(ctx))
	}
	switch cfg.Backend {
	case "redis":
		client, err := dialRedis(cfg)
		if err != nil {
			return nil, err
		}
		return provideRedis(client, cfg, true)
	case "etcd":
		client, err := dialEtcd(cfg)
		if err != nil {
			return nil, err
		}
		return provideEtcd(client, cfg, true)
	}
	return nil, fmt.Errorf("lockprovider: backend %q: want \"etcd\" or \"redis\"", cfg.Backend)
}

// OpenRedis makes a provider over a client of the caller's, who closes the client
// after the provider. The client should have MaxRetries -1 (a resent request must be
// this package's decision) and ContextTimeoutEnabled (or a deadline does not bound a
// request); a warning is logged otherwise.
func OpenRedis(client redis.UniversalClient, cfg Config) (*Provider, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("lockprovider: open: no Redis client given")
	}
	if c, ok := client.(*redis.Client); ok {
		if o := c.Options(); o.MaxRetries > 0 || !o.ContextTimeoutEnabled {
			cfg.Logger.Warn("redis client is not set up for locks: want MaxRetries -1 and ContextTimeoutEnabled",
				"max_retries", o.MaxRetries, "context_timeout_enabled", o.ContextTimeoutEnabled)
		}
	}
	return provideRedis(client, cfg, false)
}

// OpenEtcd makes a provider over a client of the caller's, who closes the client
// after the provider. The client should connect again sooner than a lease ends, which
// gRPC does not do by default (grpc.WithConnectParams).
func OpenEtcd(client *clientv3.Client, cfg Config) (*Provider, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("lockprovider: open: no etcd client given")
	}
	return provideEtcd(client, cfg, false)
}

func provideRedis(client redis.UniversalClient, cfg Config, owned bool) (*Provider, error) {
	b := newRedisBackend(client, cfg, owned)
	return newProvider(cfg, b, func(c *core) {
		b.core = c
		b.listen(c.ctx)
	})
}

func provideEtcd(client *clientv3.Client, cfg Config, owned bool) (*Provider, error) {
	b := newEtcdBackend(client, cfg, owned)
	return newProvider(cfg, b, func(c *core) {
		b.core = c
		b.listen(c.ctx)
	})
}

// obeys tells whether a call of the client ends with the deadline of its context.
func obeys(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}

// dialRedis makes a client that never resends by itself and obeys contexts.
func dialRedis(cfg Config) (redis.UniversalClient, error) {
	var all []*redis.Options
	for u := range strings.SplitSeq(cfg.RedisURL, ",") {
		o, err := redis.ParseURL(strings.TrimSpace(u))
		if err != nil {
			return nil, fmt.Errorf("lockprovider: Redis URL %s: %w", masked(u), withoutURL(err))
		}
		all = append(all, o)
	}
	o := redis.UniversalOptions{
		Username: all[0].Username, Password: all[0].Password, DB: all[0].DB,
		ClientName: "lockprovider", Protocol: 2, // no pushes to look for before each answer
		ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: dialLimit, DialerRetries: 1, ReadTimeout: redisLimit, WriteTimeout: redisLimit,
		PoolSize: lockPool, PoolTimeout: maxCallLimit, PipelinePoolSize: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, one := range all {
		o.Addrs = append(o.Addrs, one.Addr)
		if one.TLSConfig != nil {
			o.TLSConfig = cfg.secure() // the name of a certificate follows from the address
		}
	}
	if len(all) > 1 {
		return redis.NewClusterClient(o.Cluster()), nil
	}
	return redis.NewClient(o.Simple()), nil
}

// secure is the TLS configuration for one client.
func (c Config) secure() *tls.Config {
	if c.TLS != nil {
		return c.TLS.Clone()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// masked shows a URL without what may be secret.
func masked(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" {
		return "(want redis://host:port)"
	}
	return u.Scheme + "://" + u.Host
}

// withoutURL drops the URL that url.Parse puts into its errors, password included.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func dialEtcd(cfg Config) (*clientv3.Client, error) {
	if len(cfg.EtcdEndpoints) == 0 {
		return nil, errors.New("lockprovider: no etcd endpoints given")
	}
	var secure *tls.Config
	for _, e := range cfg.EtcdEndpoints {
		if strings.HasPrefix(e, "https://") {
			secure = cfg.secure()
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.EtcdEndpoints, TLS: secure, Username: cfg.EtcdUser, Password: cfg.EtcdPassword, DialTimeout: dialLimit, Logger: zap.NewNop(),
		DialKeepAliveTime: etcdPing, DialKeepAliveTimeout: etcdPingWait, PermitWithoutStream: true,
		// gRPC's own pauses between attempts to connect grow to two minutes, longer than
		// any lease could survive.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: firstBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: min(cfg.TTL/10, longestBackoff)},
			MinConnectTimeout: dialLimit,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("lockprovider: etcd client for %v: %w", cfg.EtcdEndpoints, err)
	}
	return client, nil
}
