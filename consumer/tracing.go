package consumer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"seckill/admission"
)

var sqlTrace = statement("trace")

const traceparent = "traceparent"

// takeOver begins the step that settles messages: it goes on from the batches of those
// that are traced.
func (s *settler) takeOver(hold context.Context, messages []message) (context.Context, admission.Step) {
	if s.Tracing == nil {
		return hold, admission.Step{}
	}
	var from []trace.Link
	orders := 0
	for _, m := range messages {
		orders += len(m.Orders)
		if link, traced := admission.TraceOf(m.Headers()); traced {
			from = append(from, link)
		}
	}
	ctx, step := s.Tracing.Follow(hold, "settle", trace.SpanKindConsumer, from)
	if step.Traced() {
		step.Set(attribute.Int("seckill.partition", s.term.Partition), attribute.Int64("seckill.term", s.term.Number),
			attribute.Int("seckill.batch_size", orders), attribute.Int64("seckill.seq", int64(messages[len(messages)-1].Seq)))
	}
	return ctx, step
}

// traceparentOf is what carries the traced step of ctx on; empty if there is none.
func traceparentOf(ctx context.Context) string {
	var msg nats.Msg
	admission.TraceOnto(ctx, &msg)
	return msg.Header.Get(traceparent)
}

// queueTrace tells the transaction its trace, so that the events of its changes go on
// with it. It reports whether there is an answer to read.
func queueTrace(ctx context.Context, batch *pgx.Batch) bool {
	parent := traceparentOf(ctx)
	if parent == "" {
		return false
	}
	batch.Queue(sqlTrace, parent)
	return true
}

// tellTrace is queueTrace for a transaction of single statements.
func tellTrace(ctx context.Context, tx pgx.Tx) error {
	parent := traceparentOf(ctx)
	if parent == "" {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlTrace, parent); err != nil {
		return fmt.Errorf("tell the transaction its trace: %w", err)
	}
	return nil
}

// goOn begins the step that publishes the event of a change.
func (c change) goOn(ctx context.Context, t *admission.Tracing) (context.Context, admission.Step) {
	if t == nil || c.traceparent == "" {
		return ctx, admission.Step{}
	}
	link, traced := admission.TraceOf(nats.Header{traceparent: {c.traceparent}})
	if !traced {
		return ctx, admission.Step{}
	}
	ctx, step := t.Follow(ctx, "event", trace.SpanKindProducer, []trace.Link{link})
	step.Set(attribute.String("seckill.activity", c.Activity), attribute.String("seckill.order", c.ID), attribute.String("seckill.status", string(c.Status)))
	return ctx, step
}
