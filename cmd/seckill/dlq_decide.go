package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"seckill/consumer"
)

func newDLQReplayCommand(p *program) *cobra.Command {
	return newRulingCommand(p, &cobra.Command{
		Use:   "replay ID...",
		Short: "Decide held orders now, by limit and stock",
		Long: `Decide held orders now, by limit and stock, and tell the gate. A message of the log
that could not be read is read again and appended to the log. What still cannot be
settled or read stays a dead letter, and the command ends with 1.`,
		Example: "  seckill dlq replay 01999999-0000-7000-8000-000000000001\n  seckill dlq replay letter-17 --yes",
	}, "Decided now, by limit and stock", (*consumer.Desk).Replay)
}

func newDLQDropCommand(p *program) *cobra.Command {
	return newRulingCommand(p, &cobra.Command{
		Use:   "drop ID...",
		Short: "Reject held orders for good; their units can be sold again",
		Long: `Reject held orders for good (reason dropped) and give their units back to the gate.
A message of the log that cannot be read is removed. Needs --reason, which is written
to the activity log.`,
		Example: `  seckill dlq drop 01999999-0000-7000-8000-000000000001 --reason "the buyer was refunded"
  seckill dlq drop letter-17 --reason "written by a test" --yes`,
	}, "Rejected for good, and their units are for sale again", (*consumer.Desk).Drop)
}

// newRulingCommand finishes a command that decides dead letters one after another.
func newRulingCommand(
	p *program, cmd *cobra.Command, becomes string,
	rule func(*consumer.Desk, context.Context, string) (consumer.Ruling, error),
) *cobra.Command {
	cmd.Args = cobra.MinimumNArgs(1)
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Name() == "drop" && sure.reason == "" {
			return wrongUsage(errors.New("dlq drop: give the reason with --reason"))
		}
		would := func(ctx context.Context, s *stores) (string, error) { return s.wouldRule(ctx, args, becomes) }
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, c Config) error {
			return p.rule(ctx, s.desk(p.commandLogger(), c), args, rule)
		})
	}
	cmd.ValidArgsFunction = p.suggest(true, letterIDs)
	settingFlags(cmd)
	return cmd
}

func (s *stores) desk(logger *slog.Logger, c Config) *consumer.Desk {
	return &consumer.Desk{Ledger: s.ledger, Gate: s.gate, Log: s.log, Logger: logger, Dead: s.dead(c)}
}

// dead reads the dead letters of this installation.
func (s *stores) dead(c Config) *consumer.DeadLetters {
	return consumer.ReadDeadLetters(s.log.JetStream(), c.Namespace)
}

// rule goes on past a letter that fails, shows what was done and returns all errors.
func (p *program) rule(
	ctx context.Context, desk *consumer.Desk, ids []string,
	rule func(*consumer.Desk, context.Context, string) (consumer.Ruling, error),
) error {
	rulings := []consumer.Ruling{}
	var errs []error
	for _, id := range ids {
		ruling, err := ruleOne(ctx, desk, id, rule)
		if err != nil {
			errs = append(errs, fmt.Errorf("dead letter %s: %s", id, oneLine(err.Error())))
			continue
		}
		rulings = append(rulings, ruling)
	}
	err := p.show(map[string]any{"letters": rulings}, func(w io.Writer) {
		_, _ = fmt.Fprintln(w, "ID\tRESULT\tSTATUS\tREASON")
		for _, r := range rulings {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, r.Result, orDash(string(r.Status)), orDash(r.Reason))
		}
	})
	return errors.Join(append(errs, err)...)
}
