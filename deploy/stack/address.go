package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports are taken from below the range that systems use for outgoing connections
// (Linux from 32768, others from 49152): otherwise a client's connection could sit on
// the port of a killed server when it is to be started again.
const (
	lowestPort  = 15000
	highestPort = 32000
)

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort finds a port that nobody listens on. Another process can still take it
// before our server does; the start is then repeated with another one.
func freePort() (int, error) {
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, errors.Join(errors.New("no free port after 200 attempts"), last)
}

func pickPorts(a, b *int) (err error) {
	if *a, err = freePort(); err != nil {
		return err
	}
	for *b = *a; *b == *a; {
		if *b, err = freePort(); err != nil {
			return err
		}
	}
	return nil
}

// identityOf names the NATS server and the etcd member of a folder, the same at each
// start, so that a probe can tell them from those of another stack.
func identityOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "stack-" + hex.EncodeToString(sum[:6])
}

// RedisURL is the address of Redis, as in SECKILL_REDIS_URL.
func (s *Stack) RedisURL() string { return s.servers[Redis].program.(*redisProgram).url() }

// PostgresURL is the address of Postgres: its superuser, without a password.
func (s *Stack) PostgresURL() string { return s.servers[Postgres].program.(*postgresProgram).url() }

// NATSURL is the address of NATS for clients.
func (s *Stack) NATSURL() string { return s.servers[NATS].program.(*natsProgram).url() }

// NATSMonitorURL is the address of the HTTP monitoring of NATS.
func (s *Stack) NATSMonitorURL() string { return s.servers[NATS].program.(*natsProgram).monitorURL() }

// EtcdEndpoint is HOST:PORT of etcd for clients.
func (s *Stack) EtcdEndpoint() string { return s.servers[Etcd].program.address() }

// Address is HOST:PORT of a server, for a proxy in front of it; empty for an unknown
// name.
func (s *Stack) Address(name string) string {
	srv, ok := s.servers[name]
	if !ok {
		return ""
	}
	return srv.program.address()
}

// AdminToken is the random token in Env, new for each stack.
func (s *Stack) AdminToken() string { return s.adminToken }

// PaymentKey is the random key in Env that signs payments, new for each stack.
func (s *Stack) PaymentKey() string { return s.paymentKey }

// Env is the configuration of "seckill serve" for this stack, as NAME=value, with
// lockBackend "etcd" or "redis". The service listens on free ports and prints them,
// so that several can run beside each other.
func (s *Stack) Env(lockBackend string) []string {
	return []string{
		"SECKILL_REDIS_URL=" + s.RedisURL(),
		"SECKILL_NATS_URL=" + s.NATSURL(),
		"SECKILL_NATS_MONITOR_URL=" + s.NATSMonitorURL(),
		"SECKILL_POSTGRES_URL=" + s.PostgresURL(),
		"SECKILL_ETCD_ENDPOINTS=" + s.EtcdEndpoint(),
		"SECKILL_LOCK_BACKEND=" + lockBackend,
		"SECKILL_HTTP_ADDR=127.0.0.1:0",
		"SECKILL_ADMIN_ADDR=127.0.0.1:0",
		"SECKILL_ADMIN_TOKEN=" + s.adminToken,
		"SECKILL_PAYMENT_SECRETS=" + s.paymentKey,
		"SECKILL_AUTH_MODE=header",
	}
}

// WriteEnv writes Env to Dir/stack.env, readable only by its owner, in a form that
// a shell can load ("set -a; . DIR/stack.env"). It appears whole or not at all.
func (s *Stack) WriteEnv(lockBackend string) error {
	var text strings.Builder
	for _, line := range s.Env(lockBackend) {
		name, value, _ := strings.Cut(line, "=")
		text.WriteString(name + "=" + shellQuote(value) + "\n")
	}
	partial := filepath.Join(s.cfg.Dir, ".stack.env")
	if err := os.WriteFile(partial, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, filepath.Join(s.cfg.Dir, "stack.env"))
}

// shellQuote leaves plain values as they are, for readers that do not know quotes.
func shellQuote(value string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("_./:@,=+-?%", r) &&
			(r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if strings.IndexFunc(value, special) < 0 {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
