package lockprovider_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"seckill/deploy/stack/stacktest"
	"seckill/lockprovider"
)

// traced notes what a Tracer is told.
type traced struct {
	mu     sync.Mutex
	events []string
}

func (t *traced) say(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, s)
}

type tracedSpan struct {
	t    *traced
	name string
}

func (t *traced) Start(ctx context.Context, span string, _ ...slog.Attr) (context.Context, lockprovider.Span) {
	return ctx, tracedSpan{t, span}
}

func (s tracedSpan) Event(name string, _ ...slog.Attr) { s.t.say(s.name + " " + name) }

func (s tracedSpan) End(err error) {
	if err != nil {
		s.t.say(s.name + " failed")
		return
	}
	s.t.say(s.name + " ended")
}

func TestTracerSeesAcquisitionsAndHolds(t *testing.T) {
	t.Parallel()
	tr := &traced{}
	p, err := lockprovider.Open(t.Context(), lockprovider.Config{
		Backend: "redis", RedisURL: stacktest.Get(t).RedisURL(), Namespace: stacktest.Namespace(t), Tracer: tr,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l, err := p.Acquire(ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.TryAcquire(ctx, "n"); !errors.Is(err, lockprovider.ErrHeld) {
		t.Fatal(err)
	}
	if err := errors.Join(l.Release(ctx), p.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	want := []string{"lock.acquire granted", "lock.acquire ended", "lock.acquire held", "lock.acquire failed", "lock.hold released", "lock.hold ended"}
	if !slices.Equal(tr.events, want) {
		t.Fatalf("the tracer saw %q, want %q", tr.events, want)
	}
}
