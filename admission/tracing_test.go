package admission

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/nats-io/nats.go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// Without tracing, or for what is not sampled, no step allocates anything.
func TestUntracedCostsNothing(t *testing.T) {
	var none *Tracing
	request := httptest.NewRequest(http.MethodPost, "/v1/activities/a1/orders", nil)
	request.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	waiters := []*waiter{{}, {}}
	msg := &nats.Msg{}
	failed := errors.New("failed")
	n := testing.AllocsPerRun(100, func() {
		ctx, step := none.ask(request)
		_ = none.of(ctx)
		batch, whole := none.batch(ctx, "a1", waiters)
		inner, part := none.Begin(batch, "append", trace.SpanKindProducer)
		TraceOnto(inner, msg)
		part.End(failed)
		whole.End(nil)
		step.asked("a1", Placed{}, failed)
		_, other := none.request(request, "pay", paymentsRoute)
		other.answered("", http.StatusOK)
		_, round := none.Root(request.Context(), "expire")
		round.End(nil)
	})
	if n != 0 || msg.Header != nil {
		t.Errorf("%v allocations, header %v", n, msg.Header)
	}
}

// Who may say which trace a request belongs to: a trusted proxy, and nobody else.
func TestTraceparentOfStrangers(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	tracing := NewTracing(provider, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	const sent = "4bf92f3577b34da6a3ce929d0e0e4736"
	for from, believed := range map[string]bool{"10.1.2.3:4": true, "192.0.2.1:4": false, "[::ffff:10.1.2.3]:4": true, "nonsense": false} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
		r.RemoteAddr = from
		r.Header.Set("Traceparent", "00-"+sent+"-00f067aa0ba902b7-01")
		ctx, step := tracing.ask(r)
		step.asked("a1", Placed{}, NewProblem(CodeSoldOut, ""))
		if got := trace.SpanContextFromContext(ctx).TraceID().String() == sent; got != believed {
			t.Errorf("from %s: believed %t", from, got)
		}
	}
	for _, s := range recorder.Ended() {
		if s.Status().Description != "" {
			t.Errorf("a refusal counts as a failure: %v", s.Status())
		}
	}
}
