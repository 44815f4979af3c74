package admission

import (
	"context"
	"fmt"
	"time"
)

// sweepPoll is how often one sweep looks whether the log is settled far enough.
const sweepPoll = 50 * time.Millisecond

// Overdue is what has been pending at one gate for longer than any node works on a
// reservation, in orders.
type Overdue struct {
	Missing int  // neither in the ledger nor on its way there: to be appended again
	Decided int  // final in the ledger: the gate is to be told
	Waiting int  // not in the ledger, and the log is not settled: perhaps among what waits there
	Behind  bool // a changed total has not reached the gate
}

// Look finds what a sweep of the activity would push, and changes nothing. A gate
// that is absent or closed has nothing to sweep: its rebuild does it.
func (s *Sweep) Look(ctx context.Context, activity string) (Overdue, error) {
	var found Overdue
	a, err := s.Ledger.Activity(ctx, activity)
	if err != nil {
		return found, err
	}
	view, err := s.Gate.View(ctx, activity)
	if err != nil {
		return found, err
	}
	found.Behind = view.Ready(a.Epoch) && view.Behind(a)
	before, last, err := s.horizon(ctx, activity)
	if err != nil {
		return found, err
	}
	settled, err := s.Ledger.Settled(ctx, s.Log.Partition(activity))
	if err != nil {
		return found, err
	}
	for skip := int64(0); ; {
		p, err := s.Gate.Pending(ctx, activity, before, skip)
		if err != nil || !p.Open || p.Page == 0 {
			return found, err
		}
		rows, err := s.Ledger.Orders(ctx, orderIDs(p.List))
		if err != nil {
			return found, err
		}
		missing, outcomes := sortPending(p.List, rows)
		found.Decided += len(outcomes)
		if settled < last {
			found.Waiting += len(missing)
		} else {
			found.Missing += len(missing)
		}
		skip += int64(p.Page)
	}
}

// Once sweeps one activity to the end: what operators have changed is brought to the
// gate, and what is overdue now is appended again, or told its outcome, as soon as the
// log is settled to where it ends now. It is independent of Run and Round.
func (s *Sweep) Once(ctx context.Context, activity string) error {
	if err := s.bring(ctx, activity); err != nil {
		return err
	}
	tick := time.NewTicker(sweepPoll)
	defer tick.Stop()
	before, last, err := s.horizon(ctx, activity)
	if err != nil {
		return err
	}
	for {
		settled, err := s.Ledger.Settled(ctx, s.Log.Partition(activity))
		if err != nil {
			return err
		}
		if settled >= last {
			return s.push(ctx, activity, before)
		}
		now, err := s.Log.LastSeq(ctx, activity)
		if err != nil {
			return err
		}
		last = min(last, now) // the log may lose its tail
		select {
		case <-ctx.Done():
			return fmt.Errorf("sweep activity %s: %d of %d log messages are settled; is a worker running?: %w",
				activity, settled, last, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// horizon is what is overdue now, and then the end of the activity's log.
func (s *Sweep) horizon(ctx context.Context, activity string) (before time.Time, last uint64, err error) {
	now, err := s.Gate.Now(ctx, activity)
	if err != nil {
		return before, 0, err
	}
	last, err = s.Log.LastSeq(ctx, activity)
	return now.Add(-overdue), last, err
}
