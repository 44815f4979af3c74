package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// hold runs one backend. It stops at the first sale that breaks a law, so that the evidence is of that moment.
func (r *chaosRun) hold(ctx context.Context, out io.Writer, o chaosOptions) (err error) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	ground := &ground{program: o.program}
	defer func() { err = errors.Join(err, ground.leave()) }()
	if err := ground.enter(ctx); err != nil {
		return err
	}
	f, err := newField(ctx, ground.servers, o.program, r.lock, "chaos", filepath.Join(ground.dir, "chaos"), 2, nil)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return err
	}
	// Two dice: how many sales the kills take depends on the machine, what is killed must not.
	kills, crowds := schedule(o.seed, "chaos kills", r.lock, 1), schedule(o.seed, "chaos crowds", r.lock, 1)
	for r.kills < o.kills && ctx.Err() == nil {
		activity := fmt.Sprintf("sale-%d", len(r.sales)+1)
		crowd := newBuyers(activity, saleSKUName, chaosBuyers, crowds.Uint64())
		err := r.sale(ctx, out, f, activity, crowd, o.kills, kills)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			r.findings = append(r.findings, err.Error())
		}
		if len(r.findings) > 0 {
			e := evidence{
				f: f, activities: []string{activity}, crowds: []*buyers{crowd}, findings: r.findings,
				command: fmt.Sprintf("seckill-lab chaos --kills %d --lock %s --seed %d", o.kills, r.lock, o.seed),
			}
			r.evidence, err = e.keep(ctx, o.evidence, "chaos-"+r.lock)
			return err
		}
	}
	return nil
}

// sale opens one activity, kills until its crowd has asked, and judges it.
func (r *chaosRun) sale(ctx context.Context, out io.Writer, f *field, activity string, crowd *buyers, kills int, dice *rand.Rand) error {
	if err := f.api().openSale(ctx, activity, "Sale in chaos", saleSKUName, chaosUnits); err != nil {
		return err
	}
	selling, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() {
		_, err := crowd.send(selling, f.public, chaosRate)
		over <- err
	}()
	before := r.kills
	for r.kills < kills {
		if r.next == nil {
			next := nextKill(dice)
			r.next = &next
		}
		err := r.kill(ctx, f, activity, crowd, *r.next)
		if errors.Is(err, errCrowdOver) {
			break // the next sale begins with this kill
		}
		if err != nil {
			stop()
			return errors.Join(fmt.Errorf("kill %d, in %s: %w", r.kills+1, activity, err), <-over)
		}
		r.next = nil
	}
	healed := time.Now()
	patience := time.AfterFunc(restWithin, stop)
	defer patience.Stop()
	if err := <-over; err != nil {
		return err
	}
	told := crowd.told(func(format string, args ...any) {
		r.findings = append(r.findings, activity+": "+fmt.Sprintf(format, args...))
	}, false)
	v := f.awaitRest(ctx, activity, saleSKUName, told, healed)
	for _, text := range append(v.violations, f.died()...) {
		r.findings = append(r.findings, activity+": "+text)
	}
	r.sales = append(r.sales, chaosSale{activity, r.kills - before, len(told.admitted), crowd.kinds, v})
	fmt.Fprintf(out, "%s %s: %d kills (%d of %d), %d answered with 202, %d of %d sold, at rest after %.1fs, %d violations\n",
		r.lock, activity, r.kills-before, r.kills, kills, len(told.admitted), v.live, chaosUnits, v.rested.Seconds(), len(v.violations))
	if !v.clean() {
		return nil // the evidence is kept before anything else is changed
	}
	// A closed sale is rebuilt no more, so that the next one is as fast as the first.
	return f.api().callAdmin(ctx, "POST", "/admin/v1/activities/"+activity+"/close", nil)
}

// kill makes one kill and starts what it took.
func (r *chaosRun) kill(ctx context.Context, f *field, activity string, crowd *buyers, k killEvent) error {
	ctx, cancel := context.WithTimeout(ctx, killStage)
	defer cancel()
	if err := crowd.reach(ctx, crowd.accepted.Load()+k.progress); err != nil {
		return err
	}
	if err := wait(ctx, k.after); err != nil {
		return err
	}
	flying, release, err := f.flying(ctx, activity, crowd, k.full)
	if err != nil {
		return err
	}
	defer release()
	one := killed(k.downtime, k.targets...)
	if _, err := one.strike(ctx, f); err != nil {
		return err
	}
	release()
	if err := wait(ctx, one.lasts); err != nil {
		return err
	}
	if _, err := one.heal(ctx, f); err != nil { // proves the kill by the process ids
		return err
	}
	r.kills++
	r.inFlight = append(r.inFlight, flying)
	if len(k.targets) > 1 {
		r.pairs++
	}
	if k.progress == 0 {
		r.early++
	}
	if flying >= leastInFlight {
		r.full++
	}
	for _, target := range k.targets {
		r.hits[target]++
	}
	return nil
}

// flying counts the orders answered with 202 that have no row yet, and holds the settlement until there are enough
// of them if the kill wants that; release ends the hold.
func (f *field) flying(ctx context.Context, activity string, crowd *buyers, full bool) (n int, release func(), err error) {
	hold, err := f.holdSettlement(ctx, activity, heldUnits)
	if err != nil {
		return 0, nil, err
	}
	if !full {
		defer hold.release()
		return hold.undecided(crowd.admittedIDs()), func() {}, nil
	}
	if err := crowd.reach(ctx, int64(hold.decided+leastInFlight+50)); err != nil {
		hold.release()
		return 0, nil, err
	}
	return hold.undecided(crowd.admittedIDs()), hold.release, nil
}

// median of a list that is not empty.
func median(values []int) int {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func (r *chaosRun) hitList() string {
	var parts []string
	for _, target := range chaosTargets {
		parts = append(parts, fmt.Sprintf("%s %d", target, r.hits[target]))
	}
	return strings.Join(parts, ", ")
}
