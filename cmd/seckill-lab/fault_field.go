package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/deploy/stack"
)

// leaseTTL is the shortest that the service takes, so that a pause of twice as long stays short.
const leaseTTL = 2 * time.Second

// storeCall bounds one question of the lab to a store.
const storeCall = 5 * time.Second

// field is one installation under fault: a namespace on four servers, and the processes of the service on it.
// It belongs to one goroutine.
type field struct {
	servers   *stack.Stack
	program   string // the service's
	lock      string
	namespace string
	dir       string // of the processes' logs
	public    string // HOST:PORT of the API, the same through all its lives
	nodes     map[string]*node
	links     *links // nil: the processes talk to the servers directly

	// What some faults keep between two steps.
	oldRecords int64             // of a copy of Redis' data
	oldKeys    map[string]string // dumps of the gate's keys
	ballast    string            // the file that fills the disk of NATS
	created    time.Time         // of the stream or consumer that is deleted
}

// node is one process of the service, through all its lives.
type node struct {
	name, role string
	life       int
	running    *service
	last       *service // the one that was killed last
}

// newField starts an API and workers on servers. The caller closes it, also after an error.
func newField(ctx context.Context, servers *stack.Stack, program, lock, namespace, dir string, workers int, through *links) (*field, error) {
	f := &field{
		servers: servers, program: program, lock: lock, namespace: namespace, dir: dir, links: through,
		nodes: map[string]*node{"api": {name: "api", role: "api"}},
	}
	for n := range workers {
		name := "worker-" + strconv.Itoa(n+1)
		f.nodes[name] = &node{name: name, role: "worker"}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, fmt.Errorf("make a folder for the logs: %w", err)
	}
	port, err := quietPort()
	if err != nil {
		return f, err
	}
	f.public = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for _, name := range f.names() {
		if err := f.start(ctx, name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// quietPort finds a free port below the range of outgoing connections, so that none of those can take it while
// the process that listens there is dead.
func quietPort() (int, error) {
	const lowest, highest, attempts = 15_000, 32_000, 200
	var last error
	for range attempts {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port for the API: %w after %d attempts", last, attempts)
}

func (f *field) names() []string { return slices.Sorted(maps.Keys(f.nodes)) }

// start begins the next life of a process and waits until it is ready.
func (f *field) start(ctx context.Context, name string) error {
	n := f.nodes[name]
	n.life++
	env := append(f.servers.Env(f.lock), "SECKILL_NAMESPACE="+f.namespace, "SECKILL_ROLES="+n.role,
		"SECKILL_LOCK_TTL="+leaseTTL.String(), "SECKILL_LOG_ACK_WAIT=5s")
	if n.role == "api" {
		env = append(env, "SECKILL_HTTP_ADDR="+f.public)
	}
	if f.links != nil {
		env = f.links.through(env, n.role)
	}
	s, err := startService(ctx, f.program, env, filepath.Join(f.dir, fmt.Sprintf("%s.%d.log", name, n.life)))
	if err != nil {
		return fmt.Errorf("start %s for the %d. time: %w", name, n.life, err)
	}
	s.token = f.servers.AdminToken()
	n.running = s
	return nil
}

// kill ends a process as a crash does, and returns when the system has taken it away.
func (f *field) kill(name string) error {
	n := f.nodes[name]
	if n.running == nil {
		return fmt.Errorf("kill %s: it is not running", name)
	}
	_ = n.running.process.Kill()
	if !n.running.endsWithin(5 * time.Second) {
		return fmt.Errorf("kill %s: process %d is still there 5s after SIGKILL", name, n.running.process.Pid)
	}
	n.last, n.running = n.running, nil
	return nil
}

// died names the processes that ended without being asked to.
func (f *field) died() (dead []string) {
	for _, name := range f.names() {
		if s := f.nodes[name].running; s != nil && s.endsWithin(0) {
			dead = append(dead, fmt.Sprintf("%s ended by itself with %s; its log ends with\n%s", name, s.ended, s.logTail()))
		}
	}
	return dead
}

// close stops the processes in order and drops the proxies. A process that ended badly is an error.
func (f *field) close() error {
	var errs []error
	for _, name := range f.names() {
		n := f.nodes[name]
		if n.running == nil {
			continue
		}
		_ = n.running.process.Signal(syscall.SIGCONT) // a paused process would not notice the rest
		if err := n.running.stop(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		n.running = nil
	}
	if f.links != nil {
		f.links.close()
	}
	return errors.Join(errs...)
}

// api is the process that answers the operator's calls.
func (f *field) api() *service { return f.nodes["api"].running }

// table is the quoted name of a table of the installation.
func (f *field) table(name string) string { return pgx.Identifier{f.namespace, name}.Sanitize() }

// gateKey is a key of an activity's gate.
func (f *field) gateKey(activity, name string) string {
	return f.namespace + ":{" + activity + "/0}:" + name
}

func (f *field) stream() string { return strings.ToUpper(f.namespace) + "_ORDERS" }

// ledger connects straight to Postgres, past every proxy.
func (f *field) ledger(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	db, err := pgx.Connect(ctx, f.servers.PostgresURL())
	if err != nil {
		return nil, fmt.Errorf("connect to the ledger: %w", err)
	}
	return db, nil
}

// redis connects straight to Redis.
func (f *field) redis() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: f.servers.Address(stack.Redis), MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// nats connects straight to NATS.
func (f *field) nats() (*nats.Conn, error) {
	nc, err := nats.Connect(f.servers.NATSURL(), nats.NoReconnect(), nats.Timeout(storeCall))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}
