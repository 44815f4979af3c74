package lockprovider_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/deploy/stack"
	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider/locktest"
)

// Cases spend their time waiting for deadlines, so many run side by side.
const sideBySide = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	if locktest.ChildMain() || memberMain() {
		return
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", sideBySide)
	}
	redis.SetLogger(silent{}) // the library reports every failed connection of a case about failed connections
	stacktest.Main(m, stacktest.CheckLeaks())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// harness is one backend on the servers that all tests share.
func harness(t *testing.T, backend string) locktest.Harness {
	t.Helper()
	servers := stacktest.Get(t)
	own := sync.OnceValue(func() *stack.Stack { return stacktest.New(t) })
	return locktest.Harness{
		Backend: backend, Address: servers.Address(backend), PostgresURL: servers.PostgresURL(),
		Own:  func(locktest.T) locktest.Server { return server{own(), backend} },
		Long: os.Getenv("LOCKTEST_LONG") != "",
	}
}

// server is one server of a stack that belongs to the test.
type server struct {
	*stack.Stack
	name string
}

const startLimit = time.Minute

func (s server) Address() string { return s.Stack.Address(s.name) }
func (s server) Stop() error     { return s.Stack.Stop(s.name) }
func (s server) Kill() error     { return s.Stack.Kill(s.name) }
func (s server) Pause() error    { return s.Stack.Pause(s.name) }
func (s server) Resume() error   { return s.Stack.Resume(s.name) }
func (s server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	return s.Stack.Start(ctx, s.name)
}

func TestConformanceRedis(t *testing.T) {
	t.Parallel()
	locktest.Run(t, harness(t, "redis"))
}

func TestConformanceEtcd(t *testing.T) {
	t.Parallel()
	locktest.Run(t, harness(t, "etcd"))
}
