package lockprovider_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/lockprovider"
	"seckill/lockprovider/locktest"
)

// TestRedisCluster runs the cases that need no proxy against a Redis in cluster mode:
// keys stay within one slot, and sharded channels wake waiters and evict holders.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	h := harness(t, "redis")
	h.Address = cluster(t)
	h.Adjust = func(cfg *lockprovider.Config) { cfg.RedisURL += "," + cfg.RedisURL } // two addresses mean a cluster
	for _, id := range []string{"A1", "A5", "A7", "B1", "B2", "C1", "C4", "C5", "C14", "D4", "E1", "E2", "F1", "H1", "H2", "I1"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			locktest.RunOne(t, h, id)
		})
	}
}

// node is one Redis of a test's own.
type node struct {
	address string
	port    int
	client  *redis.Client
	process *exec.Cmd
}

func clusterNode(t *testing.T) node {
	t.Helper()
	return redisNode(t, nil, "--cluster-enabled", "yes")
}

// redisNode starts a Redis that keeps nothing on disk and ends with the test. If another
// process takes the port in between it tries another one.
func redisNode(t *testing.T, environ []string, more ...string) node {
	t.Helper()
	for end := time.Now().Add(startLimit); time.Now().Before(end); {
		n := startRedis(t, environ, more)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = n.process.Wait()
		}()
		t.Cleanup(func() { _ = n.process.Process.Kill(); <-gone })
		if n.answers(gone, end) {
			t.Cleanup(func() { _ = n.client.Close() })
			return n
		}
		_ = n.client.Close()
	}
	t.Fatal("a Redis does not answer")
	return node{}
}

func startRedis(t *testing.T, environ, more []string) node {
	t.Helper()
	address, port := busPort(t)
	cmd := exec.Command("redis-server", append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--dir", t.TempDir()}, more...)...)
	cmd.Env = append(os.Environ(), environ...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a Redis (install redis-server): %v", err)
	}
	return node{address, port, redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1}), cmd}
}

// answers waits until this very process answers; false if it has ended.
func (n node) answers(gone <-chan struct{}, end time.Time) bool {
	for time.Now().Before(end) {
		info, err := n.client.Info(context.Background(), "server").Result()
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", n.process.Process.Pid)) {
			return true
		}
		select {
		case <-gone:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// cluster starts one Redis that owns all slots and returns its address.
func cluster(t *testing.T) string {
	t.Helper()
	n := clusterNode(t)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = n.client.ClusterAddSlotsRange(ctx, 0, 16383).Err() // an error once they are ours
		info, err := n.client.ClusterInfo(ctx).Result()
		cancel()
		if err == nil && len(info) > 16 && info[:16] == "cluster_state:ok" {
			return n.address
		}
		if time.Now().After(end) {
			t.Fatalf("the cluster is not ready: %q, %v", info, err)
		}
	}
}

// busPort finds a free port whose cluster bus, 10000 above, is free too.
func busPort(t *testing.T) (address string, port int) {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address, port = l.Addr().String(), l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		bus, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+10000))
		if err == nil {
			_ = bus.Close()
			return address, port
		}
	}
	t.Fatal("no port with a free cluster bus")
	return "", 0
}
