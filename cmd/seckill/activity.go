package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"seckill/admission"
)

func newActivityCommand(p *program) *cobra.Command {
	return newGroup(
		"activity", "Create, open, pause and close sales, change their stock, look at them",
		newActivityApplyCommand(p),
		newActivityShowCommand(p),
		newActivityListCommand(p),
		newActivityStepCommand(p, activityStep{
			name: "open", short: "Open a sale, or make sure that it is open",
			long: `Open a sale: move a draft to open and load its gate with total minus live, once
what an earlier gate accepted is settled (which takes a running worker). Opening
again changes nothing.`,
			would: (*stores).wouldOpen, do: (*operator).open,
		}),
		newActivityStepCommand(p, activityStep{
			name: "pause", short: "Admit nobody for now",
			would: wouldMove("admits nobody until it is resumed"), do: (*operator).pause,
		}),
		newActivityStepCommand(p, activityStep{
			name: "resume", short: "Admit buyers again",
			would: wouldMove("admits buyers again"), do: (*operator).resume,
		}),
		newActivityStepCommand(p, activityStep{
			name: "close", short: "End a sale for good",
			long:  `End a sale for good: nobody is admitted any more, and the id is not used again.`,
			would: wouldMove("ends for good, and its id is not used again"), do: (*operator).close,
		}),
		newActivityStockCommand(p),
		newActivityTicketCommand(p),
	)
}

func newActivityShowCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ACTIVITY",
		Short:   "Show a sale with its stock",
		Example: "  seckill activity show spring\n  seckill activity show spring --output json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withLedger(cmd, func(ctx context.Context, s *stores, _ Config) error {
				a, err := s.ledger.Activity(ctx, args[0])
				if err != nil {
					return err
				}
				return p.showActivity(a)
			})
		},
	}
	cmd.ValidArgsFunction = p.suggest(false, activityIDs)
	settingFlags(cmd)
	return cmd
}

func newActivityListCommand(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List all sales",
		Example: "  seckill activity list\n  seckill activity list --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withLedger(cmd, func(ctx context.Context, s *stores, _ Config) error {
				views, err := s.operator(p.commandLogger()).list(ctx)
				if err != nil {
					return err
				}
				return p.show(map[string]any{"activities": views}, func(w io.Writer) { activitiesTable(w, views) })
			})
		},
	}
	settingFlags(cmd)
	return cmd
}

func activitiesTable(w io.Writer, views []activityAdminView) {
	_, _ = fmt.Fprintln(w, "ACTIVITY\tSTATE\tSKUS\tTOTAL\tLIVE\tTITLE")
	for _, v := range views {
		var total, live int64
		for _, s := range v.SKUs {
			total, live = total+s.Total, live+s.Live
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", v.Activity, v.State, len(v.SKUs), total, live, orDash(v.Title))
	}
}

// activityStep is a step that needs only the activity's id.
type activityStep struct {
	name, short, long string

	would func(*stores, context.Context, string) (string, error)
	do    func(*operator, context.Context, string) (admission.Activity, error)
}

func newActivityStepCommand(p *program, step activityStep) *cobra.Command {
	cmd := &cobra.Command{
		Use:     step.name + " ACTIVITY",
		Short:   step.short,
		Long:    step.long,
		Example: "  seckill activity " + step.name + " spring\n  seckill activity " + step.name + " spring --yes --reason planned",
		Args:    cobra.ExactArgs(1),
	}
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		would := func(ctx context.Context, s *stores) (string, error) { return step.would(s, ctx, args[0]) }
		return p.change(cmd, sure, would, func(ctx context.Context, s *stores, _ Config) error {
			ctx, cancel := context.WithTimeout(ctx, adminTimeout)
			defer cancel()
			a, err := step.do(s.operator(p.commandLogger()), ctx, args[0])
			if err != nil {
				return err
			}
			return p.showActivity(a)
		})
	}
	cmd.ValidArgsFunction = p.suggest(false, activityIDs)
	settingFlags(cmd)
	return cmd
}

// commandLogger writes what goes wrong beside a command's work to standard error.
func (p *program) commandLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (p *program) showActivity(a admission.Activity) error {
	v := viewActivity(a)
	return p.show(v, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "activity\t%s\ntitle\t%s\nstate\t%s\nstarts at\t%s\nends at\t%s\nepoch\t%d\n\n",
			v.Activity, orDash(v.Title), v.State, orDash(shownTime(a.StartsAt)), orDash(shownTime(a.EndsAt)), v.Epoch)
		_, _ = fmt.Fprintln(w, "SKU\tTOTAL\tSTOCK\tLIVE\tLIMIT\tPRICE")
		for _, s := range v.SKUs {
			_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", s.SKU, s.Total, s.Stock, s.Live, s.LimitPerUser, s.Price)
		}
	})
}
