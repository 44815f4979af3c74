package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"seckill/admission"
)

// lastTraces bounds the sending of what is left when a process ends.
const lastTraces = 500 * time.Millisecond

// openTraces sends traces to where the standard variables of OpenTelemetry say; nil
// without OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. Its library
// reads those variables (protocol, headers, sampler, bounds of the queue) from the
// process itself. What cannot be sent is dropped, and logged: a sale never waits for it.
func openTraces(ctx context.Context, instance string, logger *slog.Logger) (*sdktrace.TracerProvider, error) {
	if !tracesWanted() {
		return nil, nil
	}
	exporter, err := openExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces (OTEL_EXPORTER_OTLP_...): %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "seckill"), attribute.String("service.version", readVersion().Version),
		attribute.String("service.instance.id", instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process in traces (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("traces are not sent", "error", err) }))
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}

// startTraces has the node traced, if that is wanted. The function that it returns sends
// what is left, when all work is done.
func (n *node) startTraces(ctx context.Context) (end func(), err error) {
	traces, err := openTraces(ctx, n.instance, n.logger)
	if err != nil || traces == nil {
		return func() {}, err
	}
	n.tracing, n.leaseTracer = admission.NewTracing(traces, n.config.AuthTrustedProxies), leaseTracer{traces.Tracer("seckill")}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
		defer cancel()
		if err := traces.Shutdown(ctx); err != nil {
			n.logger.Warn("the last traces are not sent", "error", err)
		}
	}, nil
}

func tracesWanted() bool {
	endpoint := firstSet("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	return endpoint != "" && os.Getenv("OTEL_SDK_DISABLED") != "true" && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

func openExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	switch protocol := firstSet("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, wrongUsage(fmt.Errorf("the protocol %q is not known: use http/protobuf or grpc", protocol))
	}
}

// firstSet is the value of the first variable that has one.
func firstSet(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}
