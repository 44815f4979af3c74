package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/admission"
	"seckill/consumer"
	"seckill/lockprovider"
)

// stores are the connections of one process to the three stores that hold orders.
type stores struct {
	redis redis.UniversalClient
	nats  *nats.Conn
	pool  *pgxpool.Pool

	gate   *admission.Gate
	log    *admission.Log
	ledger *consumer.Ledger
}

// startRetry is the pause between attempts to reach a store at start.
const startRetry = 200 * time.Millisecond

// openStores connects with Redis, NATS and Postgres and waits, up to the start
// time-out, until each has answered once. Close the result.
func openStores(ctx context.Context, c Config) (*stores, error) {
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	s := &stores{}
	if err := s.open(ctx, c); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stores) open(ctx context.Context, c Config) (err error) {
	if s.redis, err = openRedis(c); err != nil {
		return err
	}
	s.gate = admission.NewGate(s.redis, c.Namespace)
	if err := answered(ctx, "Redis", "SECKILL_REDIS_URL", s.gate.Ping); err != nil {
		return err
	}
	if err := s.openLedger(ctx, c); err != nil {
		return err
	}
	if s.nats, s.log, err = openLog(ctx, c, "seckill"); err != nil {
		return err
	}
	return nil
}

func (s *stores) openLedger(ctx context.Context, c Config) (err error) {
	if s.pool, err = consumer.OpenPool(ctx, c.postgresURL(), c.Namespace, poolSize(c)); err != nil {
		return fmt.Errorf("%w; check SECKILL_POSTGRES_URL", err)
	}
	s.ledger = consumer.NewLedger(s.pool)
	return answered(ctx, "Postgres", "SECKILL_POSTGRES_URL", s.ledger.Ping)
}

// poolSize gives every partition of a worker a connection, and the reads of an API
// node some beside them.
func poolSize(c Config) int32 {
	size := int32(16)
	if c.hasRole(roleWorker) {
		size += int32(c.Partitions)
	}
	return size
}

func (s *stores) close() {
	if s.nats != nil {
		s.nats.Close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.redis != nil {
		_ = s.redis.Close()
	}
}

// answered asks a store until it answers or ctx ends. An attempt that was cut off by that
// end does not know why: the one before it says so.
func answered(ctx context.Context, store, setting string, ask func(context.Context) error) error {
	var err error
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		last := ask(attempt)
		cancel()
		if last == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil {
			err = last
		}
		select {
		case <-ctx.Done():
			// Libraries write one line an address; ours is one line.
			why := strings.Join(strings.Fields(err.Error()), " ")
			return fmt.Errorf("%s does not answer: %s; start it, or check %s", store, why, setting)
		case <-time.After(startRetry):
		}
	}
}

// redisLog keeps the client's own words out of standard error: what matters comes
// back as errors.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "Redis client", "message", fmt.Sprintf(format, args...))
}

func init() { redis.SetLogger(redisLog{}) }

func openRedis(c Config) (redis.UniversalClient, error) {
	var o redis.UniversalOptions
	for i, text := range c.RedisURLs {
		one, err := redis.ParseURL(text)
		if err != nil {
			return nil, wrongUsage(fmt.Errorf("configuration: redis.url: entry %d is not a Redis URL", i+1))
		}
		o.Addrs = append(o.Addrs, one.Addr)
		o.Username, o.Password, o.DB = one.Username, one.Password, one.DB
		if one.TLSConfig != nil { // the name of a certificate follows from the address
			if o.TLSConfig, err = c.storesTLS(); err != nil {
				return nil, err
			}
		}
	}
	o.DialTimeout = 2 * time.Second
	o.ReadTimeout, o.WriteTimeout = 400*time.Millisecond, 400*time.Millisecond
	o.PoolTimeout = 500 * time.Millisecond
	o.ContextTimeoutEnabled = true
	o.MaxRetries = 1 // the scripts are idempotent
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewUniversalClient(&o), nil
}

// openLog makes a connection of its own: publishing and consuming share none, so
// that one cannot hold up the other.
func openLog(ctx context.Context, c Config, name string) (*nats.Conn, *admission.Log, error) {
	var nc *nats.Conn
	var log *admission.Log
	err := answered(ctx, "NATS JetStream", "SECKILL_NATS_URL", func(ctx context.Context) (err error) {
		if nc == nil {
			if nc, err = connectNATS(c, name); err != nil {
				return err
			}
		}
		log, err = admission.OpenLog(ctx, nc, admission.LogConfig{
			Namespace: c.Namespace, Partitions: c.Partitions, Replicas: c.LogReplicas,
			MaxBytes: c.LogMaxBytes, MaxAge: c.LogMaxAge,
		})
		return err
	})
	if err != nil && nc != nil {
		nc.Close()
	}
	return nc, log, err
}

func (c Config) events() consumer.EventsConfig {
	return consumer.EventsConfig{Namespace: c.Namespace, Replicas: c.LogReplicas, MaxBytes: c.EventsMaxBytes, MaxAge: c.EventsMaxAge}
}

func connectNATS(c Config, name string) (*nats.Conn, error) {
	secure := func(*nats.Options) error { return nil }
	if strings.Contains(c.NATSURL, "tls://") || strings.Contains(c.NATSURL, "wss://") {
		t, err := c.storesTLS()
		if err != nil {
			return nil, err
		}
		secure = nats.Secure(t)
	}
	return nats.Connect(
		c.NATSURL, secure,
		nats.Name(name+" "+c.Namespace),
		nats.Timeout(2*time.Second),
		nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		// A message that leaves a buffer after its append was given up would be an
		// order nobody waits for.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			slog.Warn("NATS connection", "error", err)
		}),
	)
}

// join brings the ledger's schema to this release, if the configuration says so,
// and checks that this process belongs to the installation that the ledger records.
func (s *stores) join(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	if c.Migrate {
		if _, err := consumer.Migrate(ctx, s.pool, c.Namespace); err != nil {
			return err
		}
	}
	err := s.ledger.Join(ctx, c.LockBackend, c.Partitions)
	var setup *consumer.SetupError
	if errors.As(err, &setup) {
		return wrongUsage(err)
	}
	if err != nil && !c.Migrate {
		return fmt.Errorf("%w; is the schema up to date? run: seckill migrate", err)
	}
	return err
}

// postgresURL adds the files of stores.tls_… where the URL names none. What is done
// with them is the URL's sslmode: verify-full checks the server's name as well.
func (c Config) postgresURL() string {
	text := c.PostgresURL
	_, _, isURL := cutScheme(text)
	for _, file := range [][2]string{{"sslrootcert", c.StoresTLSCA}, {"sslcert", c.StoresTLSCert}, {"sslkey", c.StoresTLSKey}} {
		switch {
		case file[1] == "" || strings.Contains(text, file[0]+"="):
		case !isURL:
			text += " " + file[0] + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(file[1]) + "'"
		case strings.Contains(text, "?"):
			text += "&" + file[0] + "=" + url.QueryEscape(file[1])
		default:
			text += "?" + file[0] + "=" + url.QueryEscape(file[1])
		}
	}
	return text
}

// leases is how the leases of a backend are reached.
func (c Config) leases(backend string) (lockprovider.Config, error) {
	secure, err := c.storesTLS()
	return lockprovider.Config{
		Backend: backend, RedisURL: c.redisURL(), EtcdEndpoints: c.EtcdEndpoints,
		EtcdUser: c.EtcdUser, EtcdPassword: c.EtcdPassword, TLS: secure,
		Namespace: c.Namespace, TTL: c.LockTTL,
	}, err
}

// openLeases opens the leases of a backend for a command.
func (c Config) openLeases(ctx context.Context, backend string) (*lockprovider.Provider, error) {
	leases, err := c.leases(backend)
	if err != nil {
		return nil, err
	}
	leases.Instance, leases.Logger = instanceName(), discard
	return reachLeases(ctx, leases)
}

// reachLeases says what to look at if the store of the leases does not let us in.
func reachLeases(ctx context.Context, c lockprovider.Config) (*lockprovider.Provider, error) {
	p, err := lockprovider.Open(ctx, c)
	if err == nil {
		return p, nil
	}
	where := "SECKILL_REDIS_URL"
	if c.Backend == backendEtcd {
		where = "SECKILL_ETCD_ENDPOINTS, SECKILL_ETCD_USER and SECKILL_ETCD_PASSWORD"
	}
	return nil, fmt.Errorf("%w; check %s", err, where)
}

// redisURL is the form in which the lock provider takes the servers.
func (c Config) redisURL() string { return strings.Join(c.RedisURLs, ",") }
