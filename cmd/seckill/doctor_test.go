package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"seckill/deploy/stack/stacktest"
)

// diagnosed runs seckill doctor and reads its JSON.
func (i *installed) diagnosed(code int, env ...string) diagnosis {
	i.t.Helper()
	got := runWith(i.t, append(append([]string{}, i.environ...), env...), "doctor", "--output", "json")
	var d diagnosis
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil || got.code != code {
		i.t.Fatalf("doctor ended with %d, want %d (%v): %s%s", got.code, code, err, got.stdout, got.stderr)
	}
	if token := stacktest.Get(i.t).AdminToken(); strings.Contains(got.stdout+got.stderr, token) {
		i.t.Errorf("doctor prints the admin token: %s", got.stdout)
	}
	return d
}

func (d diagnosis) of(store, name string) check {
	i := slices.IndexFunc(d.Checks, func(c check) bool { return c.Store == store && c.Name == name })
	if i < 0 {
		return check{}
	}
	return d.Checks[i]
}

// taken waits until a worker has taken every partition, which makes its consumer.
func (i *installed) taken() {
	i.t.Helper()
	eventually(i.t, "every partition has its consumer", func() (bool, string) {
		got := runWith(i.t, i.environ, "doctor", "--output", "json")
		var d diagnosis
		err := json.Unmarshal([]byte(got.stdout), &d)
		return err == nil && d.of("nats", "consumers").Result == resultOK, got.stdout + got.stderr
	})
}

// startLazyNATS starts a server of its own with the sync interval that NATS has by
// default.
func startLazyNATS(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "lazy", Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 40, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start() // ends with Shutdown
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("NATS is not ready within 30s")
	}
	return s
}

// NATS was started with its default sync interval: doctor and the start-up log of
// serve say what a 202 is then worth.
func TestCase33DefaultSyncInterval(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	lazy := startLazyNATS(t)
	monitor := "SECKILL_NATS_MONITOR_URL=http://" + lazy.MonitorAddr().String()
	i.environ = append(i.environ, "SECKILL_NATS_URL="+lazy.ClientURL(), monitor, "SECKILL_LOG_MAX_BYTES=1MiB")
	s := i.serve()
	if log := s.stderr.String(); !strings.Contains(log, "every 2m0s") || !strings.Contains(log, "power cut") || !strings.Contains(log, "sync_interval: always") {
		t.Errorf("the start-up log does not say what a 202 is worth: %s", log)
	}
	i.taken()
	worth := i.diagnosed(exitFinding).of("nats", "order log on disk")
	if worth.Result != resultFinding || worth.Severity != serious || !strings.Contains(worth.Breaks, "G3") ||
		!strings.Contains(worth.Breaks, "last 2m0s") || !strings.Contains(worth.Mend, "sync_interval: always") {
		t.Errorf("doctor: %+v", worth)
	}
	got := i.must(exitFinding, "doctor")
	if !strings.Contains(got.stdout, "serious: nats, order log on disk") || !strings.Contains(got.stdout, "\nnext: jetstream { sync_interval: always }") {
		t.Errorf("doctor for people: %s", got.stdout)
	}

	// Without the monitoring address, or with another server's, nobody can tell.
	blind := i.diagnosed(exitDone, "SECKILL_NATS_MONITOR_URL=")
	if c := blind.of("nats", "order log on disk"); c.Result != resultUnknown || !strings.Contains(c.Mend, "SECKILL_NATS_MONITOR_URL=") || !blind.OK {
		t.Errorf("without a monitoring address: %+v", c)
	}
	other := i.diagnosed(exitDone, "SECKILL_NATS_MONITOR_URL="+stacktest.Get(t).NATSMonitorURL())
	if c := other.of("nats", "order log on disk"); c.Result != resultUnknown || !strings.Contains(c.Found, "the log is on lazy") {
		t.Errorf("with another server's monitoring address: %+v", c)
	}
	i.environ = append(i.environ, "SECKILL_NATS_MONITOR_URL=")
	if log := i.serve().stderr.String(); !strings.Contains(log, "cannot be told") || strings.Contains(log, "what a 202 is worth: ") {
		t.Errorf("start without a monitoring address: %s", log)
	}
}

// On servers as they should be nothing is found, and a start warns of nothing.
func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_LOG_MAX_BYTES=1MiB")
	early := i.diagnosed(exitDone)
	if c := early.of("nats", "order log"); c.Result != resultUnknown || !strings.Contains(c.Mend, "seckill serve") {
		t.Errorf("before the first start: %+v", c)
	}
	s := i.serve()
	if log := s.stderr.String(); strings.Contains(log, "202") {
		t.Errorf("start: %s", log)
	}
	i.taken()
	if got := i.must(exitDone, "doctor"); !strings.Contains(got.stdout, ", 0 findings, 0 unknown") || strings.Contains(got.stdout, "next:") {
		t.Errorf("doctor: %s", got.stdout)
	}
}

// Without any store there is nothing to say, and one that is away is a finding.
func TestDoctorStoresAway(t *testing.T) {
	t.Parallel()
	i := newInstalled(t, "etcd")
	d := i.diagnosed(exitFinding, "SECKILL_REDIS_URL=redis://:geheim@127.0.0.1:1")
	if c := d.of("redis", "reachable"); c.Severity != serious || !strings.Contains(c.Mend, "SECKILL_REDIS_URL") {
		t.Errorf("Redis away: %+v", c)
	}
	got := runWith(t, append(append([]string{}, i.environ...), "SECKILL_REDIS_URL=redis://127.0.0.1:1", "SECKILL_NATS_URL=nats://127.0.0.1:1",
		"SECKILL_POSTGRES_URL=postgres://u:geheim@127.0.0.1:1/x", "SECKILL_ETCD_ENDPOINTS=127.0.0.1:1", "SECKILL_START_TIMEOUT=2s"), "doctor")
	if got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, "SECKILL_NATS_URL") || strings.Contains(got.stderr, "geheim") {
		t.Errorf("all away: exit %d, %q, %q", got.code, got.stdout, got.stderr)
	}
}

// Every judgement, on what a server says that is not as it should be.
func TestDoctorJudges(t *testing.T) {
	t.Parallel()
	for name, tc := range judgements() {
		out := &checks{store: "x"}
		tc.judge(out)
		var got []string
		for _, c := range out.list {
			if c.Result == resultFinding {
				got = append(got, string(c.Severity))
			}
			if c.Result != resultOK && (c.Found == "" || c.Mend == "" || c.Result == resultFinding && c.Breaks == "") {
				t.Errorf("%s: incomplete: %+v", name, c)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: found %q, want %q: %+v", name, got, tc.want, out.list)
		}
	}
	if d := diagnose([]*checks{}); !d.OK || d.Next != "" {
		t.Errorf("nothing looked at: %+v", d)
	}
	out := &clockReadings{}
	out.read("Redis", func() (int64, error) { return 0, errors.New("gone") })
	seen := &checks{}
	lookAtClocks(out, seen)
	if seen.list[0].Result != resultUnknown {
		t.Errorf("a clock that cannot be read: %+v", seen.list)
	}
}
