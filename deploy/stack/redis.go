package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

type redisProgram struct {
	path string
	dir  string
	port int
}

func findRedis() (string, error) {
	for _, candidate := range []string{"redis-server", "/usr/local/bin/redis-server", "/opt/homebrew/bin/redis-server"} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", missing("redis-server", "redis-server", "redis")
}

func (p *redisProgram) name() string               { return Redis }
func (p *redisProgram) address() string            { return loopback(p.port) }
func (p *redisProgram) stopSignal() syscall.Signal { return syscall.SIGTERM }
func (p *redisProgram) url() string                { return "redis://" + p.address() }

func (p *redisProgram) addresses() (err error) {
	p.port, err = freePort()
	return err
}

func (p *redisProgram) prepare(context.Context) error { return os.MkdirAll(p.dir, 0o755) }

// command runs the gate's Redis as an operator should: an append-only log synced
// every second, no snapshots, never a key thrown away for lack of memory, and the gate
// of a closed sale freed beside the work.
func (p *redisProgram) command() *exec.Cmd {
	return exec.Command(p.path,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port), "--dir", p.dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
		"--maxmemory-policy", "noeviction", "--lazyfree-lazy-expire", "yes", "--daemonize", "no", "--logfile", "")
}

// probe compares process ids. PING is asked too, because INFO is answered even while
// the data is being loaded.
func (p *redisProgram) probe(ctx context.Context, pid int) error {
	client := redis.NewClient(&redis.Options{
		Addr: p.address(), MaxRetries: -1, PoolSize: 1, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("the server on %s is not process %d", p.address(), pid)
	}
	return nil
}
