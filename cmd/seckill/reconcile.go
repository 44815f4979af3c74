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

// reconciled is what seckill reconcile prints.
type reconciled struct {
	consumer.Plan
	DryRun bool             `json:"dry_run"`
	Audit  *consumer.Report `json:"audit"` // at the end; null after a dry run
}

func newReconcileCommand(p *program) *cobra.Command {
	var activity string
	var dry bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Repair what is safe to repair in gates, log and ledger, and name the rest",
		Long: `Repair what is safe to repair in gates, log and ledger, and name the rest.

Finds what seckill audit finds, and what waits for too long:

  sweep    reservations that are pending for too long are appended again, or the
           gate is told what became of them
  release  units of dead orders go back to the gate, as their rows say
  rebuild  a gate that is absent, closed, suspect, of another epoch, or at odds with
           the ledger at rest is made anew from the ledger

Workers do the same by themselves; no repair gives a unit back on suspicion. All else
(oversold, limit, duplicate, lost, a stock that is not total - live) is named with the
next step and left alone. A gate is not rebuilt while the books of its activity are
broken in this way.

--dry-run shows the plan, changes nothing, and ends with 3 if there is a finding. A
real run ends with an audit: 3 if a law does not hold.`,
		Example: `  seckill reconcile --dry-run
  seckill reconcile --activity spring --reason "gate was edited by hand"
  seckill reconcile --yes --output json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&activity, "activity", "", "`id` of the only activity to reconcile")
	p.suggestActivities(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show the plan and change nothing")
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Second, "how long to wait until everything is at rest, before and after")
	sure := consentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if wait < 0 || wait > time.Hour {
			return wrongUsage(fmt.Errorf("--wait %v: must be between 0s and 1h", wait))
		}
		return p.withStores(cmd, func(ctx context.Context, s *stores, c Config) error {
			r, done, err := s.reconcile(ctx, c, activity, wait)
			if err != nil {
				return err
			}
			defer done()
			if dry {
				return p.planReconcile(ctx, r)
			}
			return p.reconcile(ctx, cmd, sure, r)
		})
	}
	settingFlags(cmd)
	return cmd
}

// reconcile makes the reconciliation of this installation, with leases of its own.
func (s *stores) reconcile(ctx context.Context, c Config, activity string, wait time.Duration) (*consumer.Reconcile, func(), error) {
	recorded, err := s.ledger.Installation(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := recorded.CheckPartitions(c.Partitions); err != nil {
		return nil, nil, wrongUsage(err)
	}
	if recorded.LockBackend != c.LockBackend {
		return nil, nil, wrongUsage(fmt.Errorf("the ledger records %s as the store of the leases: set SECKILL_LOCK_BACKEND=%s", recorded.LockBackend, recorded.LockBackend))
	}
	if c.LockBackend == backendEtcd {
		if err := c.need("ETCD_ENDPOINTS"); err != nil {
			return nil, nil, err
		}
	}
	leases, err := c.openLeases(ctx, c.LockBackend)
	if err != nil {
		return nil, nil, err
	}
	r := &consumer.Reconcile{
		Audit:   s.audit(c, activity, wait),
		Sweep:   &admission.Sweep{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: discard},
		Release: &consumer.Release{Ledger: s.ledger, Gate: s.gate, Logger: discard},
		Rebuild: &admission.Rebuild{Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: discard},
		Leases:  leases, Namespace: c.Namespace,
	}
	return r, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = leases.Close(end) // what is left expires
	}, nil
}

func (p *program) makePlan(ctx context.Context, r *consumer.Reconcile) (consumer.Plan, error) {
	bar := p.newProgress("reading the log", "messages")
	defer bar.end()
	r.Audit.Progress = bar.set
	plan, err := r.Plan(ctx)
	if errors.Is(err, admission.ErrNoActivity) {
		err = fmt.Errorf("reconcile: there is no activity %s; see seckill activity list", r.Audit.Activity)
	}
	return plan, err
}

func (p *program) planReconcile(ctx context.Context, r *consumer.Reconcile) error {
	plan, err := p.makePlan(ctx, r)
	if err != nil {
		return err
	}
	if err := p.show(reconciled{Plan: plan, DryRun: true}, func(w io.Writer) { planTable(w, plan) }); err != nil {
		return err
	}
	if n := len(plan.Findings); n > 0 {
		return finding(fmt.Errorf("%s, %d can be repaired by seckill reconcile", counted(n, "finding"), plan.Repairs()))
	}
	return nil
}

func (p *program) reconcile(ctx context.Context, cmd *cobra.Command, sure *consent, r *consumer.Reconcile) error {
	plan, err := p.makePlan(ctx, r)
	if err != nil {
		return err
	}
	report := plan.Audit
	var failed error
	if plan.Repairs() > 0 {
		if !sure.yes {
			planTable(p.stderr, plan)
		}
		if err := p.ask(cmd, sure, func() (string, error) { return wouldRepair(plan), nil }); err != nil {
			return err
		}
		failed = r.Repair(p.onBehalf(ctx, sure), &plan)
		if report, err = r.Audit.Run(ctx); err != nil {
			return errors.Join(failed, err)
		}
	}
	err = p.show(reconciled{Plan: plan, Audit: &report}, func(w io.Writer) {
		planTable(w, plan)
		_, _ = fmt.Fprintln(w)
		reportTable(w, report)
	})
	switch {
	case err != nil || failed != nil:
		return errors.Join(failed, err)
	case !report.OK:
		return finding(fmt.Errorf("%s left: the books do not agree", counted(len(report.Violations)+report.LeftOff, "violation")))
	}
	return nil
}

func planTable(w io.Writer, plan consumer.Plan) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	if len(plan.Findings) == 0 {
		line("nothing to repair")
	}
	for i, f := range plan.Findings {
		line("%d. activity %s, SKU %s, order %s: %s", i+1, f.Activity, orDash(f.SKU), orDash(f.Order), f.Found)
		if f.Repair == "" {
			line("   not repaired: %s", f.Why)
			line("   next: %s", f.Next)
			continue
		}
		line("   %s: %s", f.Repair, f.Effect)
		line("   safe, because %s", f.Why)
		if f.Result != "" {
			line("   result: %s", f.Result)
		}
	}
	if plan.LeftOff > 0 {
		line("and %d more", plan.LeftOff)
	}
	if !plan.AtRest {
		line("Orders are under way: gates and ledger were not compared. A longer --wait may find a moment of rest.")
	}
}
