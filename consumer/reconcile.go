package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/admission"
	"seckill/lockprovider"
)

// The repairs of a reconciliation. Each is what a worker does by itself; none gives a
// unit back on suspicion.
const (
	// RepairSweep appends overdue reservations again, or tells the gate what became
	// of them.
	RepairSweep = "sweep"
	// RepairRelease gives the units of dead orders back, as their rows say.
	RepairRelease = "release"
	// RepairRebuild makes the gate anew from the ledger.
	RepairRebuild = "rebuild"
)

// repairTimeout bounds one repair. A rebuild that takes longer is finished by the
// next one, of a worker.
const repairTimeout = time.Minute

// Finding is one thing that is not as it should be, and what is done about it.
type Finding struct {
	Activity string `json:"activity"`
	SKU      string `json:"sku,omitempty"`
	Order    string `json:"order,omitempty"`
	Law      string `json:"law,omitempty"` // of the audit, if it has one
	Found    string `json:"found"`
	Repair   string `json:"repair,omitempty"` // sweep, release or rebuild; empty: none is safe
	Effect   string `json:"effect,omitempty"` // of the repair
	Why      string `json:"why"`              // the repair is safe, or none is
	Next     string `json:"next,omitempty"`   // for the operator, if there is no repair
	Result   string `json:"result,omitempty"` // of the repair; empty: it was not tried

	epoch int64 // of the gate when it was looked at
}

// Plan is what a reconciliation found and would do.
type Plan struct {
	// AtRest says that everything could be judged. Else ledger and gates were not
	// compared, since they moved.
	AtRest   bool      `json:"at_rest"`
	Findings []Finding `json:"findings"`
	LeftOff  int       `json:"findings_left_off,omitempty"` // beyond the longest list of an audit

	Audit Report `json:"-"` // which the plan was made from
}

// Repairs counts the findings that can be repaired.
func (p Plan) Repairs() int {
	n := 0
	for _, f := range p.Findings {
		if f.Repair != "" {
			n++
		}
	}
	return n
}

// Reconcile finds what an audit finds and what waits for too long, repairs what is
// safe to repair, and names the rest. Set all fields. It may run beside workers and
// beside other reconciliations, any number of times.
type Reconcile struct {
	Audit     *Audit // which activity, and how long to wait for rest
	Sweep     *admission.Sweep
	Release   *Release
	Rebuild   *admission.Rebuild
	Leases    *lockprovider.Provider
	Namespace string // for the SQL that is named to the operator
}

// Repair does what the plan says, writes each repair to the activity log before it
// begins, and notes every result in the plan. It goes on past a repair that fails
// and returns all errors.
func (r *Reconcile) Repair(ctx context.Context, plan *Plan) error {
	var errs []error
	for _, repair := range []string{RepairSweep, RepairRebuild, RepairRelease} {
		for i := range plan.Findings {
			f := &plan.Findings[i]
			if f.Repair != repair {
				continue
			}
			if err := r.repair(ctx, f, plan.AtRest); err != nil {
				f.Result = "failed: " + err.Error()
				errs = append(errs, fmt.Errorf("reconcile: %s of activity %s: %w", f.Repair, f.Activity, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Reconcile) repair(ctx context.Context, f *Finding, atRest bool) error {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	if err := r.Audit.Ledger.Note(ctx, "reconcile by "+f.Repair, f.Activity, f.Found); err != nil {
		return err
	}
	f.Result = "done"
	switch f.Repair {
	case RepairSweep:
		return r.Sweep.Once(ctx, f.Activity)
	case RepairRelease:
		return r.Release.once(ctx, f.Activity)
	}
	return r.rebuild(ctx, f, atRest)
}

// rebuild rebuilds a gate under its lease, unless somebody else does or did.
func (r *Reconcile) rebuild(ctx context.Context, f *Finding, atRest bool) error {
	workers, err := r.workers(ctx)
	if err != nil {
		return err
	}
	if workers == 0 && !atRest {
		// It would close the gate and wait in vain.
		return errors.New("no worker is running to settle what the gate has admitted: start one (seckill serve --roles worker), then reconcile again")
	}
	name := "rebuild/" + f.Activity
	lease, err := r.Leases.TryAcquire(ctx, name, lockprovider.WithNote("reconcile"), lockprovider.WithPurpose("rebuild"))
	if errors.Is(err, lockprovider.ErrHeld) {
		f.Result = "left to the holder of the lease " + name
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = lease.Release(release)
	}()
	a, err := r.Audit.Ledger.Activity(ctx, f.Activity)
	if err != nil {
		return err
	}
	if a.Epoch > f.epoch {
		f.Result = fmt.Sprintf("somebody else has rebuilt it: epoch %d", a.Epoch)
		return nil
	}
	n, err := r.Rebuild.Run(lease.Context(), f.Activity)
	if errors.Is(err, admission.ErrSuperseded) {
		f.Result = "left to a newer rebuild"
		return nil
	}
	if err == nil {
		f.Result = fmt.Sprintf("done: epoch %d", n)
	}
	return err
}

// workers counts the workers of the installation.
func (r *Reconcile) workers(ctx context.Context) (int, error) {
	members, err := r.Leases.List(ctx, memberPrefix)
	if err != nil {
		return 0, fmt.Errorf("ask the lock store which workers there are: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return len(members), nil
}

// once gives back everything of one activity that is due now.
func (r *Release) once(ctx context.Context, activity string) error {
	lives, err := r.Ledger.releaseLives(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, life := range lives {
		if life.activity == activity {
			errs = append(errs, r.life(ctx, life))
		}
	}
	return errors.Join(errs...)
}
