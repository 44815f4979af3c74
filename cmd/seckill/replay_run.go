package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seckill/consumer"
	"seckill/lockprovider"
)

func newReplayRunCommand(p *program) *cobra.Command {
	f := &replayFlags{}
	var limit int
	var resume string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Pass orders through settlement again",
		Long: `Pass orders through settlement again. An order that is decided stays as it is; one
without a row gets its decision; with --source dead the held ones are decided.

republish appends the orders again, under new message ids and the epoch of their
reservation, and waits until the workers have settled them. apply settles them itself,
and refuses while a worker holds a partition that it needs.

Prints a line of JSON an order (settled, already, rejected, dead or unknown) and a
summary as the last one. Ends with 1 if an order is dead or unknown. A replay that was
interrupted, or killed, goes on with --resume; the lines of the orders that were in
hand then come again.`,
		Example: `  seckill replay run
  seckill replay run --activity spring --since 2026-12-01T20:00:00+08:00 --rate 1000 --yes
  seckill replay run --source dead --yes
  seckill replay run --mode apply --partition 3
  seckill replay run --resume 01999999-0000-7000-8000-000000000001`,
		Args: cobra.NoArgs,
	}
	f.register(p, cmd)
	cmd.Flags().IntVar(&limit, "rate", 0, "most orders a second (default no limit)")
	cmd.Flags().StringVar(&resume, "resume", "", "go on with the `replay` of this id")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		selection, err := f.selection(cmd, c.Partitions)
		if err == nil && resume != "" {
			err = resumable(cmd, resume)
		}
		if err == nil && limit < 1 && cmd.Flags().Changed("rate") {
			err = fmt.Errorf("--rate %d: must be at least 1", limit)
		}
		if err != nil {
			return wrongUsage(fmt.Errorf("replay run: %w", err))
		}
		would := func(ctx context.Context, s *stores) (string, error) {
			return p.wouldReplay(ctx, s, c, selection, resume)
		}
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, c Config) error {
			return p.runReplay(ctx, s, c, selection, resume, limit)
		})
	}
	settingFlags(cmd)
	return cmd
}

// wouldReplay counts what the replay would find.
func (p *program) wouldReplay(ctx context.Context, s *stores, c Config, selection consumer.Selection, resume string) (string, error) {
	if resume != "" {
		run, err := s.ledger.Run(ctx, resume)
		return fmt.Sprintf("Replay %s (%s) goes on after message %d of %d.", resume, run.Selection.Mode, run.Position, run.To), err
	}
	plan, err := p.countReplay(ctx, s, c, selection)
	return wouldReplay(plan, selection.Mode), err
}

func (p *program) runReplay(ctx context.Context, s *stores, c Config, selection consumer.Selection, resume string, limit int) error {
	bar := p.newProgress("replaying", "messages")
	defer bar.end()
	out := bar.beside(p.stdout)
	replay := s.replay(p.commandLogger(), c)
	replay.Rate, replay.Progress, replay.Begun, replay.Report = limit, bar.set, p.announce(bar), reportTo(out)
	summary, err := s.pass(ctx, c, replay, selection, resume)
	bar.end()
	if summary.Run == "" {
		return err
	}
	if err = errors.Join(err, writeSummary(p.stdout, summary)); err != nil {
		return fmt.Errorf("%s; go on with: seckill replay run --resume %s", oneLine(err.Error()), summary.Run)
	}
	if summary.Dead+summary.Unknown > 0 {
		return fmt.Errorf("%d orders are held (see seckill dlq list), of %d the end is unknown", summary.Dead, summary.Unknown)
	}
	return nil
}

// pass runs a replay, or resumes one, with the leases that its mode needs.
func (s *stores) pass(ctx context.Context, c Config, replay *consumer.Replay, selection consumer.Selection, resume string) (consumer.ReplaySummary, error) {
	mode := selection.Mode
	if resume != "" {
		run, err := s.ledger.Run(ctx, resume)
		if err != nil {
			return consumer.ReplaySummary{}, err
		}
		mode = run.Selection.Mode
	}
	if mode == consumer.ReplayApply {
		leases, err := s.replayLeases(ctx, c)
		if err != nil {
			return consumer.ReplaySummary{}, err
		}
		defer closeLeases(ctx, leases)
		replay.Leases = leases
	}
	if resume != "" {
		return replay.Resume(ctx, resume)
	}
	return replay.Start(ctx, selection)
}

// announce names the replay before its first order: who kills it can then resume it.
func (p *program) announce(bar *progress) func(consumer.ReplayRun) {
	return func(run consumer.ReplayRun) {
		_, _ = fmt.Fprintf(bar.beside(p.stderr), "replay %s: messages %d to %d, after %d\n", run.ID, run.From, run.To, run.Position)
	}
}

func reportTo(w io.Writer) func([]consumer.ReplayLine) error {
	return func(lines []consumer.ReplayLine) error {
		buffered := bufio.NewWriter(w)
		for _, line := range lines {
			if err := writeLine(buffered, line); err != nil {
				return err
			}
		}
		if err := buffered.Flush(); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	}
}

// replayLeases opens the lock store that the ledger records.
func (s *stores) replayLeases(ctx context.Context, c Config) (*lockprovider.Provider, error) {
	recorded, err := s.ledger.Installation(ctx)
	if err != nil {
		return nil, err
	}
	return c.openLeases(ctx, recorded.LockBackend)
}

// closeLeases gives back what is held; what it cannot expires.
func closeLeases(ctx context.Context, leases *lockprovider.Provider) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = leases.Close(end)
}
