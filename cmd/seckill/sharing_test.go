package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill/lockprovider"
)

// bothBackends runs a test on each lock backend.
func bothBackends(t *testing.T, test func(t *testing.T, i *installation)) {
	t.Parallel()
	for _, backend := range []string{backendEtcd, backendRedis} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			test(t, newInstallation(t, backend))
		})
	}
}

// holders reads from the lock store which process holds how many partitions.
type holders struct {
	leases *lockprovider.Provider
}

func (i *installation) holders() *holders {
	i.t.Helper()
	leases, err := lockprovider.Open(i.t.Context(), lockprovider.Config{
		Backend: i.setting("SECKILL_LOCK_BACKEND"), Namespace: i.setting("SECKILL_NAMESPACE"), Instance: "observer",
		RedisURL: i.setting("SECKILL_REDIS_URL"), EtcdEndpoints: []string{i.setting("SECKILL_ETCD_ENDPOINTS")},
	})
	must(i.t, err)
	i.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = leases.Close(ctx)
	})
	return &holders{leases}
}

// counts is the number of partitions by process id.
func (h *holders) counts(ctx context.Context) map[string]int {
	n := map[string]int{}
	list, err := h.leases.List(ctx, "partition/")
	if err != nil {
		return n
	}
	for _, info := range list {
		// The note is the instance: host-pid-random.
		parts := strings.Split(info.Note, "-")
		n[parts[len(parts)-2]]++
	}
	return n
}

// evenly waits until the processes, and nobody else, hold all 16 partitions, evenly,
// and returns how long that took.
func (h *holders) evenly(t *testing.T, what string, processes ...*process) time.Duration {
	t.Helper()
	took := until(t, what, func() bool {
		n := h.counts(t.Context())
		for _, p := range processes {
			if share := n[fmt.Sprint(p.cmd.Process.Pid)]; share < 16/len(processes) || share > (16+len(processes)-1)/len(processes) {
				return false
			}
		}
		total := 0
		for _, share := range n {
			total += share
		}
		return total == 16 && len(n) == len(processes)
	})
	t.Logf("%s: evenly shared by %d after %v", what, len(processes), took.Round(time.Millisecond))
	return took
}

func within(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if took > bound {
		t.Errorf("%s took %v, promised is %v", what, took, bound)
	}
}

// Three processes share the partitions; in mid-sale one is killed and one is
// stopped. All partitions are held within the bounds, and the books are right.
func TestSharing(t *testing.T) {
	bothBackends(t, func(t *testing.T, i *installation) {
		const slack = time.Second // of two cores on which everything else runs too
		h := i.holders()
		first := i.serve()
		h.evenly(t, "the first starts", first)
		second := i.serve()
		within(t, "sharing after a join", h.evenly(t, "a second joins", first, second), 5*time.Second+slack)
		third := i.serve("SECKILL_ROLES=worker")
		within(t, "sharing after a join", h.evenly(t, "a third joins", first, second, third), 5*time.Second+slack)

		const stock = 2000
		i.open(first, stock)
		c := newCrowd(t, first)
		over := make(chan struct{})
		go func() {
			defer close(over)
			c.buy(stock + 500)
		}()
		until(t, "the sale goes on", func() bool { return c.answers.Load() >= 500 })
		third.kill()
		took := h.evenly(t, "one is killed in mid-sale", first, second)
		within(t, "taking over from a killed process", took, 2*time.Second+5*time.Second+slack)
		until(t, "the sale goes on", func() bool { return c.answers.Load() >= 1000 })

		second.signal(syscall.SIGTERM)
		took = h.evenly(t, "one is stopped in mid-sale", first)
		within(t, "taking over from a stopped process", took, time.Second+slack)
		<-second.ended
		if code := second.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the stopped process ended with %d, want 0", code)
		}
		<-over
		i.audit(stock)
		c.decided(i)
	})
}

// Configurations that do not belong to the installation refuse to start, and say
// what to do.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, backendEtcd)
	i.serve()
	for name, c := range map[string]struct {
		env  string
		want []string
	}{
		"other lock backend":   {"SECKILL_LOCK_BACKEND=redis", []string{"lock backend", "seckill lock switch"}},
		"other partitions":     {"SECKILL_PARTITIONS=8", []string{"partitions", "SECKILL_PARTITIONS=16"}},
		"unknown variable":     {"SECKILL_REDIS_ULR=x", []string{"SECKILL_REDIS_ULR"}},
		"bad value":            {"SECKILL_LOCK_TTL=1s", []string{"lock.ttl", "2s"}},
		"nobody authenticates": {"SECKILL_AUTH_MODE=", []string{"auth.mode"}},
		"Redis unreachable":    {"SECKILL_REDIS_URL=redis://127.0.0.1:1", []string{"Redis", "SECKILL_REDIS_URL"}},
		"NATS unreachable":     {"SECKILL_NATS_URL=nats://127.0.0.1:1", []string{"NATS", "SECKILL_NATS_URL"}},
		"Postgres unreachable": {"SECKILL_POSTGRES_URL=postgres://u:secret@127.0.0.1:1/x", []string{"Postgres", "SECKILL_POSTGRES_URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := &installation{t: t, servers: i.servers, env: append(append([]string{}, i.env...), c.env, "SECKILL_START_TIMEOUT=1s")}
			code, out, errs := other.run("serve")
			if code == 0 || out != "" {
				t.Errorf("ended with %d and printed %q", code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("%q does not name %s", errs, want)
				}
			}
			if strings.Contains(errs, "secret") || strings.Count(strings.TrimSpace(errs), "\n") > 0 {
				t.Errorf("not one clear line without a secret: %q", errs)
			}
		})
	}
}
