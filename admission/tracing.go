package admission

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Tracing records the way of orders as OpenTelemetry spans: ask, batch, reserve and
// append here, settle, decide, tell and event in the consumer. The batch is the atom:
// its span is a child of the first traced ask in it and links to every one, and each
// ask links to it. The message of the log carries its traceparent on. What changes an
// order later has a span of its own, with its event within: cancel and pay of a request,
// expire of a round of the job.
//
// A nil Tracing records nothing and costs a comparison. Safe for concurrent use.
type Tracing struct {
	tracer  trace.Tracer
	proxies []netip.Prefix
}

// NewTracing records with a provider. A request's own traceparent is believed if it
// comes from one of the proxies: a stranger cannot choose what is recorded.
func NewTracing(provider trace.TracerProvider, proxies []netip.Prefix) *Tracing {
	return &Tracing{tracer: provider.Tracer("seckill"), proxies: proxies}
}

// Step is the span of one step of the way. The zero value is not traced, and nothing
// that is done with it has an effect.
type Step struct{ span trace.Span }

// Traced tells whether it is worth to work out attributes.
func (s Step) Traced() bool { return s.span != nil }

// Set adds what is known of the step.
func (s Step) Set(attributes ...attribute.KeyValue) { s.span.SetAttributes(attributes...) }

// End ends the step; an error makes it a failed one.
func (s Step) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// Begin begins a step within the one of ctx; without a traced one there, it is none.
func (t *Tracing) Begin(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Step) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Step{}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Step{span}
}

// Follow begins a step that goes on from others, known by their links: it is a child of
// the first and links to all. Without any, it is none.
func (t *Tracing) Follow(ctx context.Context, name string, kind trace.SpanKind, from []trace.Link) (context.Context, Step) {
	if t == nil || len(from) == 0 {
		return ctx, Step{}
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, from[0].SpanContext)
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithLinks(from...))
	return ctx, Step{span}
}

// Root begins a step that nothing came before.
func (t *Tracing) Root(ctx context.Context, name string) (context.Context, Step) {
	if t == nil {
		return ctx, Step{}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithNewRoot())
	return ctx, Step{span}
}

// ask begins the span of a buyer's request for an order.
func (t *Tracing) ask(r *http.Request) (context.Context, Step) {
	return t.request(r, "ask", ordersRoute)
}

// request begins the span of a request.
func (t *Tracing) request(r *http.Request, name, route string) (context.Context, Step) {
	ctx := r.Context()
	if t == nil {
		return ctx, Step{}
	}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && within(t.proxies, peer.Addr().Unmap()) {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("http.route", route)))
	return ctx, Step{span}
}

// Middleware records an operation on the order whose id is in the path, once whoever
// asks has got past the middlewares before it.
func (t *Tracing) Middleware(name string) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if t == nil {
			next(ctx)
			return
		}
		r, _ := humago.Unwrap(ctx)
		traced, step := t.request(r, name, ctx.Operation().Path)
		ctx = huma.WithContext(ctx, traced)
		next(ctx)
		step.answered(ctx.Param("id"), ctx.Status())
	}
}

// answered ends the span of a request about an order with its answer.
func (s Step) answered(order string, status int) {
	if !s.Traced() {
		return
	}
	s.Set(attribute.Int("http.response.status_code", status))
	if ValidID(order) { // else it is whatever somebody sent
		s.Set(attribute.String("seckill.order", order))
	}
	var err error
	if status >= http.StatusInternalServerError {
		err = errors.New(http.StatusText(status))
	}
	s.End(err)
}

// asked ends the span of a request with its answer.
func (s Step) asked(activity string, p Placed, err error) {
	if !s.Traced() {
		return
	}
	status := http.StatusAccepted
	if err != nil {
		status = AsProblem(err).Status
	} else if p.Repeat {
		status = http.StatusOK
	}
	s.Set(attribute.String("seckill.activity", activity), attribute.String("seckill.outcome", outcomeOf(p, err)),
		attribute.Int("http.response.status_code", status))
	if p.ID != "" {
		s.Set(attribute.String("seckill.order", p.ID))
	}
	if status < http.StatusInternalServerError {
		err = nil // a refusal is an answer
	}
	s.End(err)
}

// of is the traced span of a request; nil if it has none.
func (t *Tracing) of(ctx context.Context) trace.Span {
	if t == nil {
		return nil
	}
	if span := trace.SpanFromContext(ctx); span.SpanContext().IsSampled() {
		return span
	}
	return nil
}

// batch begins the span of a batch.
func (t *Tracing) batch(ctx context.Context, activity string, waiters []*waiter) (context.Context, Step) {
	if t == nil {
		return ctx, Step{}
	}
	var from []trace.Link
	for _, w := range waiters {
		if w.ask != nil {
			from = append(from, trace.Link{SpanContext: w.ask.SpanContext()})
		}
	}
	ctx, step := t.Follow(ctx, "batch", trace.SpanKindInternal, from)
	if !step.Traced() {
		return ctx, step
	}
	step.Set(attribute.String("seckill.activity", activity), attribute.Int("seckill.batch_size", len(waiters)))
	for _, w := range waiters {
		if w.ask != nil {
			w.ask.AddLink(trace.Link{SpanContext: step.span.SpanContext()})
		}
	}
	return ctx, step
}

// messageHeader carries traces in the headers of messages.
type messageHeader nats.Header

func (h messageHeader) Get(key string) string { return nats.Header(h).Get(key) }
func (h messageHeader) Set(key, value string) { nats.Header(h).Set(key, value) }
func (h messageHeader) Keys() (keys []string) {
	for key := range h {
		keys = append(keys, key)
	}
	return keys
}

// TraceOnto puts the traceparent of a traced step onto a message.
func TraceOnto(ctx context.Context, msg *nats.Msg) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	if msg.Header == nil {
		msg.Header = nats.Header{}
	}
	propagation.TraceContext{}.Inject(ctx, messageHeader(msg.Header))
}

// TraceOf is the link to the step whose traceparent a message carries, if that is
// traced.
func TraceOf(header nats.Header) (trace.Link, bool) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), messageHeader(header))
	c := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: c}, c.IsSampled()
}
