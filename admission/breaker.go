package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Bounds of a breaker that nobody needs to change.
const (
	breakerWindow = 10 * time.Second       // over which calls are judged
	breakerCalls  = 5                      // at least, before a share means anything
	breakerPause  = 500 * time.Millisecond // between two questions whether the store is well again
)

// BreakerConfig says when a store counts as sick. A zero Percent: never.
type BreakerConfig struct {
	Percent int           // of the calls of ten seconds that failed or were slow
	Slow    time.Duration // a call that takes longer is slow; needed
}

// breaker watches the calls to a store. While it is open, new buyers are told so at
// once; nothing that is under way is cut off, and no outcome is drawn from it. Safe
// for concurrent use; a nil breaker is never open.
type breaker struct {
	store  string
	slow   time.Duration
	open   atomic.Bool
	circle *gobreaker.TwoStepCircuitBreaker[any]
}

var errSlow = errors.New("the call took too long")

// newBreaker returns the breaker of a store. opened is called, in a goroutine that
// watches a call, whenever it opens.
func newBreaker(store string, c BreakerConfig, logger *slog.Logger, opened func(*breaker)) *breaker {
	if c.Percent == 0 {
		return nil
	}
	b := &breaker{store: store, slow: c.Slow}
	b.circle = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: store, Interval: breakerWindow, BucketPeriod: time.Second, Timeout: breakerPause - 100*time.Millisecond,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.Requests >= breakerCalls && int(n.TotalFailures)*100 >= c.Percent*int(n.Requests)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			b.open.Store(to != gobreaker.StateClosed)
			switch {
			case to == gobreaker.StateClosed:
				logger.Info("store is well again: buyers are let in", "store", store)
			case from == gobreaker.StateClosed:
				logger.Warn("store fails or is slow: buyers are turned away until it is well", "store", store)
				opened(b)
			}
		},
	})
	return b
}

// watch reports how one call ended that is about to begin.
func (b *breaker) watch() (done func(err error)) {
	if b == nil {
		return func(error) {}
	}
	report, err := b.circle.Allow()
	if err != nil { // open: the call goes on, and says nothing
		return func(error) {}
	}
	began := time.Now()
	return func(err error) {
		if err == nil && time.Since(began) > b.slow {
			err = errSlow
		}
		report(err)
	}
}

// isOpen says whether new buyers shall not come.
func (b *breaker) isOpen() bool { return b != nil && b.open.Load() }

// recover asks the store again and again whether it is well, until it is or ctx ends.
func (b *breaker) recover(ctx context.Context, ping func(context.Context) error) {
	for b.isOpen() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(breakerPause):
		}
		attempt, cancel := context.WithTimeout(ctx, b.slow)
		done := b.watch()
		done(ping(attempt))
		cancel()
	}
}

// sick is the answer to new buyers while a store is.
func (s *Service) sick() error {
	switch {
	case s.gateBreaker.isOpen():
		return NewProblem(CodeNotReady, "The gate does not answer well; ask again in a moment.").by("gate-breaker")
	case s.logBreaker.isOpen():
		return NewProblem(CodeOverloaded, "The order log does not answer well; ask again in a moment.").by("log-breaker")
	}
	return nil
}

// startBreakers watches the two stores that an order needs before its answer.
func (s *Service) startBreakers() {
	heal := func(ping func(context.Context) error) func(*breaker) {
		return func(b *breaker) { s.work.Go(func() { b.recover(s.open, ping) }) }
	}
	s.gateBreaker = newBreaker("Redis", s.config.Breaker, s.logger, heal(s.gate.Ping))
	s.logBreaker = newBreaker("NATS", s.config.Breaker, s.logger, heal(s.log.Ping))
}
