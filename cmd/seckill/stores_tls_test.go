package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"seckill/consumer"
	"seckill/deploy/stack/stacktest"
)

const (
	storeUser     = "shop"
	storePassword = "secret-of-the-stores"
	wrongPassword = "not-the-secret"
)

// secured is four real servers that want TLS and credentials.
type secured struct {
	t         *testing.T
	ca        *authority
	cert, key string
	environ   map[string]string
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{t: t, ca: newAuthority(t)}
	s.cert, s.key = s.ca.issue("stores", 1)
	own := stacktest.New(t)
	nats, etcd := freeAddress(t), freeAddress(t)
	s.child("nats", nats, "--monitor", freeAddress(t), "--user", storeUser, "--password", storePassword)
	s.child("etcd", etcd, "--peer", freeAddress(t))
	s.environ = map[string]string{
		"SECKILL_REDIS_URL":      s.redis(own.RedisURL()),
		"SECKILL_POSTGRES_URL":   s.postgres(own.PostgresURL()),
		"SECKILL_NATS_URL":       fmt.Sprintf("tls://%s:%s@%s", storeUser, storePassword, nats),
		"SECKILL_ETCD_ENDPOINTS": "https://" + etcd, "SECKILL_ETCD_USER": storeUser, "SECKILL_ETCD_PASSWORD": storePassword,
		"SECKILL_STORES_TLS_CA": s.ca.path,
		"SECKILL_NAMESPACE":     "secured", "SECKILL_LOCK_TTL": "2s", "SECKILL_AUTH_MODE": "header",
		"SECKILL_HTTP_ADDR": "127.0.0.1:0", "SECKILL_ADMIN_ADDR": "127.0.0.1:0", "SECKILL_ADMIN_TOKEN": "token-of-an-operator",
	}
	s.etcdUsers(etcd)
	return s
}

// with is the configuration with some of it changed.
func (s *secured) with(changes map[string]string) (environ []string) {
	for name, value := range s.environ {
		if changed, ok := changes[name]; ok {
			value = changed
		}
		environ = append(environ, name+"="+value)
	}
	if backend, ok := changes["SECKILL_LOCK_BACKEND"]; ok {
		environ = append(environ, "SECKILL_LOCK_BACKEND="+backend)
	}
	return environ
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// child runs one server of the lab until the test ends.
func (s *secured) child(kind, address string, flags ...string) {
	s.t.Helper()
	lab, err := stacktest.Lab()
	if err != nil {
		s.t.Fatal(err)
	}
	args := append([]string{"server", kind, "--dir", s.t.TempDir(), "--name", "secured", "--listen", address, "--cert", s.cert, "--key", s.key}, flags...)
	cmd := exec.Command(lab, args...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

func (s *secured) trust() *tls.Config {
	return &tls.Config{RootCAs: s.ca.pool, MinVersion: tls.VersionTLS12}
}

// redis gives the server a port with TLS, and lets nobody in without a password.
func (s *secured) redis(plain string) (url string) {
	s.t.Helper()
	options, err := redis.ParseURL(plain)
	if err != nil {
		s.t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	address := freeAddress(s.t)
	_, port, _ := net.SplitHostPort(address)
	for _, command := range [][]any{
		{"config", "set", "tls-cert-file", s.cert, "tls-key-file", s.key, "tls-ca-cert-file", s.ca.path, "tls-auth-clients", "no", "tls-port", port},
		{"acl", "setuser", storeUser, "on", ">" + storePassword, "~*", "&*", "+@all"},
		{"acl", "setuser", "default", "off"},
	} {
		if err := client.Do(s.t.Context(), command...).Err(); err != nil {
			s.t.Fatalf("redis %v: %v", command[:2], err)
		}
	}
	return fmt.Sprintf("rediss://%s:%s@%s", storeUser, storePassword, address)
}

// postgres turns TLS on, and lets nobody in over it without a password.
func (s *secured) postgres(plain string) (url string) {
	s.t.Helper()
	ctx := s.t.Context()
	db, err := pgx.Connect(ctx, plain)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	var rules string
	if err := db.QueryRow(ctx, `show hba_file`).Scan(&rules); err != nil {
		s.t.Fatal(err)
	}
	folder := filepath.Dir(rules)
	for from, to := range map[string]string{s.cert: "tls.pem", s.key: "tls-key.pem"} {
		s.give(from, filepath.Join(folder, to), rules)
	}
	if err := os.WriteFile(rules, []byte("hostssl all "+storeUser+" 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	for _, statement := range []string{
		`create role ` + storeUser + ` superuser login password '` + storePassword + `'`,
		`alter system set ssl_cert_file = 'tls.pem'`, `alter system set ssl_key_file = 'tls-key.pem'`, `alter system set ssl = on`,
		`select pg_reload_conf()`,
	} {
		if _, err := db.Exec(ctx, statement); err != nil {
			s.t.Fatal(err)
		}
	}
	address := fmt.Sprint(db.Config().Host, ":", db.Config().Port)
	return fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=verify-full", storeUser, storePassword, address)
}

// give copies a file for whoever owns another one.
func (s *secured) give(from, to, like string) {
	s.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	owner, statErr := os.Stat(like)
	if err != nil || statErr != nil {
		s.t.Fatal(err, statErr)
	}
	if sys, ok := owner.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := os.Chown(to, int(sys.Uid), int(sys.Gid)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// etcdUsers turns credentials on.
func (s *secured) etcdUsers(address string) {
	s.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + address}, TLS: s.trust(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	eventually(s.t, "etcd answers", func() (bool, string) {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
		defer cancel()
		_, err := client.Get(ctx, "x")
		return err == nil, fmt.Sprint(err)
	})
	for _, user := range []string{"root", storeUser} {
		if _, err := client.UserAdd(s.t.Context(), user, storePassword); err != nil {
			s.t.Fatal(err)
		}
		if _, err := client.UserGrantRole(s.t.Context(), user, "root"); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := client.AuthEnable(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// A whole sale over TLS with credentials, with the leases in either store; then, with a
// password or an authority that is wrong, one line says which store refuses, and what it says holds no password.
func TestStoresOverTLSWithCredentials(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for _, backend := range []string{backendEtcd, backendRedis} {
		i := &installed{t: t, namespace: "secured_" + backend}
		i.environ = s.with(map[string]string{"SECKILL_LOCK_BACKEND": backend, "SECKILL_NAMESPACE": i.namespace})
		i.must(exitDone, "migrate", "--yes")
		i.must(exitDone, "activity", "apply", "--yes", "-f", write(t, "activity: spring\nskus:\n- {sku: s1, total: 9, limit_per_user: 9}\n"))
		i.must(exitDone, "activity", "open", "spring", "--yes")
		serving := i.serve()
		if got := serving.order("spring", "ann", `{"sku":"s1"}`); got.status != 202 {
			t.Errorf("%s: %d %s", backend, got.status, got.body)
		}
		var report consumer.Report
		i.answer(&report, "audit", "--wait", "30s")
		if !report.OK || !report.AtRest || report.Activities[0].SKUs[0].Live != 1 {
			t.Errorf("%s: audit: %+v", backend, report)
		}
		if got := i.must(exitDone, "config", "print"); strings.Contains(got.stdout+got.stderr, storePassword) {
			t.Error("config print shows a password")
		}
		if code := serving.stop(); code != exitDone || strings.Contains(serving.stderr.String(), storePassword) {
			t.Errorf("%s: serve ended with %d: %s", backend, code, serving.stderr)
		}
	}
	wrong := func(name string) string { return strings.Replace(s.environ[name], storePassword, wrongPassword, 1) }
	stranger := newAuthority(t)
	for name, c := range map[string]struct {
		changes map[string]string
		says    []string
	}{
		"Redis password":    {map[string]string{"SECKILL_REDIS_URL": wrong("SECKILL_REDIS_URL")}, []string{"Redis", "WRONGPASS", "SECKILL_REDIS_URL"}},
		"Postgres password": {map[string]string{"SECKILL_POSTGRES_URL": wrong("SECKILL_POSTGRES_URL")}, []string{"Postgres", "password authentication failed", "SECKILL_POSTGRES_URL"}},
		"NATS password":     {map[string]string{"SECKILL_NATS_URL": wrong("SECKILL_NATS_URL")}, []string{"NATS", "Authorization", "SECKILL_NATS_URL"}},
		"etcd password":     {map[string]string{"SECKILL_ETCD_PASSWORD": wrongPassword}, []string{"etcd", "authentication failed", "SECKILL_ETCD_PASSWORD"}},
		"no TLS to Redis":   {map[string]string{"SECKILL_REDIS_URL": strings.Replace(s.environ["SECKILL_REDIS_URL"], "rediss:", "redis:", 1)}, []string{"Redis"}},
		"no TLS, Postgres":  {map[string]string{"SECKILL_POSTGRES_URL": strings.Replace(s.environ["SECKILL_POSTGRES_URL"], "verify-full", "disable", 1)}, []string{"Postgres"}},
		"authority":         {map[string]string{"SECKILL_STORES_TLS_CA": stranger.path}, []string{"Redis", "certificate"}},
		"server's name":     {map[string]string{"SECKILL_POSTGRES_URL": strings.Replace(s.environ["SECKILL_POSTGRES_URL"], "127.0.0.1", "localhost", 1)}, []string{"Postgres", "certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.changes["SECKILL_NAMESPACE"] = "secured_etcd"
			got := runWith(t, append(s.with(c.changes), "SECKILL_START_TIMEOUT=2s"), "serve")
			if got.code != exitFailed {
				t.Errorf("exit %d", got.code)
			}
			lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
			if len(lines) != 1 {
				t.Errorf("%d lines:\n%s", len(lines), got.stderr)
			}
			for _, words := range c.says {
				if !strings.Contains(got.stderr, words) {
					t.Errorf("it does not say %q: %s", words, got.stderr)
				}
			}
			if strings.Contains(got.stderr, wrongPassword) || strings.Contains(got.stderr, storePassword) {
				t.Errorf("a password is shown: %s", got.stderr)
			}
			t.Log(got.stderr)
		})
	}
}
