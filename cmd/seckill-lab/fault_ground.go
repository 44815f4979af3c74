package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"seckill/deploy/stack"
)

// ground is the servers that scenarios run on, one after the other, each in a namespace of its own. It starts
// them when they are needed and leaves nothing behind.
type ground struct {
	program string
	dir     string
	servers *stack.Stack
	unmount func() error // of a small file system under NATS
	fields  int
}

// enter makes the servers run.
func (g *ground) enter(ctx context.Context) error {
	if g.servers != nil {
		return nil
	}
	if err := g.folder(); err != nil {
		return err
	}
	lab, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	g.servers, err = stack.Open(ctx, stack.Config{Dir: filepath.Join(g.dir, "stack"), Lab: lab, Scratch: g.unmount == nil})
	if err != nil {
		g.servers = nil
		return errors.Join(fmt.Errorf("start the servers: %w", err), g.leave())
	}
	return nil
}

func (g *ground) folder() error {
	if g.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "seckill-fault-")
	if err != nil {
		return fmt.Errorf("make a folder for the servers: %w", err)
	}
	g.dir = dir
	return os.Chmod(dir, 0o711) // as root, the user that runs Postgres passes through
}

// small gives NATS a small file system of its own, on servers that are started for it.
func (g *ground) small(ctx context.Context) error {
	if err := errors.Join(g.leave(), g.folder()); err != nil {
		return err
	}
	unmount, err := mountSmall(filepath.Join(g.dir, "stack", stack.NATS))
	if err != nil {
		return err
	}
	g.unmount = unmount
	return nil
}

// leave stops the servers and removes their folder.
func (g *ground) leave() error {
	var err error
	if g.servers != nil {
		err = g.servers.Close()
		g.servers = nil
	}
	if g.unmount != nil {
		err = errors.Join(err, g.unmount())
		g.unmount = nil
	}
	if g.dir != "" {
		err = errors.Join(err, os.RemoveAll(g.dir))
		g.dir = ""
	}
	if err != nil {
		return fmt.Errorf("leave the servers: %w", err)
	}
	return nil
}

// namespace is one that nobody has used on these servers.
func (g *ground) namespace() string {
	g.fields++
	return fmt.Sprintf("fault%d", g.fields)
}

func (g *ground) logs(o *outcome) string {
	return filepath.Join(g.dir, fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(o.scenario.name, "+", "-"), o.lock, o.round))
}
