// Command seckill-lab runs the local stack, load and faults against the system. It
// is for development and tests and never ships.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line. The first SIGINT or SIGTERM asks the command to end
// in order, the second ends the process at once.
func execute(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := rootCommand()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "seckill-lab:", err)
		var exit exitError
		if errors.As(err, &exit) {
			return exit.status
		}
		return 1
	}
	return 0
}

// exitError ends the program with a status of its own: 3 is done, but a law does not
// hold.
type exitError struct {
	status int
	error
}

func (e exitError) Unwrap() error { return e.error }

// subcommands is filled by the init function of each subcommand's file. main.go and
// server.go make a program of their own: the tests' stack builds just these two, so
// that a change in a package under test does not mean linking NATS and etcd again.
var subcommands []func() *cobra.Command

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "seckill-lab",
		Short:         "Local stack, load and faults for the flash-sale system",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, subcommand := range subcommands {
		root.AddCommand(subcommand())
	}
	return root
}
