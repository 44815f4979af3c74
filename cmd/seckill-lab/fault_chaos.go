package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"seckill/deploy/stack"
)

func init() { subcommands = append(subcommands, newChaosCommand) }

// The sales of a chaos run: each goes on until it is sold out, however often somebody is killed meanwhile.
const (
	chaosUnits  = 6000
	chaosBuyers = 6400
	chaosRate   = 1000 // requests/s
	// killStage bounds each step of one kill; the servers' own start has a bound of its own.
	killStage = 90 * time.Second
)

type chaosOptions struct {
	kills    int
	lock     string
	locks    []string
	program  string
	seed     uint64
	report   string
	evidence string
}

func newChaosCommand() *cobra.Command {
	var o chaosOptions
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Random kills of processes and servers under load, sale after sale",
		Long: `Holds sale after sale while API, workers, Redis, NATS, etcd and Postgres, alone and
in pairs, are killed with -9 at random moments and started again. After each sale the
same laws as after seckill-lab fault. Ends when so many kills have been made.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.locks, err = locksOf(o.lock, "chaos"); err != nil {
				return err
			}
			if o.kills < 1 {
				return fmt.Errorf("chaos: --kills is %d: at least 1", o.kills)
			}
			if o.program, err = serviceProgram(o.program); err != nil {
				return err
			}
			return runChaos(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.kills, "kills", 200, "kills on each lock backend; a pair counts once")
	flags.StringVar(&o.lock, "lock", "both", "lock backend: etcd, redis or both")
	flags.StringVar(&o.program, "seckill", "", "the service's program (default: seckill beside this program)")
	flags.Uint64Var(&o.seed, "seed", 1, "the same one makes the same schedule")
	flags.StringVar(&o.report, "report", "", "write the report, as Markdown, to this file too")
	flags.StringVar(&o.evidence, "evidence", filepath.Join(os.TempDir(), "seckill-evidence"), "folder for the evidence of failures")
	return cmd
}

// killEvent is one kill of the schedule.
type killEvent struct {
	targets  []string
	progress int64         // orders that must be accepted after the last one; 0: do not wait, the last may not be over
	full     bool          // settlement is held until at least 500 orders are in flight
	after    time.Duration // and then so long
	downtime time.Duration
}

var chaosTargets = []string{api, worker, "worker-2", stack.Redis, stack.NATS, stack.Etcd, stack.Postgres}

// nextKill throws the dice. Two of three kills come when orders flow, so that they hit orders in flight; the
// third comes while the system is still getting up from the one before.
func nextKill(dice *rand.Rand) killEvent {
	k := killEvent{
		after:    time.Duration(50+dice.IntN(500)) * time.Millisecond,
		downtime: time.Duration(dice.IntN(400)) * time.Millisecond,
	}
	first := dice.IntN(len(chaosTargets))
	k.targets = []string{chaosTargets[first]}
	if dice.IntN(4) == 0 { // a pair
		second := (first + 1 + dice.IntN(len(chaosTargets)-1)) % len(chaosTargets)
		k.targets = append(k.targets, chaosTargets[second])
	}
	if dice.IntN(3) > 0 {
		k.progress = int64(20 + dice.IntN(200))
		k.full = dice.IntN(3) == 0
	}
	return k
}

// chaosRun is what happened on one backend.
type chaosRun struct {
	lock     string
	kills    int
	hits     map[string]int // kills by target
	pairs    int
	early    int // kills that did not wait for the system to be up again
	full     int // kills with at least 500 orders in flight
	next     *killEvent
	inFlight []int
	sales    []chaosSale
	took     time.Duration
	findings []string
	evidence string
}

type chaosSale struct {
	activity string
	kills    int
	admitted int
	kinds    map[string]int64
	verdict  *verdict
}

func runChaos(ctx context.Context, out io.Writer, o chaosOptions) error {
	var runs []*chaosRun
	var err error
	for _, lock := range o.locks {
		run := &chaosRun{lock: lock, hits: map[string]int{}}
		runs = append(runs, run)
		if err := run.hold(ctx, out, o); err != nil {
			run.findings = append(run.findings, err.Error())
		}
		if ctx.Err() != nil {
			return fmt.Errorf("chaos: interrupted after %d kills: %w", run.kills, context.Cause(ctx))
		}
		fmt.Fprint(out, run.summary())
		if len(run.findings) > 0 {
			err = errors.Join(err, fmt.Errorf("chaos: %d findings on %s, evidence in %s", len(run.findings), lock, run.evidence))
		}
	}
	if o.report != "" {
		err = errors.Join(err, writeChaosReport(o.report, o, runs))
	}
	return err
}
