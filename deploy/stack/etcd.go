package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

type etcdProgram struct {
	lab      string
	dir      string
	identity string
	port     int
	peerPort int
}

func (p *etcdProgram) name() string               { return Etcd }
func (p *etcdProgram) address() string            { return loopback(p.port) }
func (p *etcdProgram) stopSignal() syscall.Signal { return syscall.SIGTERM }

func (p *etcdProgram) addresses() (err error) { return pickPorts(&p.port, &p.peerPort) }

// prepare wants 0700, which etcd asks for.
func (p *etcdProgram) prepare(context.Context) error { return os.MkdirAll(p.dir, 0o700) }

func (p *etcdProgram) command() *exec.Cmd {
	return exec.Command(p.lab, "server", "etcd", "--dir", p.dir, "--name", p.identity,
		"--listen", loopback(p.port), "--peer", loopback(p.peerPort))
}

// probe reads through consensus, which a member without a leader cannot do.
func (p *etcdProgram) probe(ctx context.Context, _ int) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{p.address()}, DialTimeout: probeTimeout, Context: ctx, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Get(ctx, "seckill-stack-probe"); err != nil {
		return err
	}
	members, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	if len(members.Members) != 1 || members.Members[0].Name != p.identity {
		return fmt.Errorf("the server on %s is another stack's", p.address())
	}
	return nil
}
