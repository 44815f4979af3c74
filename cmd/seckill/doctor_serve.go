package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// durabilityTimeout is how long a start waits for what a 202 is worth.
const durabilityTimeout = time.Second

// warnDurability begins to look at what a 202 is worth here, with the checks of
// seckill doctor, and returns a function that logs what was found, a line each. The
// start of a process goes on meanwhile, and never fails because of it.
func warnDurability(ctx context.Context, c Config, logger *slog.Logger) (tell func()) {
	ctx, cancel := context.WithTimeout(ctx, durabilityTimeout)
	parts := []*checks{{store: "nats"}, {store: "postgres"}}
	var looking sync.WaitGroup
	looking.Go(func() { lookAtNATS(ctx, c, parts[0], &clockReadings{}) })
	looking.Go(func() { lookAtPostgres(ctx, c, parts[1], &clockReadings{}) })
	done := make(chan struct{})
	go func() {
		looking.Wait()
		close(done)
		cancel()
	}()
	return func() {
		select {
		case <-done:
			logDurability(logger, parts)
		case <-time.After(durabilityTimeout):
			logger.Info("what a 202 is worth could not be looked at in time; run: seckill doctor")
		}
	}
}

func logDurability(logger *slog.Logger, parts []*checks) {
	for _, part := range parts {
		for _, c := range part.list {
			switch {
			case !c.durable:
			case c.Result == resultFinding && c.Severity == serious:
				logger.Warn("what a 202 is worth: "+c.Found, "store", c.Store, "breaks", c.Breaks, "mend", c.Mend)
			case c.Result == resultUnknown:
				logger.Info("what a 202 is worth cannot be told: "+c.Found, "store", c.Store, "give", c.Mend)
			}
		}
	}
}
