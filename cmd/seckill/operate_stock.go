package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/admission"
	"seckill/consumer"
)

const (
	// takePoll is how often a caller looks whether a rebuild has taken the units.
	takePoll = 50 * time.Millisecond
	// takePatience is how long the workers have to begin that rebuild.
	takePatience = 3 * time.Second
)

// errTaking says that it is not known yet whether units can be taken away.
var errTaking = errors.New("the change is recorded, and done as soon as all that was admitted is settled; is a worker running?")

// stock adds units to what a SKU has, or takes some away. Units that are added are for
// sale at once. To take some away, the gate is closed and rebuilt, which takes some
// seconds; the call waits until it is done, or refused with consumer.ErrNotEnough.
func (o *operator) stock(ctx context.Context, d consumer.StockDelta) (admission.Activity, error) {
	number, state, err := o.ledger.ChangeStock(ctx, d)
	if err != nil {
		return admission.Activity{}, err
	}
	if state == consumer.DeltaWaiting {
		if err := o.taken(ctx, d.Activity, number); err != nil {
			return admission.Activity{}, err
		}
	}
	return o.bring(ctx, d.Activity)
}

// taken waits until a rebuild has decided the change. It is a worker's task; where
// there is none, and nothing to settle, it is done here.
func (o *operator) taken(ctx context.Context, id string, number int64) error {
	own := time.Now().Add(takePatience)
	for {
		state, err := o.ledger.DeltaState(ctx, number)
		if err == nil && state == consumer.DeltaWaiting && time.Now().After(own) {
			err = o.rebuildIdle(ctx, id)
		}
		switch {
		case ctx.Err() != nil:
			return admission.NewProblem(admission.CodeUnknown, "%v", errTaking).Because(err)
		case err != nil:
			return err
		case state == consumer.DeltaRefused:
			return o.whyRefused(ctx, id)
		case state == consumer.DeltaApplied:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(takePoll):
		}
	}
}

func (o *operator) whyRefused(ctx context.Context, id string) error {
	a, err := o.ledger.Activity(ctx, id)
	if err == nil && a.State == admission.Closed {
		return consumer.ErrClosed
	}
	return errors.Join(err, consumer.ErrNotEnough)
}

// rebuildIdle rebuilds a gate that nobody rebuilds, if nothing has to be settled first.
func (o *operator) rebuildIdle(ctx context.Context, id string) error {
	a, err := o.ledger.Activity(ctx, id)
	if err != nil || !a.Taking || a.UnderRebuild() {
		return err
	}
	view, err := o.gate.View(ctx, id)
	if err != nil || view.Pending > 0 {
		return err
	}
	last, err := o.rebuild.Log.LastSeq(ctx, id)
	if err != nil {
		return err
	}
	settled, err := o.ledger.Settled(ctx, o.rebuild.Log.Partition(id))
	if err != nil || settled < last {
		return err
	}
	if _, err = o.rebuild.Run(ctx, id); errors.Is(err, admission.ErrSuperseded) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take units away: %w", err)
	}
	return nil
}
