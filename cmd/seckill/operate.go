package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

// operator is what operators can do to an activity, by HTTP or by command. Each step
// may be repeated, after a time-out too, and returns the activity as it then is.
type operator struct {
	ledger  *consumer.Ledger
	gate    *admission.Gate
	rebuild *admission.Rebuild
}

func (s *stores) operator(logger *slog.Logger) *operator {
	return &operator{ledger: s.ledger, gate: s.gate, rebuild: &admission.Rebuild{
		Gate: s.gate, Log: s.log, Ledger: s.ledger, Logger: logger,
	}}
}

// list reads every activity.
func (o *operator) list(ctx context.Context) ([]activityAdminView, error) {
	ids, err := o.ledger.AllActivities(ctx)
	if err != nil {
		return nil, err
	}
	views := []activityAdminView{}
	for _, id := range ids {
		a, err := o.ledger.Activity(ctx, id)
		if err != nil {
			return nil, err
		}
		views = append(views, viewActivity(a))
	}
	return views, nil
}

// put creates an activity or changes what may be changed, and says whether it is new.
func (o *operator) put(ctx context.Context, a admission.Activity) (created bool, _ admission.Activity, err error) {
	created, err = o.ledger.Put(ctx, a)
	if err != nil {
		return false, admission.Activity{}, err
	}
	a, err = o.bring(ctx, a.ID)
	return created, a, err
}

// open moves a draft to open and makes its gate. Opening again only makes sure of
// the gate.
func (o *operator) open(ctx context.Context, id string) (admission.Activity, error) {
	activity, err := o.ledger.Activity(ctx, id)
	if err == nil && activity.State != admission.Paused {
		activity, err = o.ledger.SetState(ctx, id, admission.Open)
	}
	if err != nil {
		return activity, err
	}
	if err := o.fill(ctx, id); err != nil {
		return activity, err
	}
	return o.bring(ctx, id)
}

// fillPoll is how often an opening looks whether somebody else has made the gate.
const fillPoll = 50 * time.Millisecond

// fill makes sure that there is a gate. When somebody else makes it at the same time,
// their work counts, and is waited for.
func (o *operator) fill(ctx context.Context, id string) error {
	for {
		activity, err := o.ledger.Activity(ctx, id)
		if err != nil {
			return err
		}
		view, err := o.gate.View(ctx, id)
		if err != nil || view.Ready(activity.Epoch) {
			return err
		}
		if !activity.UnderRebuild() {
			if _, err = o.rebuild.Run(ctx, id); !errors.Is(err, admission.ErrSuperseded) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the gate of activity %s, which somebody makes: %w", id, context.Cause(ctx))
		case <-time.After(fillPoll):
		}
	}
}

func (o *operator) pause(ctx context.Context, id string) (admission.Activity, error) {
	return o.move(ctx, id, admission.Paused)
}

func (o *operator) close(ctx context.Context, id string) (admission.Activity, error) {
	return o.move(ctx, id, admission.Closed)
}

func (o *operator) resume(ctx context.Context, id string) (admission.Activity, error) {
	activity, err := o.ledger.Activity(ctx, id)
	if err == nil && activity.State == admission.Draft {
		err = consumer.ErrNotOpen
	}
	if err != nil {
		return activity, err
	}
	return o.move(ctx, id, admission.Open)
}

func (o *operator) move(ctx context.Context, id string, to admission.State) (admission.Activity, error) {
	if a, err := o.ledger.SetState(ctx, id, to); err != nil {
		return a, err
	}
	return o.bring(ctx, id)
}

// bring takes what the ledger now says to the gate, so that the answer is true when
// it is given. A gate that is being rebuilt takes it from the ledger.
func (o *operator) bring(ctx context.Context, id string) (admission.Activity, error) {
	activity, err := o.ledger.Activity(ctx, id)
	if err != nil {
		return activity, err
	}
	if activity.Epoch > 0 {
		var notReady *admission.NotReadyError
		if err := o.gate.Bring(ctx, activity); err != nil && !errors.As(err, &notReady) {
			return activity, err
		}
	}
	return activity, nil
}
