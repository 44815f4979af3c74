package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

func init() { subcommands = append(subcommands, newRunCommand) }

const (
	saleActivity = "sale" // the crowd's
	saleSKUName  = "s1"
	tryActivity  = "try" // for the visitor's own orders afterwards
	tryUnits     = 100
)

type runOptions struct {
	lock        string
	oneshot     bool
	program     string
	units       int64
	buyers      int
	requests    int
	connections int
	rate        float64
	seed        uint64
	window      time.Duration // to pay in; 0: orders need not be paid
	unpaid      int           // of a hundred buyers, how many do not pay
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "A whole sale on this machine: servers, service, crowd, audited report",
		Long: `Starts Redis, Postgres, NATS and etcd in a temporary folder and the service beside
them, all on free loopback ports, opens a sale, sends a crowd at it and prints an
audited report. Then it stays up, with commands to try, until Ctrl-C; with --oneshot
it ends after the report, with status 0 only if everything was sold and the audit is
clean. Nothing is left behind.

With --payment-window an order has to be paid. --unpaid percent of the buyers do not;
their orders expire, the units go to buyers who still wait, and so on until every unit
is paid.`,
		Example: `  seckill-lab run --oneshot
  seckill-lab run --oneshot --payment-window 3s --unpaid 40`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runSale(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.lock, "lock", "etcd", "lock backend: etcd or redis")
	flags.BoolVar(&o.oneshot, "oneshot", false, "end after the report")
	flags.StringVar(&o.program, "seckill", "", "the service's program (default: seckill beside this program)")
	flags.Int64Var(&o.units, "units", 2000, "units for sale")
	flags.IntVar(&o.buyers, "buyers", 50_000, "buyers, each with a limit of one unit")
	flags.IntVar(&o.requests, "requests", 100_000, "requests of all buyers, repeats included")
	flags.IntVar(&o.connections, "connections", 256, "open connections of the crowd")
	flags.Float64Var(&o.rate, "rate", 0, "requests/s; 0: as fast as the connections allow")
	flags.DurationVar(&o.window, "payment-window", 0, "time in which an order has to be paid; 0: orders need not be paid")
	flags.IntVar(&o.unpaid, "unpaid", 40, "of a hundred buyers, how many do not pay; with --payment-window")
	flags.Uint64Var(&o.seed, "seed", 1, "another one makes another crowd")
	return cmd
}

func (o *runOptions) check() error {
	switch {
	case o.lock != "etcd" && o.lock != "redis":
		return fmt.Errorf("run: --lock is %q: use etcd or redis", o.lock)
	case o.units < 1 || o.units > int64(o.buyers):
		return fmt.Errorf("run: --units is %d and --buyers %d: at least one unit, and no more than buyers, "+
			"or it cannot sell out", o.units, o.buyers)
	case o.requests < o.buyers:
		return fmt.Errorf("run: --requests is %d and --buyers %d: at least one request each", o.requests, o.buyers)
	case o.connections < 1 || o.connections > maxConnections:
		return fmt.Errorf("run: --connections is %d: choose 1 to %d", o.connections, maxConnections)
	case o.window < 0 || o.window > time.Hour || o.window%time.Millisecond != 0:
		return fmt.Errorf("run: --payment-window is %s: choose whole milliseconds up to 1h, or 0", o.window)
	case o.window > 0 && (o.unpaid < 0 || o.unpaid > 80):
		return fmt.Errorf("run: --unpaid is %d: choose 0 to 80 of a hundred buyers", o.unpaid)
	case o.window > 0 && o.units*100 > int64(o.buyers)*int64(90-o.unpaid): // some to spare, as they are dealt in hundreds
		return fmt.Errorf("run: --units is %d, and of %d buyers %d %% do not pay: too few are left to pay for all units; "+
			"ask with more buyers", o.units, o.buyers, o.unpaid)
	}
	var err error
	o.program, err = serviceProgram(o.program)
	return err
}

// runSale is the whole of it. Everything that was started is stopped before it returns, however it ends.
func runSale(ctx context.Context, out, words io.Writer, o runOptions) (err error) {
	s, err := openStand(ctx, words, o.program, o.lock)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	books := stores{postgresURL: s.servers.PostgresURL(), redisURL: s.servers.RedisURL()}
	report, err := holdSale(ctx, words, s.serving, books, o)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if _, err := io.WriteString(out, report.text()); err != nil {
		return fmt.Errorf("run: print the report: %w", err)
	}
	if !o.oneshot {
		if err := stayUp(ctx, out, words, s.serving, report, s.dir); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	return report.verdict()
}

// holdSale opens the sale, sends the crowd, waits until the ledger has decided, and the units are paid where they
// have to be, and audits.
func holdSale(ctx context.Context, words io.Writer, serving *service, books stores, o runOptions) (*saleReport, error) {
	crowd, err := newCrowd(saleActivity, saleSKUName, o.buyers, o.requests, o.seed)
	if err != nil {
		return nil, err
	}
	sale := newSale("Sample flash sale", []string{saleSKUName}, o.units, 1)
	if o.window > 0 {
		sale.PaymentWindow = o.window.String()
	}
	if err := serving.open(ctx, saleActivity, sale); err != nil {
		return nil, err
	}
	db, err := pgx.Connect(ctx, books.postgresURL)
	if err != nil {
		return nil, fmt.Errorf("connect to the ledger: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	r := &saleReport{options: o, tally: newTally(crowd)}
	if o.window > 0 {
		err = r.sellUntilPaid(ctx, words, serving, crowd, db)
	} else {
		r.load, err = sendCrowd(ctx, words, serving, crowd, r.tally, o, db, &r.settled)
	}
	if err != nil {
		return nil, err
	}
	if r.resale != nil {
		r.tally.faults = append(r.tally.faults, r.resale.till.faults...)
	}
	r.audit, err = auditSale(ctx, books, saleActivity, saleSKUName, r.tally)
	return r, err
}

// sellUntilPaid sends the crowd while the till is open, and keeps both there until every unit is paid.
func (r *saleReport) sellUntilPaid(ctx context.Context, words io.Writer, serving *service, c *crowd, db *pgx.Conn) (err error) {
	r.resale = &resale{till: newTill(serving, r.options.unpaid)}
	r.tally.sold = r.resale.till.sold
	paying, stop := context.WithCancel(ctx)
	wait := r.resale.till.open(paying)
	defer func() { stop(); wait() }() // the faults are ours again
	start := time.Now()
	if r.load, err = sendCrowd(ctx, words, serving, c, r.tally, r.options, db, &r.settled); err != nil {
		return err
	}
	if err := r.resale.sellAgain(ctx, words, serving, c, r.tally, r.options, db, start); err != nil {
		return err
	}
	return r.settled.waitFor(ctx, db, start, r.tally.admitted)
}

// sendCrowd sends the requests while a second connection to the ledger watches the settlement, and waits until
// everything that was admitted is settled, or settleWait after the load.
func sendCrowd(ctx context.Context, words io.Writer, serving *service, c *crowd, t *tally, o runOptions, db *pgx.Conn, settled *settlement) (*loadResult, error) {
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	loadOver, watched := make(chan struct{}), make(chan error, 1)
	start := time.Now()
	go func() { watched <- settled.watch(watching, db, start, loadOver, t.admitted) }()
	stopBar := showProgress(words, &t.counters, int64(len(c.order)))
	result, err := load(ctx, loadConfig{
		Target: "http://" + serving.public, Requests: int64(len(c.order)), Connections: o.connections,
		Pace: constantPace(o.rate), Answer: t.heard,
	}, c.fill)
	stopBar()
	close(loadOver)
	if err == nil && result.Stopped {
		err = fmt.Errorf("send the crowd: interrupted after %d of %d requests", result.Sent, result.Asked)
	}
	if err != nil {
		stopWatching()
		<-watched
		return nil, err
	}
	late := time.AfterFunc(settleWait, stopWatching)
	defer late.Stop()
	err = <-watched // the tally is ours again
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil // too slow: the audit and the report say so
	}
	return result, err
}
