package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seckill/admission"
	"seckill/consumer"
)

func newAuditCommand(p *program) *cobra.Command {
	var activity string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check the books of ledger, gates and log against each other",
		Long: `Check the books of ledger, gates and log against each other.

Reads the three stores themselves and changes nothing. Ends with 3 if a law does
not hold:

  oversold   live orders of a SKU are more units than its total
  limit      a buyer has more live units of a SKU than the limit
  duplicate  an order id has two rows, or a buyer's Idempotency-Key two orders
  lost       an order of the log is passed over: no row, not pending at the gate
  negative   a stock is below 0, in the ledger or at the gate
  stranded   total = live + gate stock + undecided + release due does not hold
  status     what the stores say of one order or SKU cannot all be true: a status
             outside the list, total that is not stock + live, a row that is not
             what the log says, or an order charged at the gate but not live in
             the ledger, or the reverse

"stranded", and what gate and ledger say of each other, can be judged only at rest
and while the gate is open: when the log is settled and no reservation undecided.
--wait waits for that. With --activity the traffic of others does not matter.`,
		Example: `  seckill audit
  seckill audit --activity spring --wait 30s
  seckill audit --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait < 0 || wait > time.Hour {
				return wrongUsage(fmt.Errorf("--wait %v: must be between 0s and 1h", wait))
			}
			return p.withStores(cmd, func(ctx context.Context, s *stores, c Config) error {
				return p.audit(ctx, s, c, activity, wait)
			})
		},
	}
	cmd.Flags().StringVar(&activity, "activity", "", "`id` of the only activity to audit")
	p.suggestActivities(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait until everything is at rest")
	settingFlags(cmd)
	return cmd
}

func (p *program) audit(ctx context.Context, s *stores, c Config, activity string, wait time.Duration) error {
	bar := p.newProgress("reading the log", "messages")
	defer bar.end()
	audit := s.audit(c, activity, wait)
	audit.Progress = bar.set
	report, err := audit.Run(ctx)
	bar.end()
	if errors.Is(err, admission.ErrNoActivity) {
		return fmt.Errorf("audit: there is no activity %s; see seckill activity list", activity)
	}
	if err != nil {
		return err
	}
	if err := p.show(report, func(w io.Writer) { reportTable(w, report) }); err != nil {
		return err
	}
	if !report.OK {
		return finding(fmt.Errorf("%s: the books do not agree", counted(len(report.Violations)+report.LeftOff, "violation")))
	}
	return nil
}

// audit makes the audit of this installation.
func (s *stores) audit(c Config, activity string, wait time.Duration) *consumer.Audit {
	return &consumer.Audit{
		Ledger: s.ledger, Gate: s.gate, Log: s.log, Dead: s.dead(c),
		Activity: activity, Wait: wait,
	}
}

func reportTable(w io.Writer, r consumer.Report) {
	_, _ = fmt.Fprintln(w, "ACTIVITY\tSKU\tTOTAL\tSTOCK\tLIVE\tGATE\tUNDECIDED\tRELEASE DUE\tEPOCH")
	for _, a := range r.Activities {
		for _, s := range a.SKUs {
			gate := "-"
			if s.GateStock != nil {
				gate = fmt.Sprint(*s.GateStock)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\n",
				a.Activity, s.SKU, s.Total, s.Stock, s.Live, gate, s.Undecided, s.ReleaseDue, s.Epoch)
		}
	}
	_, _ = fmt.Fprintf(w, "\nlog: last message %d, %d orders, %d not settled, %d dead letters; at rest: %t\n",
		r.Log.LastSeq, r.Log.Orders, r.Log.Backlog, r.Log.Dead, r.AtRest)
	if len(r.Violations) > 0 {
		_, _ = fmt.Fprintln(w, "\nLAW\tACTIVITY\tSKU\tORDER\tDETAIL")
	}
	for _, v := range r.Violations {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Law, orDash(v.Activity), orDash(v.SKU), orDash(v.Order), v.Detail)
	}
	if r.LeftOff > 0 {
		_, _ = fmt.Fprintf(w, "and %d more\n", r.LeftOff)
	}
}

// orDash fills a cell that would otherwise look like a missing one.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
