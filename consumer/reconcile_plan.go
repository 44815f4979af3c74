package consumer

import (
	"context"
	"fmt"
)

// Plan looks at everything and changes nothing.
func (r *Reconcile) Plan(ctx context.Context) (Plan, error) {
	report, err := r.Audit.Run(ctx)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{AtRest: report.AtRest, LeftOff: report.LeftOff, Findings: []Finding{}, Audit: report}
	for _, a := range report.Activities {
		found, err := r.look(ctx, report, a.Activity)
		if err != nil {
			return Plan{}, fmt.Errorf("reconcile activity %s: %w", a.Activity, err)
		}
		plan.Findings = append(plan.Findings, found...)
	}
	for _, v := range report.Violations {
		if !v.gate {
			plan.Findings = append(plan.Findings, r.byHand(v))
		}
	}
	return plan, nil
}

// look finds what can be repaired of one activity.
func (r *Reconcile) look(ctx context.Context, report Report, id string) ([]Finding, error) {
	a, err := r.Audit.Ledger.Activity(ctx, id)
	if err != nil || a.LastEpoch == 0 { // it has never had a gate
		return nil, err
	}
	var found []Finding
	rebuild, err := r.lookAtGate(ctx, report, id)
	if err != nil {
		return nil, err
	}
	if rebuild != nil {
		rebuild.epoch = a.Epoch
		found = append(found, *rebuild)
	}
	if rebuild == nil { // a rebuild pushes what is pending, too
		swept, err := r.lookAtPending(ctx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, swept...)
	}
	due, err := r.Audit.Ledger.ReleaseDue(ctx, id)
	if err != nil {
		return nil, err
	}
	if due > 0 {
		found = append(found, Finding{
			Activity: id, Found: fmt.Sprintf("the units of %d dead orders have yet to be given back at the gate", due),
			Repair: RepairRelease, Effect: "the gate gives each of them back, if it still has it charged",
			Why: "their rows say so, and a gate releases an order once",
		})
	}
	return found, nil
}

func (r *Reconcile) lookAtPending(ctx context.Context, id string) ([]Finding, error) {
	overdue, err := r.Sweep.Look(ctx, id)
	if err != nil {
		return nil, err
	}
	var found []Finding
	if n := overdue.Missing + overdue.Decided; n > 0 {
		found = append(found, Finding{
			Activity: id, Found: fmt.Sprintf("%d reservations are pending for too long: %d are not in the ledger, %d are decided", n, overdue.Missing, overdue.Decided),
			Repair: RepairSweep, Effect: "the former are appended to the log again, the gate is told of the latter",
			Why: "an order is settled once, however often the log has it; nothing is given back",
		})
	}
	if overdue.Behind {
		found = append(found, Finding{
			Activity: id, Found: "an operator has changed a total, and the gate does not have it yet",
			Repair: RepairSweep, Effect: "the gate gets the units that were added",
			Why: "the gate takes the newest version of a total, once",
		})
	}
	if overdue.Waiting == 0 {
		return found, nil
	}
	if workers, err := r.workers(ctx); err == nil && workers == 0 {
		found = append(found, Finding{
			Activity: id, Found: fmt.Sprintf("%d orders wait for the log to be settled, and no worker is running", overdue.Waiting),
			Why: "settling is a worker's task", Next: "seckill serve --roles worker",
		})
	}
	return found, nil
}

// lookAtGate finds out whether the gate has to be made anew, and whether it may.
func (r *Reconcile) lookAtGate(ctx context.Context, report Report, id string) (*Finding, error) {
	why, err := r.Rebuild.Needed(ctx, id)
	if err != nil {
		return nil, err
	}
	law := ""
	broken, differs := false, ""
	for _, v := range report.Violations {
		switch {
		case v.Activity != id || v.Law == LawLimit:
		case !v.gate:
			broken = true
		case differs == "":
			differs, law = v.Detail, v.Law
		}
	}
	if wrong := report.WrongGate(id); wrong != "" {
		differs = wrong
	}
	if why == "" {
		why = differs
	}
	switch {
	case why == "":
		return nil, nil
	case broken:
		return &Finding{
			Activity: id, Law: law, Found: "the gate has to be rebuilt: " + why,
			Why:  "the books of ledger or log are broken themselves, and the gate would be filled from them; an order settled later would be stale for it",
			Next: "mend the other findings of this activity first, then: seckill reconcile --activity " + id,
		}, nil
	}
	return &Finding{
		Activity: id, Law: law, Found: "the gate cannot be right: " + why,
		Repair: RepairRebuild, Effect: "it is closed, and filled from the ledger once all that it admitted is decided; buyers get not-ready for some seconds",
		Why: "the ledger decides, and what the gate admitted is pushed forward first",
	}, nil
}

// byHand names what an operator has to decide.
func (r *Reconcile) byHand(v Violation) Finding {
	f := Finding{
		Activity: v.Activity, SKU: v.SKU, Order: v.Order, Law: v.Law, Found: v.Detail,
		Why: "which of the books is right cannot be told from the books",
	}
	orders := r.Namespace + ".orders"
	switch {
	case v.Law == LawLost:
		f.Why = "settling it again is a replay, which takes a decision about the sale as it now stands"
		f.Next = "seckill replay run --order " + v.Order + " --mode republish"
	case v.Law == LawLimit:
		f.Why = "somebody has to choose which order is cancelled"
		f.Next = fmt.Sprintf("select * from %s where activity_id = '%s' and sku_id = '%s' and user_id = (select user_id from %s where id = '%s' limit 1)",
			orders, v.Activity, v.SKU, orders, v.Order)
	case v.Law == LawDuplicate:
		f.Next = fmt.Sprintf("select o.* from %s o join %s d on d.id = '%s' and (o.id = d.id or (o.activity_id, o.user_id, o.key) = (d.activity_id, d.user_id, d.key))",
			orders, orders, v.Order)
	case v.Order != "":
		f.Next = fmt.Sprintf("select * from %s where id = '%s'", orders, v.Order)
	default:
		f.Next = fmt.Sprintf("select s.total, s.stock, (select coalesce(sum(o.quantity), 0) from %s o where o.activity_id = s.activity_id and o.sku_id = s.sku_id"+
			" and o.status in ('pending_payment', 'confirmed', 'paid')) as live from %s.skus s where s.activity_id = '%s' and s.sku_id = '%s'",
			orders, r.Namespace, v.Activity, v.SKU)
	}
	if v.Law == LawOversold {
		f.Why = "somebody has to choose which orders are cancelled, or to raise the total"
	}
	return f
}
