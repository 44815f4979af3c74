package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type natsProgram struct {
	lab         string
	dir         string
	identity    string
	port        int
	monitorPort int
}

func (p *natsProgram) name() string               { return NATS }
func (p *natsProgram) address() string            { return loopback(p.port) }
func (p *natsProgram) stopSignal() syscall.Signal { return syscall.SIGTERM }
func (p *natsProgram) url() string                { return "nats://" + p.address() }
func (p *natsProgram) monitorURL() string         { return "http://" + loopback(p.monitorPort) }

func (p *natsProgram) addresses() (err error) { return pickPorts(&p.port, &p.monitorPort) }

func (p *natsProgram) prepare(context.Context) error { return os.MkdirAll(p.dir, 0o755) }

func (p *natsProgram) command() *exec.Cmd {
	return exec.Command(p.lab, "server", "nats", "--dir", p.dir, "--name", p.identity,
		"--listen", loopback(p.port), "--monitor", loopback(p.monitorPort))
}

func (p *natsProgram) probe(ctx context.Context, _ int) error {
	conn, err := nats.Connect(p.url(), nats.NoReconnect(), nats.Timeout(probeTimeout))
	if err != nil {
		return err
	}
	defer conn.Close()
	if name := conn.ConnectedServerName(); name != p.identity {
		return fmt.Errorf("the server on %s is another stack's, named %s", p.address(), name)
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		return err
	}
	_, err = js.AccountInfo(ctx)
	return err
}
