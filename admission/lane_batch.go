package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// admission is a batch after the gate: what to append, and who waits for it.
type admission struct {
	batch   Batch
	waiters []*waiter
	replies []reply
	waits   []bool // the reply is true only when the append is
}

// reserve asks the gate for the whole batch, once more if the node knew an older
// epoch than the ledger's.
func (l *lane) reserve(ctx context.Context, batch []*waiter) (admission, error) {
	s := l.service
	orders := make([]Order, len(batch))
	for i, w := range batch {
		orders[i] = w.order
	}
	s.metrics.batchSize.Observe(float64(len(orders)))
	p, err := s.catalog.get(ctx, l.activity, -1)
	if err != nil {
		return admission{}, AsProblem(err)
	}
	verdicts, err := l.ask(ctx, p.activity.Epoch, orders)
	var notReady *NotReadyError
	if errors.As(err, &notReady) {
		before := p.activity.Epoch
		if p, err = s.catalog.get(ctx, l.activity, 0); err != nil {
			return admission{}, AsProblem(err)
		}
		err = notReady
		if p.activity.Epoch != before {
			verdicts, err = l.ask(ctx, p.activity.Epoch, orders)
		}
	}
	if err != nil {
		return admission{}, l.refusal(err, p.activity)
	}
	return l.sort(p.activity, batch, verdicts), nil
}

// ask runs the gate's script once, under the eyes of the breaker. A gate that is not
// ready has answered.
func (l *lane) ask(ctx context.Context, epoch int64, orders []Order) ([]Verdict, error) {
	s := l.service
	done := s.gateBreaker.watch()
	ctx, step := s.tracing.Begin(ctx, "reserve", trace.SpanKindClient)
	verdicts, err := s.gate.Reserve(ctx, l.activity, epoch, s.config.BacklogLimit, orders)
	var notReady *NotReadyError
	if errors.As(err, &notReady) {
		done(nil)
	} else {
		done(err)
	}
	step.End(err)
	return verdicts, err
}

// append writes the batch to the log, under the eyes of the breaker. A log that
// refuses has answered: the lane turns buyers away for it by itself.
func (l *lane) append(ctx context.Context, b Batch) error {
	done := l.service.logBreaker.watch()
	ctx, step := l.service.tracing.Begin(ctx, "append", trace.SpanKindProducer)
	seq, err := l.service.log.Append(ctx, b)
	if step.Traced() {
		step.Set(attribute.String("seckill.batch", b.ID), attribute.Int("seckill.batch_size", len(b.Orders)), attribute.Int64("seckill.seq", int64(seq)))
	}
	step.End(err)
	if errors.Is(err, ErrAppendRefused) {
		done(nil)
	} else {
		done(err)
	}
	return err
}

// refusal is the answer to everybody in a batch that the gate did not judge.
func (l *lane) refusal(err error, a Activity) error {
	var notReady *NotReadyError
	if errors.As(err, &notReady) {
		return refusedBy(a, err)
	}
	// The script may have run: the sweep pushes forward what it reserved.
	l.service.logger.Warn("gate did not answer", "activity", l.activity, "error", err)
	return unknownOutcome("").Because(err)
}

// sort turns verdicts into replies and collects what has to be in the log before
// they may be given: new orders, and pending ones of which this node has not seen
// the append (the node that reserved them may be gone).
func (l *lane) sort(activity Activity, batch []*waiter, verdicts []Verdict) admission {
	a := admission{
		batch: NewBatch(l.activity, activity.Epoch), waiters: batch,
		replies: make([]reply, len(batch)), waits: make([]bool, len(batch)),
	}
	pending := map[string]bool{}
	for i, v := range verdicts {
		r := v.Reservation
		l.remember(v, batch[i].order.SKU)
		switch v.Kind {
		case VerdictReserved, VerdictKnown:
			a.replies[i] = reply{reservation: r, repeat: v.Kind == VerdictKnown}
			if r.State != Pending || l.service.acked.has(r.ID) {
				continue
			}
			a.waits[i] = true
			if !pending[r.ID] {
				pending[r.ID] = true
				a.batch.Orders = append(a.batch.Orders, r.Order)
			}
		default:
			a.replies[i] = reply{err: refusedOrder(activity, v, batch[i].order)}
		}
	}
	return a
}

func soldOutOf(sku string) *Problem { return NewProblem(CodeSoldOut, "%s is sold out.", sku) }

func refusedOrder(a Activity, v Verdict, o Order) error {
	switch v.Kind {
	case VerdictNotStarted:
		return notStarted(a)
	case VerdictEnded:
		return NewProblem(CodeEnded, "The sale %s has ended.", a.ID)
	case VerdictPaused:
		return NewProblem(CodePaused, "The sale %s is paused; ask again in a moment.", a.ID)
	case VerdictLimit:
		p := NewProblem(CodeLimitReached, "You have reached the limit of %s for one buyer.", o.SKU)
		ids := v.Orders
		if ids == nil {
			ids = []string{}
		}
		p.Members = map[string]any{"orders": ids}
		return p
	case VerdictSoldOut:
		return soldOutOf(o.SKU)
	case VerdictNoSKU:
		return NewProblem(CodeNotFound, "The sale has no SKU %s.", o.SKU)
	case VerdictBacklog:
		return NewProblem(CodeOverloaded, "Too many orders are being settled; ask again in a moment.").by("backlog")
	}
	return NewProblem(CodeInternal, "The gate's answer was not understood.")
}

// finish appends the batch and gives every reply. Replies that do not need the
// append are not held up by it.
func (l *lane) finish(ctx context.Context, a admission) {
	for i, w := range a.waiters {
		if !a.waits[i] {
			w.reply <- a.replies[i]
		}
	}
	if len(a.batch.Orders) == 0 {
		return
	}
	began := time.Now()
	err := l.append(ctx, a.batch)
	l.service.metrics.append.Observe(time.Since(began).Seconds())
	if err == nil {
		l.service.acked.add(a.batch.Orders)
	}
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("the ack of batch %s came after the publish deadline: %w", a.batch.ID, ErrAppendUnknown)
	}
	if err != nil { // before anybody is told: who asks next is turned away
		l.refused(a.batch, err)
	}
	for i, w := range a.waiters {
		if !a.waits[i] {
			continue
		}
		if err != nil {
			p := unknownOutcome(orderPath(l.activity, a.replies[i].reservation.ID)).Because(err)
			p.Members = map[string]any{"order_id": a.replies[i].reservation.ID}
			a.replies[i] = reply{err: p}
		}
		w.reply <- a.replies[i]
	}
}

// refused turns buyers away before the gate until the log has taken the batch that
// it did not acknowledge: the batch is its own probe.
func (l *lane) refused(b Batch, err error) {
	s := l.service
	if !l.refusing.CompareAndSwap(false, true) {
		return // another batch probes already; the sweep brings this one
	}
	s.logger.Warn("order log takes no orders: buyers are turned away until it does", "activity", l.activity, "error", err)
	s.work.Go(func() {
		defer l.refusing.Store(false)
		// A node that stops leaves the batch to the sweep.
		for s.open.Err() == nil {
			ctx, cancel := context.WithTimeout(s.open, PublishDeadline)
			err := l.append(ctx, b)
			cancel()
			if err == nil {
				s.acked.add(b.Orders)
				s.logger.Info("order log takes orders again", "activity", l.activity)
				return
			}
			select {
			case <-s.open.Done():
			case <-time.After(retryRefused):
			}
		}
	})
}
