package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seckill/deploy/stack"
)

func init() { subcommands = append(subcommands, upCommand) }

const parentEvery = 200 * time.Millisecond // between two looks at who our parent is

func upCommand() *cobra.Command {
	var dir, lock string
	cmd := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Start Redis, Postgres, NATS and etcd on free loopback ports",
		Long: `Start Redis, Postgres, NATS and etcd on free loopback ports, with their data under
DIR. Prints "ready" when all of them answer, and stops them on Ctrl-C, SIGTERM, or
when the process that started this one dies.

  DIR/stack.env   configuration of "seckill serve": set -a; . DIR/stack.env
  DIR/NAME.pid    process ids of redis, postgres, nats and etcd
  DIR/NAME.log    what they say`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lock != "etcd" && lock != "redis" {
				return fmt.Errorf("up: --lock is %q: use etcd or redis", lock)
			}
			return up(cmd, dir, lock)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder for data, logs and pid files (required)")
	cmd.Flags().StringVar(&lock, "lock", "etcd", "lock backend written to stack.env: etcd or redis")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

func up(cmd *cobra.Command, dir, lock string) (err error) {
	// A dead parent may also have been the reader of our output; writing to it must
	// not end us before the servers are stopped.
	brokenPipe := make(chan os.Signal, 1)
	signal.Notify(brokenPipe, syscall.SIGPIPE)
	defer signal.Stop(brokenPipe)
	ctx, cancel := untilParentDies(cmd.Context())
	defer cancel()
	lab, err := os.Executable()
	if err != nil {
		return fmt.Errorf("up: find this program: %w", err)
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	servers, err := stack.Open(ctx, stack.Config{Dir: dir, Lab: lab, Log: log})
	if err != nil {
		return fmt.Errorf("up: %w", err)
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	if err := servers.WriteEnv(lock); err != nil {
		return fmt.Errorf("up: write stack.env: %w", err)
	}
	desk, err := openDesk(servers)
	if err != nil {
		return fmt.Errorf("up: %w", err)
	}
	defer desk.close()
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), "ready"); err != nil {
		return fmt.Errorf("up: say that the servers are ready: %w", err)
	}
	<-ctx.Done()
	return nil
}

// untilParentDies ends the context when the parent changes, which is how a process
// learns, on every system, that it has been orphaned.
func untilParentDies(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	ticker := time.NewTicker(parentEvery)
	go func() {
		defer ticker.Stop()
		defer cancel()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return ctx, cancel
}
