// Command seckill takes the orders of flash sales and settles them: no unit
// sold twice, no accepted order lost, none left unsold.
//
// One binary holds everything that ships. `seckill serve` runs the service,
// the other subcommands look after it, working on the stores directly. Data
// goes to standard output, words to standard error; it ends with 0 done,
// 1 failed, 2 wrong usage, 3 done but a law does not hold.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run ends the context on the first signal and gives the second one back its
// default effect, so that an impatient operator is not kept waiting by a drain.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return newProgram(os.Environ).Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
