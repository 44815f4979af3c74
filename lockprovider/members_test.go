package lockprovider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
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
	_, err := embed.StartEtcd(cfg)
	for end := time.Now().Add(startLimit); err != nil && strings.Contains(err.Error(), "address already in use") && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond) // somebody's outgoing connection has the port
		_, err = embed.StartEtcd(cfg)
	}
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
	return true
}

// member is an etcd process of a cluster.
type member struct {
	address string
	text    string
	cmd     *exec.Cmd
}

func (m *member) start() error {
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), memberVariable+"="+m.text)
	if _, err := m.cmd.StdinPipe(); err != nil {
		return err
	}
	return m.cmd.Start()
}

func (m *member) kill() error {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	return nil
}

// members is a cluster of processes. It is a locktest.Server whose faults hit the leader
// of the moment.
type members struct {
	all []*member
	hit *member // by a fault that is not over
}

// startMembers starts a cluster of n that ends with the test.
func startMembers(t *testing.T, n int) *members {
	t.Helper()
	at := make([]string, 2*n)
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { _ = l.Close() }()
		at[i] = l.Addr().String()
	}
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("m%d=http://%s", i, at[n+i])
	}
	c := &members{}
	for i := range n {
		m := &member{address: at[i], text: fmt.Sprintf("m%d %s http://%s http://%s %s", i, t.TempDir(), at[i], at[n+i], strings.Join(all, ","))}
		c.all = append(c.all, m)
	}
	for _, m := range c.all {
		must(t, m.start())
		t.Cleanup(func() { _ = m.kill() })
	}
	return c
}

// Address lists the addresses of all members.
func (c *members) Address() string { return strings.Join(c.addresses(), ",") }

func (c *members) addresses() (all []string) {
	for _, m := range c.all {
		all = append(all, m.address)
	}
	return all
}

// leader waits until there is one.
func (c *members) leader() (*member, error) {
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, m := range c.all {
			if m.leads() {
				return m, nil
			}
		}
	}
	return nil, errors.New("the cluster has no leader")
}

// status is a member's own answer; nil if it does not answer.
func (m *member) status() *clientv3.StatusResponse {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.address}, DialTimeout: time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := client.Status(ctx, m.address)
	if err != nil {
		return nil
	}
	return s
}

func (m *member) leads() bool {
	s := m.status()
	return s != nil && s.Leader != 0 && s.Leader == s.Header.MemberId
}

// fault hits the leader.
func (c *members) fault(do func(*member) error) error {
	m, err := c.leader()
	if err != nil {
		return err
	}
	c.hit = m
	return do(m)
}

// back waits until the member that was hit follows or leads again.
func (c *members) back(do func(*member) error) error {
	m := c.hit
	if m == nil {
		return nil
	}
	c.hit = nil
	if err := do(m); err != nil {
		return err
	}
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s := m.status(); s != nil && s.Leader != 0 {
			return nil
		}
	}
	return fmt.Errorf("member %s does not come back", m.address)
}

// Kill kills the leader with -9.
func (c *members) Kill() error { return c.fault((*member).kill) }

// Stop is Kill: a cluster has no order to stop in.
func (c *members) Stop() error { return c.Kill() }

// Start brings back the member that was killed.
func (c *members) Start() error { return c.back((*member).start) }

// Pause stops the leader's process.
func (c *members) Pause() error {
	return c.fault(func(m *member) error { return m.cmd.Process.Signal(syscall.SIGSTOP) })
}

// Resume lets the member that was paused go on.
func (c *members) Resume() error {
	return c.back(func(m *member) error { return m.cmd.Process.Signal(syscall.SIGCONT) })
}
