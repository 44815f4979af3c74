package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func init() { subcommands = append(subcommands, newBreaksCommand) }

const (
	// breakTimeout bounds one test with its safeguard off; a test that hangs without it
	// has missed it too.
	breakTimeout = 3 * time.Minute
	// breaksAtOnce is how many safeguards are off at once for each processor, each in a
	// program of its own: most tests wait, for a deadline or for a minute that is over.
	breaksAtOnce = 3
)

func newBreaksCommand() *cobra.Command {
	var only, report string
	cmd := &cobra.Command{
		Use:   "breaks",
		Short: "Switch each safeguard off and see its test turn red",
		Long: `Switch each safeguard off and see its test turn red.

One safeguard at a time is taken out of what the compiler reads; the files stay as they
are. The test that guards it runs, and must fail; with every safeguard on, all these
tests must pass. Run it inside the module.`,
		Example: "  seckill-lab breaks\n  seckill-lab breaks --only 'epoch|term' --report cmd/seckill-lab/BREAKS.md",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pattern, err := regexp.Compile(only)
			if err != nil {
				return fmt.Errorf("--only is not a pattern: %w", err)
			}
			return runBreaks(cmd.Context(), pattern, report, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "`pattern` of rules or descriptions to run")
	cmd.Flags().StringVar(&report, "report", "", "also write the table to this `file`, as Markdown")
	return cmd
}

// String names a safeguard, as --only matches it.
func (s safeguard) String() string {
	if _, err := strconv.Atoi(s.rule); err == nil {
		return "rule " + s.rule + ": " + s.what
	}
	if s.control() {
		return "nothing taken out, " + s.folder
	}
	return s.rule + ": " + s.what
}

// broken is one safeguard and what its test said without it.
type broken struct {
	safeguard
	red  bool
	said string // by the test; or why it does not count
	took time.Duration
}

func runBreaks(ctx context.Context, only *regexp.Regexp, report string, out, words io.Writer) error {
	var chosen []safeguard
	for _, s := range safeguards {
		if only.MatchString(s.String()) {
			chosen = append(chosen, s)
		}
	}
	began := time.Now()
	results, err := breakAll(ctx, chosen, words)
	if err != nil {
		return err
	}
	table := breaksTable(results)
	if _, err := io.WriteString(out, table); err != nil {
		return err
	}
	if report != "" {
		if err := os.WriteFile(report, []byte(breaksReport(table, results, time.Since(began))), 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return breaksVerdict(results)
}

// breakAll runs the tests with every safeguard on, and each with one off.
func breakAll(ctx context.Context, chosen []safeguard, words io.Writer) ([]broken, error) {
	b, err := newBreaker(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(b.scratch) }()
	all := append(controls(chosen), chosen...)
	results := make([]broken, len(all))
	progress := showBreaks(words, len(all))
	defer progress.end()
	var group errgroup.Group
	group.SetLimit(breaksAtOnce * runtime.NumCPU())
	for i, s := range all {
		group.Go(func() error {
			results[i] = b.run(ctx, i, s)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			progress.done(results[i])
			return nil
		})
	}
	err = group.Wait()
	return results, err
}

// controls are the same tests with every safeguard on, those of a package together.
func controls(chosen []safeguard) []safeguard {
	var list []safeguard
	at := map[string]int{}
	for _, s := range chosen {
		i, known := at[s.folder]
		if !known {
			i = len(list)
			at[s.folder] = i
			list = append(list, safeguard{folder: s.folder, test: s.test})
		}
		if !strings.Contains("|"+list[i].test+"|", "|"+s.test+"|") {
			list[i].test += "|" + s.test
		}
	}
	return list
}

// control says whether every safeguard is on.
func (s safeguard) control() bool { return s.file == "" }

// right says whether the tests have said what they should.
func (b broken) right() bool { return b.red != b.control() }

func breaksVerdict(results []broken) error {
	missed := 0
	for _, r := range results {
		switch {
		case r.right():
		case r.control():
			return errors.New("the tests of " + r.folder + " are red with every safeguard on, so nothing is shown: " + r.said)
		default:
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d safeguards can be taken out without a test that notices", missed, len(results))
	}
	return nil
}
