package locktest

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"seckill/lockprovider"
)

// A counter counts the requests that providers send to the store: commands on Redis,
// calls and opened keep-alive streams on etcd (not the messages on its watch stream).
type counter struct {
	n        atomic.Int64
	renewals atomic.Int64
	reg      *prometheus.Registry
}

func newCounter() *counter { return &counter{} }

func (c *counter) total() int64 { return c.n.Load() }

// provider makes a provider whose requests are counted.
func (c *counter) provider(e *Env) *lockprovider.Provider {
	e.Helper()
	cfg := e.config()
	if c.reg != nil {
		cfg.Registerer = c.reg
	}
	if e.h.Adjust != nil {
		e.h.Adjust(&cfg)
	}
	if e.Backend == "redis" {
		client := redis.NewClient(&redis.Options{
			Addr: e.address, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 8,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		client.AddHook(c)
		e.Cleanup(func() { _ = client.Close() })
		p, err := lockprovider.OpenRedis(client, cfg)
		e.Must(err)
		e.closes(p)
		return p
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.address}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)},
	})
	e.Must(err)
	e.Cleanup(func() { _ = client.Close() })
	p, err := lockprovider.OpenEtcd(client, cfg)
	e.Must(err)
	e.closes(p)
	return p
}

// DialHook, ProcessHook and ProcessPipelineHook are for go-redis.
func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook counts a command.
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		if args := cmd.Args(); len(args) > 2 && args[0] == "eval" && args[2] != 1 && args[2] != 2 && args[2] != 3 {
			c.renewals.Add(1) // the one script with a key per lock, always sent in full
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline as its commands.
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func (c *counter) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.n.Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *counter) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method == "/etcdserverpb.Lease/LeaseKeepAlive" {
		c.renewals.Add(1)
	}
	c.n.Add(1)
	return open(ctx, desc, cc, method, opts...)
}
