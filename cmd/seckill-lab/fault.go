package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func init() { subcommands = append(subcommands, newFaultCommand) }

type faultOptions struct {
	list     bool
	short    bool
	locks    []string
	program  string
	seed     uint64
	rounds   int
	report   string
	evidence string
	names    []string
}

func newFaultCommand() *cobra.Command {
	var o faultOptions
	var lock string
	cmd := &cobra.Command{
		Use:   "fault [NAME...]",
		Short: "Sales with one fault in the middle of each, and the same laws after every one",
		Long: `Runs named scenarios: a sale on real servers, a crowd whose members ask until they
know, a fault while at least 500 orders are answered with 202 and not yet decided.
The fault has to be proven. Within a minute of healing, every one of those orders has
one decision and is live, nothing is oversold, limits are kept, ledger and gate agree,
nothing is stranded or pending, and the last event of each order says what the ledger
has: judged by the rows of Postgres, the keys of Redis, the events and the answers alone. Without NAME all scenarios run. Evidence of a failure is kept.`,
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			o.names = names
			if o.locks, err = locksOf(lock, "fault"); err != nil {
				return err
			}
			if o.list {
				return listScenarios(cmd.OutOrStdout())
			}
			if err := o.check(); err != nil {
				return err
			}
			return runFaults(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.list, "list", false, "list the scenarios and what they do")
	flags.BoolVar(&o.short, "short", false, "only the scenarios that run with the tests")
	flags.StringVar(&lock, "lock", "etcd", "lock backend: etcd, redis or both")
	flags.StringVar(&o.program, "seckill", "", "the service's program (default: seckill beside this program)")
	flags.Uint64Var(&o.seed, "seed", 1, "the same one makes the same schedule")
	flags.IntVar(&o.rounds, "rounds", 1, "how often each scenario runs, each time with other dice")
	flags.StringVar(&o.report, "report", "", "write the report, as Markdown, to this file too")
	flags.StringVar(&o.evidence, "evidence", filepath.Join(os.TempDir(), "seckill-evidence"), "folder for the evidence of failures")
	return cmd
}

func locksOf(lock, command string) ([]string, error) {
	switch lock {
	case "etcd", "redis":
		return []string{lock}, nil
	case "both":
		return []string{"etcd", "redis"}, nil
	}
	return nil, fmt.Errorf("%s: --lock is %q: use etcd, redis or both", command, lock)
}

func (o *faultOptions) check() error {
	if o.rounds < 1 {
		return fmt.Errorf("fault: --rounds is %d: at least 1", o.rounds)
	}
	for _, name := range o.names {
		if _, ok := scenarioNamed(name); !ok {
			return fmt.Errorf("fault: there is no scenario %q: see seckill-lab fault --list", name)
		}
	}
	if len(o.names) == 0 {
		for _, s := range scenarios {
			if s.short || !o.short {
				o.names = append(o.names, s.name)
			}
		}
	}
	var err error
	o.program, err = serviceProgram(o.program)
	return err
}

// serviceProgram is the given program, or the service beside this one.
func serviceProgram(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "seckill"), nil
}

func listScenarios(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range scenarios {
		short := ""
		if s.short {
			short = "(short)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.name, s.fault().about, short)
	}
	return table.Flush()
}

// runFaults runs scenario after scenario and goes on after a failure.
func runFaults(ctx context.Context, out io.Writer, o faultOptions) error {
	ground := &ground{program: o.program}
	defer ground.leave()
	var outcomes []*outcome
	for _, lock := range o.locks {
		for round := 1; round <= o.rounds; round++ {
			for _, name := range o.names {
				s, _ := scenarioNamed(name)
				if s.only != "" && s.only != lock {
					fmt.Fprintf(out, "-    %s is for leases in %s\n", name, s.only)
					continue
				}
				one := &outcome{scenario: s, lock: lock, seed: o.seed, round: round}
				runScenario(ctx, ground, one, o)
				if ctx.Err() != nil {
					return fmt.Errorf("fault: interrupted in %s: %w", name, context.Cause(ctx))
				}
				outcomes = append(outcomes, one)
				if _, err := io.WriteString(out, one.line()); err != nil {
					return fmt.Errorf("fault: print: %w", err)
				}
			}
		}
	}
	err := ground.leave()
	if o.report != "" {
		err = errors.Join(err, writeFaultReport(o.report, o, outcomes))
	}
	failed := 0
	for _, one := range outcomes {
		if one.failed() {
			failed++
		}
	}
	fmt.Fprintf(out, "%d scenarios, %d failed\n", len(outcomes), failed)
	if len(outcomes) == 0 {
		err = errors.Join(err, fmt.Errorf("fault: none of the scenarios is for leases in %s", strings.Join(o.locks, " or ")))
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("fault: %d of %d scenarios failed: see above", failed, len(outcomes)))
	}
	return err
}

// runScenario sets the field up, holds the sale and keeps evidence if something is wrong.
func runScenario(ctx context.Context, g *ground, o *outcome, options faultOptions) {
	began := time.Now()
	defer func() { o.took = time.Since(began) }()
	dice := schedule(o.seed, o.scenario.name, o.lock, o.round)
	fault := o.scenario.fault()
	if fault.small {
		if err := g.small(ctx); err != nil {
			o.note = "in its place the limit of the stream: " + err.Error()
			fault = streamFull()
		}
	}
	o.about = fault.about
	if o.err = g.enter(ctx); o.err != nil {
		return
	}
	var through *links
	if fault.links {
		if through, o.err = newLinks(g.servers); o.err != nil {
			return
		}
	}
	f, err := newField(ctx, g.servers, options.program, o.lock, g.namespace(), g.logs(o), o.scenario.workers, through)
	var crowd *buyers
	if err == nil {
		crowd, err = f.sale(ctx, o, fault, dice)
	}
	o.err = err
	if o.failed() && ctx.Err() == nil {
		e := evidence{f: f, command: o.command(), findings: o.findings()}
		if crowd != nil {
			e.activities, e.crowds = []string{saleActivity}, []*buyers{crowd}
		}
		if o.evidence, err = e.keep(ctx, options.evidence, o.fileName()); err != nil {
			o.err = errors.Join(o.err, err)
		}
	}
	if err := f.close(); err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("stop the processes: %w", err))
	}
	if o.failed() || fault.small { // a server may be left in any state
		o.err = errors.Join(o.err, g.leave())
	}
}

func (o *outcome) command() string {
	return fmt.Sprintf("seckill-lab fault %s --lock %s --seed %d --rounds %d", o.scenario.name, o.lock, o.seed, o.round)
}

func (o *outcome) fileName() string {
	return strings.ReplaceAll(o.scenario.name, "+", "-and-") + "-" + o.lock
}

func (o *outcome) findings() (list []string) {
	if o.err != nil {
		list = append(list, o.err.Error())
	}
	if o.verdict != nil {
		list = append(list, o.verdict.violations...)
		if o.verdict.more > 0 {
			list = append(list, fmt.Sprintf("and %d more", o.verdict.more))
		}
	}
	return list
}
