package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

func newReplayCommand(p *program) *cobra.Command {
	return newGroup("replay", "Pass orders of the log through settlement again", newReplayPlanCommand(p), newReplayRunCommand(p))
}

// replayFlags are the selectors of a replay.
type replayFlags struct {
	consumer.Selection
	partition    int
	since, until string
}

func (f *replayFlags) register(p *program, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Source, "source", consumer.ReplayOrders, "where to read: orders (the log) or dead (the dead letters)")
	flags.StringVar(&f.Mode, "mode", consumer.ReplayRepublish, "republish (workers settle) or apply (settle here, instead of workers)")
	flags.StringVar(&f.Activity, "activity", "", "only orders of the sale with this `id`")
	flags.StringVar(&f.SKU, "sku", "", "only orders of the `SKU`")
	flags.StringVar(&f.User, "user", "", "only orders of the buyer with this `id`")
	flags.StringVar(&f.Order, "order", "", "only the order with this `id`")
	flags.IntVar(&f.partition, "partition", -1, "only this partition of the log (default all)")
	flags.Uint64Var(&f.FromSeq, "from-seq", 0, "first message of the log, by its `number` (default the first)")
	flags.Uint64Var(&f.ToSeq, "to-seq", 0, "last message of the log, by its `number` (default the last there is now)")
	flags.StringVar(&f.since, "since", "", "only orders reserved at or after this RFC 3339 `time`")
	flags.StringVar(&f.until, "until", "", "only orders reserved before this RFC 3339 `time`")
	p.suggestActivities(cmd)
	for name, choices := range map[string][]cobra.Completion{
		"source": {consumer.ReplayOrders, consumer.ReplayDead}, "mode": {consumer.ReplayRepublish, consumer.ReplayApply},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	}
}

// selectors are the flags that a resumed replay has already.
var selectors = []string{
	"source", "mode", "activity", "sku", "user", "order", "partition", "from-seq", "to-seq", "since", "until",
}

// selection checks the flags.
func (f *replayFlags) selection(cmd *cobra.Command, partitions int) (consumer.Selection, error) {
	s := f.Selection
	if cmd.Flags().Changed("partition") {
		s.Partition = &f.partition
	}
	for name, into := range map[string]*time.Time{"since": &s.Since, "until": &s.Until} {
		text := cmd.Flag(name).Value.String()
		if text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return s, fmt.Errorf("--%s %q: is not an RFC 3339 time with zone, such as 2026-12-01T20:00:00+08:00", name, text)
		}
		*into = t.UTC()
	}
	return s, s.Check(partitions)
}

func newReplayPlanCommand(p *program) *cobra.Command {
	f := &replayFlags{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Count what a replay would find, and change nothing",
		Long: `Count what a replay would find, and change nothing. Prints the summary of such a
replay as one line of JSON: already are decided orders, dead those that are held, and
undecided those without a row.`,
		Example: `  seckill replay plan
  seckill replay plan --activity spring --from-seq 1000 --to-seq 2000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.loadConfig(cmd)
			if err != nil {
				return err
			}
			s, err := f.selection(cmd, c.Partitions)
			if err != nil {
				return wrongUsage(fmt.Errorf("replay plan: %w", err))
			}
			return p.withStores(cmd, func(ctx context.Context, stores *stores, c Config) error {
				return p.planReplay(ctx, stores, c, s)
			})
		},
	}
	f.register(p, cmd)
	settingFlags(cmd)
	return cmd
}

func (p *program) planReplay(ctx context.Context, s *stores, c Config, selection consumer.Selection) error {
	if err := s.belongs(ctx, c); err != nil {
		return err
	}
	summary, err := p.countReplay(ctx, s, c, selection)
	if err != nil {
		return err
	}
	return writeSummary(p.stdout, summary)
}

func (p *program) countReplay(ctx context.Context, s *stores, c Config, selection consumer.Selection) (consumer.ReplaySummary, error) {
	bar := p.newProgress("reading the log", "messages")
	defer bar.end()
	replay := s.replay(p.commandLogger(), c)
	replay.Progress = bar.set
	return replay.Plan(ctx, selection)
}

// replay makes a replay of this installation.
func (s *stores) replay(logger *slog.Logger, c Config) *consumer.Replay {
	return &consumer.Replay{Ledger: s.ledger, Gate: s.gate, Log: s.log, Logger: logger, Dead: s.dead(c)}
}

func writeSummary(w io.Writer, s consumer.ReplaySummary) error {
	return writeLine(w, map[string]any{"summary": s})
}

func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// resumable refuses what a resumed replay has in its record already.
func resumable(cmd *cobra.Command, run string) error {
	if !admission.ValidID(run) {
		return fmt.Errorf("--resume %q: is not the id of a replay (a UUID in lower case)", run)
	}
	for _, name := range selectors {
		if cmd.Flags().Changed(name) {
			return errors.New("--resume goes on with what the replay was asked: leave --" + name + " out")
		}
	}
	return nil
}
