package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// hold runs one backend. It stops at the first sale that breaks a law, so that the evidence is of that moment.
func (r *chaosRun) hold(ctx context.Context, out io.Writer, o chaosOptions) (err error) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	ground := &ground{program: o.program}
	defer func() { err = errors.Join(err, ground.leave()) }()
	if err := ground.enter(ctx); err != nil {
		return err
	}
	f, err := newField(ctx, ground.servers, o.program, r.lock, "chaos", filepath.Join(ground.dir, "chaos"), 2, nil)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return err
	}
	// Two dice: how many sales the kills take depends on the machine, what is killed must not.
	kills, crowds := schedule(o.seed, "chaos kills", r.lock, 1), schedule(o.seed, "chaos crowds", r.lock, 1)
	for r.kills < o.kills && ctx.Err() == nil {
		activity := fmt.Sprintf("sale-%d", len(r.sales)+1)
		crowd := newBuyers(activity, saleSKUName, chaosBuyers, crowds.Uint64())
		err := r.sale(ctx, out, f, activity, crowd, o.kills, kills)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			r.findings = append(r.findings, err.Error())
		}
		if len(r.findings) > 0 {
			e := evidence{
				f: f, activities: []string{activity}, crowds: []*buyers{crowd}, findings: r.findings,
				command: fmt.Sprintf("seckill-lab chaos --kills %d --lock %s --seed %d", o.kills, r.lock, o.seed),
			}
			r.evidence, err = e.keep(ctx, o.evidence, "chaos-"+r.lock)
			return err
		}
	}
	return nil
}

// sale opens one activity, kills until its crowd has asked, and judges it.
func (r *chaosRun) sale(ctx context.Context, out io.Writer, f *field, activity string, crowd *buyers, kills int, dice *rand.Rand) error {
	if err := f.api().openSale(ctx, activity, "Sale in chaos", saleSKUName, chaosUnits); err != nil {
		return err
	}
	selling, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() {
		_, err := crowd.send(selling, f.public, chaosRate)
		over <- err
	}()
	before := r.kills
	for r.kills < kills {
		if r.next == nil {
			next := nextKill(dice)
			r.next = &next
		}
		err := r.kill(ctx, f, activity, crowd, *r.next)
		if errors.Is(err, errCrowdOver) {
			break // the next sale begins with this kill
		}
		if err != nil {
			stop()
			return errors.Join(fmt.Errorf("kill %d, in %s: %w", r.kills+1, activity, err), <-over)
		}
		r.next = nil
	}
	healed := time.Now()
	patience := time.AfterFunc(restWithin, stop)
	defer patience.Stop()
	if err := <-over; err != nil {
		return err
	}
	told := crowd.told(func(format string, args ...any) {
		r.findings = append(r.findings, activity+": "+fmt.Sprintf(format, args...))
	}, false)
	v := f.awaitRest(ctx, activity, saleSKUName, told, healed)
	for _, text := range append(v.violations, f.died()...) {
		r.findings = append(r.findings, activity+": "+text)
	}
	r.sales = append(r.sales, chaosSale{activity, r.kills - before, len(told.admitted), crowd.kinds, v})
	fmt.Fprintf(out, "%s %s: %d kills (%d of %d), %d answered with 202, %d of %d sold, at rest after %.1fs, %d violations\n",
		r.lock, activity, r.kills-before, r.kills, kills, len(told.admitted), v.live, chaosUnits, v.rested.Seconds(), len(v.violations))
	if !v.clean() {
		return nil // the evidence is kept before anything else is changed
	}
	// A closed sale is rebuilt no more, so that the next one is as fast as the first.
	return f.api().callAdmin(ctx, "POST", "/admin/v1/activities/"+activity+"/close", nil)
}

// kill makes one kill and starts what it took.
func (r *chaosRun) kill(ctx context.Context, f *field, activity string, crowd *buyers, k killEvent) error {
	ctx, cancel := context.WithTimeout(ctx, killStage)
	defer cancel()
	if err := crowd.reach(ctx, crowd.accepted.Load()+k.progress); err != nil {
		return err
	}
	if err := wait(ctx, k.after); err != nil {
		return err
	}
	flying, release, err := f.flying(ctx, activity, crowd, k.full)
	if err != nil {
		return err
	}
	defer release()
	one := killed(k.downtime, k.targets...)
	if _, err := one.strike(ctx, f); err != nil {
		return err
	}
	release()
	if err := wait(ctx, one.lasts); err != nil {
		return err
	}
	if _, err := one.heal(ctx, f); err != nil { // proves the kill by the process ids
		return err
	}
	r.kills++
	r.inFlight = append(r.inFlight, flying)
	if len(k.targets) > 1 {
		r.pairs++
	}
	if k.progress == 0 {
		r.early++
	}
	if flying >= leastInFlight {
		r.full++
	}
	for _, target := range k.targets {
		r.hits[target]++
	}
	return nil
}

// flying counts the orders answered with 202 that have no row yet, and holds the settlement until there are enough
// of them if the kill wants that; release ends the hold.
func (f *field) flying(ctx context.Context, activity string, crowd *buyers, full bool) (n int, release func(), err error) {
	hold, err := f.holdSettlement(ctx, activity)
	if err != nil {
		return 0, nil, err
	}
	if !full {
		defer hold.release()
		return hold.undecided(crowd.admittedIDs()), func() {}, nil
	}
	if err := crowd.reach(ctx, int64(hold.decided+leastInFlight+50)); err != nil {
		hold.release()
		return 0, nil, err
	}
	return hold.undecided(crowd.admittedIDs()), hold.release, nil
}

// median of a list that is not empty.
func median(values []int) int {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func (r *chaosRun) hitList() string {
	var parts []string
	for _, target := range chaosTargets {
		parts = append(parts, fmt.Sprintf("%s %d", target, r.hits[target]))
	}
	return strings.Join(parts, ", ")
}
