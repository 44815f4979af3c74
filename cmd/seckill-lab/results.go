package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func init() { subcommands = append(subcommands, newResultsCommand) }

// resultPlan is how long and how often is measured.
type resultPlan struct {
	rounds  int           // of everything that is compared in turns
	each    time.Duration // of one load of a round
	backlog int64         // orders that a worker finds, in each round
	million int64         // orders of the largest backlog
	waiting int           // requests that wait at once
	long    time.Duration // of the load in which no answer may take a second
	ramp    time.Duration // of the first load of a group
	full    time.Duration // of the second
	which   []string      // groups
}

var (
	fullPlan  = resultPlan{5, 4 * time.Second, 30_000, 1_000_000, 10_000, 5 * time.Minute, 10 * time.Second, 5 * time.Second, []string{"A", "B", "C", "D", "E", "F"}}
	shortPlan = resultPlan{1, time.Second, 3000, 5000, 500, 2 * time.Second, time.Second, time.Second, []string{"C", "E"}}
)

const resultsHelp = `Measures what the project says of its speed and writes it as a Markdown file: each
figure beside a ceiling that was measured in the same minutes, with command, commit,
machine and versions. The ceiling N is a net/http handler in a process of its own that
only decodes the same request and answers 202.

One service with both roles, header mode, metrics on, 256 connections, servers and
sender on the same machine, fsync on in log and ledger. What is compared takes turns,
and the median of the rounds counts. First the sender has to reach 0.9 of wrk on the
no-op, or the run is void: nothing is written and the command ends with 3, as it does
when the audit of any load is not clean.

Takes about twenty minutes; use a machine that does nothing else. With --short every
row is made once, and two of the groups, in about a minute, to see that it works; its
figures say nothing, and a slow sender is only noted.`

type resultOptions struct {
	report  string
	program string
	short   bool
}

func newResultsCommand() *cobra.Command {
	var o resultOptions
	cmd := &cobra.Command{
		Use: "results", Short: "Measure the project against the machine's ceiling and write RESULTS.md", Long: resultsHelp,
		Example: "  seckill-lab results --report cmd/seckill-lab/RESULTS.md\n  seckill-lab results --short",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.program, err = serviceProgram(o.program); err == nil {
				err = makeResults(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
			}
			if err != nil {
				return fmt.Errorf("results: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.report, "report", "", "file to write (default: standard output)")
	cmd.Flags().BoolVar(&o.short, "short", false, "every row once, quickly: a check of the measuring, not a measurement")
	cmd.Flags().StringVar(&o.program, "seckill", "", "the service's program (default: seckill beside this program)")
	return cmd
}

// measuring is one making of the results.
type measuring struct {
	resultPlan
	options resultOptions
	words   io.Writer
	noop    string // base URL of the ceiling

	began  time.Time
	facts  facts
	sender string
	rates  rateRounds
	drains drainRounds
	rows   []resultRow
	groups []groupResult
}

// resultRow is one line of the table.
type resultRow struct {
	what, measured, against, ratio, target string
	reached                                bool
}

func makeResults(ctx context.Context, out, words io.Writer, o resultOptions) error {
	m := &measuring{resultPlan: fullPlan, options: o, words: words, began: time.Now()}
	if o.short {
		m.resultPlan = shortPlan
	}
	noop, stop, err := startNoop(ctx)
	if err != nil {
		return err
	}
	defer stop()
	m.noop = noop
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"the sender against wrk", m.checkSender},
		{"admission, sold out and latency, in turns with the no-op", m.measureRates},
		{"settlement of a backlog", m.measureDrains},
		{"the largest backlog", m.measureMillion},
		{"requests that wait", m.measureWaiting},
		{"a quiet sale beside a loaded one", m.measureQuiet},
		{"groups", m.measureGroups},
	} {
		fmt.Fprintf(words, "%s: %s\n", time.Since(m.began).Round(time.Second), step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	text := m.text()
	if o.report == "" {
		_, err = io.WriteString(out, text)
		return err
	}
	if err := os.WriteFile(o.report, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(words, "%s: written to %s\n", time.Since(m.began).Round(time.Second), o.report)
	return nil
}

// checkSender ends a run whose sender would be the bottleneck. A short one says so and goes on.
func (m *measuring) checkSender(ctx context.Context) error {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return fmt.Errorf("find wrk: %w; install it (Debian: apt-get install wrk)", err)
	}
	o := noopOptions{rounds: m.rounds, each: m.each, connections: 256}
	their, our, err := senderRounds(ctx, m.words, wrk, m.noop, o)
	if errors.Is(err, errVoid) && !m.options.short {
		return exitError{3, err}
	}
	if err != nil && !errors.Is(err, errVoid) {
		return err
	}
	m.sender = fmt.Sprintf("sender %s/s, wrk %s/s on the no-op: %.2f", count(int64(our.rate)), count(int64(their.rate)), our.rate/their.rate)
	return nil
}

func (m *measuring) measureGroups(ctx context.Context) (err error) {
	o := groupOptions{
		groups: m.which, clients: 3000, units: 1000, ramp: m.ramp, full: m.full,
		connections: 256, program: m.options.program,
	}
	if m.groups, err = runGroups(ctx, m.words, o); err != nil {
		return err
	}
	return groupVerdict(m.groups)
}

// load is a closed load of new buyers for so long.
func (m *measuring) load(rate float64, each time.Duration, th *throng) sendOptions {
	return sendOptions{profile: profile{constantProfile, rate, each}, connections: 256, timeout: 10 * time.Second, throng: th}
}

// clean is a load on the service that was audited.
func (m *measuring) clean(ctx context.Context, t *target, o sendOptions) (*sent, error) {
	s, err := send(ctx, io.Discard, t, o)
	if err == nil && !s.audit.Clean {
		err = exitError{3, fmt.Errorf("the audit is not clean: %s", s.audit.Violations[0])}
	}
	return s, err
}

// medianOf the rounds; 0 of none.
func medianOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// ratios of two series, round by round: what took turns is compared with its neighbour.
func ratios(a, b []float64) []float64 {
	out := make([]float64, 0, len(a))
	for i := range a {
		if b[i] > 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}

func (m *measuring) row(r resultRow) { m.rows = append(m.rows, r) }
