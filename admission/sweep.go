package admission

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	sweepEvery = time.Second
	// overdue is the age at which a pending reservation may belong to a node that
	// is gone: no node works on one longer than the publish deadline.
	overdue = PublishDeadline + time.Second
)

// Sweep pushes forward what a crash has left: a pending reservation whose append
// or whose outcome got lost is appended again, or told its outcome. It never gives
// anything back, so it may run anywhere, any number of times; one at a time is
// enough.
type Sweep struct {
	Gate   *Gate
	Log    *Log
	Ledger Ledger
	Logger *slog.Logger

	marks map[string]mark
}

// mark remembers, for reservations made before a time, the last message that the
// log had when they became overdue. Only when the partition is settled beyond it is
// one without a row really missing, and not just waiting in a backlog.
type mark struct {
	before  time.Time
	lastSeq uint64
}

// Run sweeps every second until ctx ends.
func (s *Sweep) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Round(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("sweep of pending reservations is incomplete; it goes on", "error", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Round looks at every activity once. It goes on past one that fails and returns
// all errors.
func (s *Sweep) Round(ctx context.Context) error {
	ids, err := s.Ledger.Activities(ctx)
	if err != nil {
		return err
	}
	if s.marks == nil {
		s.marks = map[string]mark{}
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.activity(ctx, id))
	}
	return errors.Join(errs...)
}

func (s *Sweep) activity(ctx context.Context, id string) error {
	var notReady *NotReadyError
	if err := s.bring(ctx, id); err != nil {
		if errors.As(err, &notReady) {
			return nil // absent or being rebuilt: the rebuild pushes what is pending
		}
		return err
	}
	m, ok := s.marks[id]
	if !ok {
		return s.mark(ctx, id)
	}
	settled, err := s.Ledger.Settled(ctx, s.Log.Partition(id))
	if err != nil {
		return err
	}
	if settled < m.lastSeq {
		return s.recheck(ctx, id, m)
	}
	delete(s.marks, id)
	return s.push(ctx, id, m.before)
}

// bring takes an operator's change that did not reach the gate there, and gives the
// gate of a closed sale an end.
func (s *Sweep) bring(ctx context.Context, id string) error {
	a, err := s.Ledger.Activity(ctx, id)
	if err != nil {
		return err
	}
	if err := s.Gate.Bring(ctx, a); err != nil || a.State != Closed {
		return err
	}
	return s.Gate.End(ctx, a)
}

// recheck drops a mark that the log can no longer reach: it has lost its tail or was
// made anew.
func (s *Sweep) recheck(ctx context.Context, id string, m mark) error {
	last, err := s.Log.LastSeq(ctx, id)
	if err == nil && last < m.lastSeq {
		delete(s.marks, id)
	}
	return err
}

// mark notes what is overdue now, if anything is.
func (s *Sweep) mark(ctx context.Context, id string) error {
	now, err := s.Gate.Now(ctx, id)
	if err != nil {
		return err
	}
	before := now.Add(-overdue)
	p, err := s.Gate.Pending(ctx, id, before, 0)
	if err != nil || !p.Open || len(p.List) == 0 {
		return err
	}
	last, err := s.Log.LastSeq(ctx, id)
	if err != nil {
		return err
	}
	s.marks[id] = mark{before: before, lastSeq: last}
	return nil
}

func (s *Sweep) push(ctx context.Context, id string, before time.Time) error {
	for skip := int64(0); ; {
		p, err := s.Gate.Pending(ctx, id, before, skip)
		if err != nil || !p.Open || p.Page == 0 {
			return err
		}
		rows, err := s.Ledger.Orders(ctx, orderIDs(p.List))
		if err != nil {
			return err
		}
		missing, outcomes := sortPending(p.List, rows)
		if err := s.Gate.Settle(ctx, id, p.Epoch, outcomes); err != nil {
			return err
		}
		if err := appendAll(ctx, s.Log, id, p.Epoch, missing); err != nil {
			return err
		}
		if len(missing)+len(outcomes) > 0 {
			s.Logger.Info("swept pending reservations", "activity", id, "appended", len(missing), "told", len(outcomes))
		}
		// What was told is no longer pending; the rest still stands in the list.
		skip += int64(p.Page - len(outcomes))
	}
}

func orderIDs(orders []Order) []string {
	ids := make([]string, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	return ids
}

// sortPending splits pending reservations into those the ledger does not know and
// the outcomes of those it has decided; held ones are left alone.
func sortPending(pending []Order, rows map[string]Row) (missing []Order, outcomes []Outcome) {
	for _, o := range pending {
		row, ok := rows[o.ID]
		switch {
		case !ok:
			missing = append(missing, o)
		case row.Status != Held:
			outcomes = append(outcomes, Outcome{ID: o.ID, Live: row.Status.Live()})
		}
	}
	return missing, outcomes
}

// appendAll appends orders under the epoch of their reservation, in as many
// batches as the bounds ask for, and waits for each.
func appendAll(ctx context.Context, log *Log, activity string, epoch int64, orders []Order) error {
	for len(orders) > 0 {
		b := NewBatch(activity, epoch)
		for len(orders) > 0 && b.Add(orders[0]) {
			orders = orders[1:]
		}
		attempt, cancel := context.WithTimeout(ctx, PublishDeadline)
		_, err := log.Append(attempt, b)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
