package stack_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"seckill/deploy/stack"
)

// store keeps words in one of the servers, each call on a connection of its own.
type store struct {
	write func(ctx context.Context, word string) error
	holds func(ctx context.Context, word string) (bool, error)
}

func (s store) put(ctx context.Context, t *testing.T, word string) {
	t.Helper()
	if err := s.write(ctx, word); err != nil {
		t.Fatalf("write %q: %v", word, err)
	}
}

func (s store) mustHold(ctx context.Context, t *testing.T, word string) {
	t.Helper()
	if held, err := s.holds(ctx, word); err != nil || !held {
		t.Fatalf("%q was written and is not there: %v, %v", word, held, err)
	}
}

func storeOf(servers *stack.Stack, name string) store {
	return map[string]func(*stack.Stack) store{
		stack.Redis: redisStore, stack.Postgres: postgresStore, stack.NATS: natsStore, stack.Etcd: etcdStore,
	}[name](servers)
}

func redisStore(servers *stack.Stack) store {
	open := func() *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: servers.Address(stack.Redis), MaxRetries: -1, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
	return store{
		write: func(ctx context.Context, word string) error {
			c := open()
			defer c.Close()
			return c.Set(ctx, word, "1", 0).Err()
		},
		holds: func(ctx context.Context, word string) (bool, error) {
			c := open()
			defer c.Close()
			n, err := c.Exists(ctx, word).Result()
			return n == 1, err
		},
	}
}

func postgresStore(servers *stack.Stack) store {
	with := func(ctx context.Context, do func(*pgx.Conn) error) error {
		conn, err := pgx.Connect(ctx, servers.PostgresURL())
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return do(conn)
	}
	return store{
		write: func(ctx context.Context, word string) error {
			return with(ctx, func(c *pgx.Conn) error {
				if _, err := c.Exec(ctx, "CREATE TABLE IF NOT EXISTS words (word text)"); err != nil {
					return err
				}
				_, err := c.Exec(ctx, "INSERT INTO words VALUES ($1)", word)
				return err
			})
		},
		holds: func(ctx context.Context, word string) (held bool, err error) {
			err = with(ctx, func(c *pgx.Conn) error {
				return c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM words WHERE word = $1)", word).Scan(&held)
			})
			return held, err
		},
	}
}

func natsStore(servers *stack.Stack) store {
	with := func(do func(jetstream.JetStream) error) error {
		conn, err := nats.Connect(servers.NATSURL(), nats.NoReconnect(), nats.Timeout(300*time.Millisecond))
		if err != nil {
			return err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		return do(js)
	}
	return store{
		write: func(ctx context.Context, word string) error {
			return with(func(js jetstream.JetStream) error {
				if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "WORDS", Subjects: []string{"words.>"}, MaxBytes: 8 << 30}); err != nil {
					return err
				}
				_, err := js.Publish(ctx, "words."+word, nil)
				return err
			})
		},
		holds: func(ctx context.Context, word string) (bool, error) {
			err := with(func(js jetstream.JetStream) error {
				stream, err := js.Stream(ctx, "WORDS")
				if err != nil {
					return err
				}
				_, err = stream.GetLastMsgForSubject(ctx, "words."+word)
				return err
			})
			return err == nil, err
		},
	}
}

func etcdStore(servers *stack.Stack) store {
	with := func(ctx context.Context, do func(*clientv3.Client) error) error {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{servers.EtcdEndpoint()}, Context: ctx, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		defer client.Close()
		return do(client)
	}
	return store{
		write: func(ctx context.Context, word string) error {
			return with(ctx, func(c *clientv3.Client) error { _, err := c.Put(ctx, word, "1"); return err })
		},
		holds: func(ctx context.Context, word string) (held bool, err error) {
			err = with(ctx, func(c *clientv3.Client) error {
				got, err := c.Get(ctx, word)
				held = err == nil && len(got.Kvs) == 1
				return err
			})
			return held, err
		},
	}
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// sharedMemory is the id of the segment that a running Postgres notes in its folder.
func sharedMemory(t *testing.T, data string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(strings.Split(string(text), "\n")[6])
	if len(fields) != 2 {
		t.Fatalf("no shared memory in postmaster.pid:\n%s", text)
	}
	return fields[1]
}

// segmentExists can look only where the kernel lists segments in /proc.
func segmentExists(t *testing.T, id string) bool {
	t.Helper()
	if !procExists() {
		return false
	}
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == id {
			return true
		}
	}
	return false
}

func procExists() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func itoa(n int) string { return strconv.Itoa(n) }
