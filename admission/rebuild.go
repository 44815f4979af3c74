package admission

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// rebuildPoll is how often a rebuild looks whether the ledger has caught up.
const rebuildPoll = 50 * time.Millisecond

// rebuildGrace is how long a rebuild that was just begun is left alone.
const rebuildGrace = PublishDeadline + time.Second

// fillChunk is how many records one run of the fill script writes.
const fillChunk = 500

// Rebuild makes the gate of an activity anew from the ledger, once everything that
// the old gate admitted is decided. It is also how a gate is opened for the first
// time. Several may run: the one with the newest number wins, the others stop with
// ErrSuperseded. A rebuild that dies leaves a closed gate, and the next one starts
// over.
type Rebuild struct {
	Gate   *Gate
	Log    *Log
	Ledger Ledger
	Logger *slog.Logger
}

// Run rebuilds one gate and returns the epoch that it opened.
func (r *Rebuild) Run(ctx context.Context, activity string) (int64, error) {
	before, err := r.Ledger.Activity(ctx, activity)
	if err != nil {
		return 0, err
	}
	n, err := r.Ledger.NextEpoch(ctx, activity, before.LastEpoch)
	if err != nil {
		return 0, err
	}
	server, err := r.Gate.Server(ctx, activity)
	if err != nil {
		return 0, err
	}
	if err := r.Gate.Close(ctx, activity, n); err != nil {
		return 0, err
	}
	if before.LastEpoch > 0 { // else nobody can have reserved anything
		if err := r.quiesce(ctx, activity, n); err != nil {
			return 0, fmt.Errorf("rebuild the gate of activity %s: %w", activity, err)
		}
	}
	snapshot, err := r.Ledger.Snapshot(ctx, activity, n)
	if err != nil {
		return 0, err
	}
	if err := r.Gate.Fill(ctx, n, snapshot); err != nil {
		return 0, err
	}
	if err := r.Gate.Open(ctx, n, snapshot, server); err != nil {
		return 0, err
	}
	r.Logger.Info("gate opened", "activity", activity, "epoch", n, "orders", len(snapshot.Rows))
	return n, nil
}

// quiesce waits out the publish deadline, after which no append can earn a 202,
// and then until everything the log has of this activity, and everything the
// closed gate has pending, is decided.
func (r *Rebuild) quiesce(ctx context.Context, activity string, n int64) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(PublishDeadline):
	}
	for {
		left, err := r.appendPending(ctx, activity)
		if err != nil {
			return err
		}
		last, err := r.Log.LastSeq(ctx, activity)
		if err != nil {
			return err
		}
		if err := r.settledTo(ctx, activity, n, last); err != nil {
			return err
		}
		again, err := r.Log.LastSeq(ctx, activity)
		if err != nil {
			return err
		}
		// A round that had to append, or a log that lost its tail, is checked again.
		if left == 0 && again >= last {
			return nil
		}
	}
}

// appendPending appends what the closed gate has pending and the ledger does not
// know, and returns how many.
func (r *Rebuild) appendPending(ctx context.Context, activity string) (int, error) {
	appended := 0
	for skip := int64(0); ; {
		p, err := r.Gate.Pending(ctx, activity, time.Time{}, skip)
		if err != nil || p.Page == 0 {
			return appended, err
		}
		if p.Open {
			return appended, ErrSuperseded
		}
		rows, err := r.Ledger.Orders(ctx, orderIDs(p.List))
		if err != nil {
			return appended, err
		}
		missing, _ := sortPending(p.List, rows)
		if err := appendAll(ctx, r.Log, activity, p.Epoch, missing); err != nil {
			return appended, err
		}
		appended += len(missing)
		skip += int64(p.Page)
	}
}

func (r *Rebuild) settledTo(ctx context.Context, activity string, n int64, seq uint64) error {
	tick := time.NewTicker(rebuildPoll)
	defer tick.Stop()
	for {
		settled, err := r.Ledger.Settled(ctx, r.Log.Partition(activity))
		if err != nil {
			return err
		}
		a, err := r.Ledger.Activity(ctx, activity)
		if err != nil {
			return err
		}
		if a.LastEpoch != n {
			return ErrSuperseded
		}
		if settled >= seq {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d log messages are settled; is a worker running?: %w", settled, seq, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// UnderRebuild says whether a rebuild of the gate was begun just now: an epoch is the
// time of its minting. It is left to finish; one that died is taken up after a while.
func (a Activity) UnderRebuild() bool {
	return time.Since(time.UnixMilli(a.LastEpoch)).Abs() < rebuildGrace
}

// Needed says why the gate of an activity has to be rebuilt; empty: it need not be.
// A gate that is closed because somebody works on it looks just like one whose
// rebuilder died: the lease on the rebuild tells them apart.
func (r *Rebuild) Needed(ctx context.Context, activity string) (string, error) {
	a, err := r.Ledger.Activity(ctx, activity)
	if err != nil {
		return "", err
	}
	if a.State != Open && a.State != Paused {
		return "", nil // sells nothing
	}
	view, err := r.Gate.View(ctx, activity)
	if err != nil {
		return "", err
	}
	// Will an operator who opens the activity begin in a moment?
	opening := a.LastEpoch == 0 && time.Since(a.ChangedAt).Abs() < rebuildGrace
	if !view.Ready(a.LastEpoch) && (opening || a.UnderRebuild()) {
		return "", nil
	}
	switch {
	case a.Suspect != "":
		return a.Suspect, nil
	case view.Epoch == 0:
		return "there is no gate", nil
	case view.State != "open":
		return "the gate is closed and nobody works on it", nil
	case view.Epoch != a.Epoch:
		return fmt.Sprintf("the gate is of epoch %d, the ledger of %d", view.Epoch, a.Epoch), nil
	case !view.Trusted:
		return "Redis was restarted, failed over or restored", nil
	case a.Taking:
		return "an operator takes units away", nil
	}
	return "", nil
}
