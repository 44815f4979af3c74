package lockprovider_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// memberVariable makes this test binary a member of an etcd cluster: name, folder,
// client URL, peer URL, and the whole cluster.
const memberVariable = "LOCKTEST_MEMBER"

// memberMain runs a member, if this process was started as one.
func memberMain() bool {
	text := os.Getenv(memberVariable)
	if text == "" {
		return false
	}
	f := strings.Fields(text)
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster = f[0], f[1], f[4]
	client, _ := url.Parse(f[2])
	peer, _ := url.Parse(f[3])
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.LogLevel, cfg.LogOutputs, cfg.UnsafeNoFsync = "panic", []string{os.DevNull}, true
	if _, err := embed.StartEtcd(cfg); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
	return true
}

// member is an etcd process of a cluster.
type member struct {
	t       *testing.T
	address string
	text    string
	cmd     *exec.Cmd
}

func (m *member) start() {
	m.t.Helper()
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), memberVariable+"="+m.text)
	_, err := m.cmd.StdinPipe()
	must(m.t, err)
	must(m.t, m.cmd.Start())
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// members starts a cluster of two, of which one alone is a minority.
func members(t *testing.T) (a, b *member) {
	t.Helper()
	var at [4]string
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { _ = l.Close() }()
		at[i] = l.Addr().String()
	}
	all := "a=http://" + at[1] + ",b=http://" + at[3]
	a = &member{t: t, address: at[0], text: strings.Join([]string{"a", t.TempDir(), "http://" + at[0], "http://" + at[1], all}, " ")}
	b = &member{t: t, address: at[2], text: strings.Join([]string{"b", t.TempDir(), "http://" + at[2], "http://" + at[3], all}, " ")}
	return a, b
}

// TestEtcdMinority is case K5: a member that has lost the majority answers in bounds, and
// not with a lock; the holder stops at its deadline, and all is well with the majority.
func TestEtcdMinority(t *testing.T) {
	t.Parallel()
	a, b := members(t)
	for _, m := range []*member{a, b} {
		m.start()
		t.Cleanup(func() { m.kill() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const ttl = 2 * time.Second
	p, err := lockprovider.Open(ctx, lockprovider.Config{
		Backend: "etcd", EtcdEndpoints: []string{a.address}, Namespace: stacktest.Namespace(t), TTL: ttl,
		Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(func() {
		end, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = p.Close(end)
	})
	held, err := p.Acquire(ctx, "held") // waits until the cluster has a leader
	must(t, err)
	for range 2 { // whoever leads at first
		b.kill()
		began := time.Now()
		if _, err := p.TryAcquire(ctx, "n"); !errors.Is(err, lockprovider.ErrUnavailable) {
			t.Errorf("try in the minority: %v", err)
		}
		if _, err := p.Acquire(ctx, "n", lockprovider.WithWait(time.Second)); !errors.Is(err, lockprovider.ErrUnavailable) {
			t.Errorf("acquire in the minority: %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the answers took %v", took)
		}
		select {
		case <-held.Context().Done():
		case <-time.After(held.TTL() + 10*time.Second):
			t.Fatal("the holder was not told")
		}
		if err := held.Err(); !errors.Is(err, lockprovider.ErrLost) {
			t.Errorf("the holder: %v", err)
		}
		b.start()
		next, err := p.Acquire(ctx, "held")
		must(t, err)
		if next.Token() <= held.Token() {
			t.Errorf("token %d after %d", next.Token(), held.Token())
		}
		held = next
	}
	must(t, held.Verify(ctx))
}
