package main

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"seckill/lockprovider"
)

// leaseTracer records acquisitions and holds of leases, each as a trace of its own: a
// hold may last for days, and what is done under it is not within.
type leaseTracer struct{ tracer trace.Tracer }

func (t leaseTracer) Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, lockprovider.Span) {
	_, span := t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attributesOf(attrs)...))
	return ctx, leaseSpan{span}
}

type leaseSpan struct{ span trace.Span }

// Event notes what happened; of many, the library keeps the last 128.
func (s leaseSpan) Event(name string, attrs ...slog.Attr) {
	s.span.AddEvent(name, trace.WithAttributes(attributesOf(attrs)...))
}

// End sends the span, save that of a look which found another holder: every process
// looks again and again at what others hold, and the metrics count it.
func (s leaseSpan) End(err error) {
	if errors.Is(err, lockprovider.ErrHeld) {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

func attributesOf(attrs []slog.Attr) []attribute.KeyValue {
	list := make([]attribute.KeyValue, len(attrs))
	for i, a := range attrs {
		list[i] = attribute.String("seckill.lock."+a.Key, a.Value.String())
	}
	return list
}
