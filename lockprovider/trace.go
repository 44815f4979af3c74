package lockprovider

import (
	"context"
	"log/slog"
)

// Tracer receives what happens to single leases, names included (metrics carry no
// names). Adapt it to a tracing library; this package imports none. Its methods are
// called without locks held and must not block.
type Tracer interface {
	// Start begins the span "lock.acquire" or "lock.hold". The returned context is
	// used for what happens inside the span.
	Start(ctx context.Context, span string, attrs ...slog.Attr) (context.Context, Span)
}

// Span is one acquisition or one hold.
type Span interface {
	// Event records, for an acquisition, held (the store named another holder; once for
	// each look) and granted; for a hold renew_failed, lost or released.
	Event(name string, attrs ...slog.Attr)
	// End closes the span; err is nil on success.
	End(err error)
}
