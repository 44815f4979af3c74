package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"seckill/deploy/stack"
)

// stand is the four servers and one service beside them, all on free loopback ports, with everything they write
// in one temporary folder.
type stand struct {
	dir     string
	servers *stack.Stack
	serving *service // nil: none was asked for
}

// openServers starts the servers alone.
func openServers(ctx context.Context, words io.Writer) (*stand, error) {
	dir, err := os.MkdirTemp("", "seckill-run-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the servers: %w", err)
	}
	s := &stand{dir: dir}
	if err := os.Chmod(dir, 0o711); err != nil { // as root, the user that runs Postgres passes through
		return nil, errors.Join(err, s.close())
	}
	fmt.Fprintf(words, "starting Redis, Postgres, NATS and etcd in %s\n", dir)
	lab, err := os.Executable()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find this program: %w", err), s.close())
	}
	if s.servers, err = stack.Open(ctx, stack.Config{Dir: dir, Lab: lab, Scratch: true}); err != nil {
		return nil, errors.Join(fmt.Errorf("start the servers: %w", err), s.close())
	}
	return s, nil
}

// openStand starts the servers and the service. Further environment goes over what the stack says.
func openStand(ctx context.Context, words io.Writer, program, lock string, env ...string) (*stand, error) {
	s, err := openServers(ctx, words)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(words, "starting the service, leases in %s\n", lock)
	if s.serving, err = s.serve(ctx, program, lock, env...); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// serve starts one more service on the stand's servers. Who calls stops it.
func (s *stand) serve(ctx context.Context, program, lock string, env ...string) (*service, error) {
	log, err := os.CreateTemp(s.dir, "seckill-*.log")
	if err != nil {
		return nil, fmt.Errorf("serve: create its log: %w", err)
	}
	_ = log.Close()
	serving, err := startService(ctx, program, append(s.servers.Env(lock), env...), log.Name())
	if err != nil {
		return nil, err
	}
	serving.token, serving.paymentKey = s.servers.AdminToken(), s.servers.PaymentKey()
	return serving, nil
}

// close stops everything and removes the folder.
func (s *stand) close() (err error) {
	if s.serving != nil {
		err = s.serving.stop()
	}
	if s.servers != nil {
		err = errors.Join(err, s.servers.Close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
