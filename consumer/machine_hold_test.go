package consumer

import (
	"context"
	"errors"
)

// ErrTaken ends a hold.
var ErrTaken = errTaken

// Hold is a worker's hold on a partition, for tests that settle step by step.
type Hold struct{ s *settler }

// TakeHold begins a hold as a turn does: term read, lease acquired, term raised,
// consumer set to the ledger's position.
func (w *Worker) TakeHold(ctx context.Context, partition int) (*Hold, error) {
	before, err := w.Ledger.TermOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	lease, err := w.Leases.Acquire(ctx, PartitionLock(partition))
	if err != nil {
		return nil, err
	}
	h := &Hold{s: &settler{Worker: w, lease: lease}}
	term, position, err := w.Ledger.Take(ctx, partition, before, w.Instance)
	if err == nil {
		h.s.term = term
		err = h.s.bind(ctx, position)
	}
	if err != nil {
		return nil, errors.Join(err, h.Drop(ctx))
	}
	return h, nil
}

// Drop ends the hold.
func (h *Hold) Drop(ctx context.Context) error { return h.s.lease.Release(ctx) }

// End says how far a step comes before the worker dies.
type End string

// The ends of a step.
const (
	EndFetched End = "fetched"
	EndSettled End = "settled" // the ledger has committed
	EndTold    End = "told"    // the gate knows
	EndNak     End = "nak"     // the gate knows, and the log is asked to deliver again
	EndDone    End = "done"    // acknowledged
)

// Step takes what the log has, at most n messages, and settles it as far as the end
// says. What it has settled comes back.
func (h *Hold) Step(ctx context.Context, n int, end End) ([]Delivery, error) {
	batch, err := h.s.consumer.FetchNoWait(n)
	if err != nil {
		return nil, err
	}
	messages, err := h.s.collect(nil, batch)
	if err != nil {
		giveBack(messages)
		return nil, err
	}
	if len(messages) == 0 || end == EndFetched {
		return nil, nil
	}
	deliveries := make([]Delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = m.Delivery
	}
	if err := h.settle(ctx, messages, deliveries, end); err != nil {
		giveBack(messages)
		return nil, err
	}
	return deliveries, nil
}

func (h *Hold) settle(ctx context.Context, messages []message, deliveries []Delivery, end End) error {
	if end == EndDone {
		return h.s.settle(ctx, ctx, messages)
	}
	decisions, err := h.s.decide(ctx, ctx, deliveries, messages)
	if err != nil || end == EndSettled {
		return err
	}
	tellGate(ctx, h.s.Gate, h.s.Logger, decisions)
	if end == EndNak {
		giveBack(messages)
	}
	return nil
}

// ExpireUntold expires what is overdue and dies before it tells the gates.
func (l *Ledger) ExpireUntold(ctx context.Context) error {
	_, err := l.expire(ctx)
	return err
}
