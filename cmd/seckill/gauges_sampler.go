package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"seckill/admission"
)

const (
	// sampleEvery is the shortest time between two samples; sampleTimeout bounds one.
	sampleEvery   = time.Second
	sampleTimeout = 5 * time.Second
	// lawsEvery is the shortest time between two light audits that find nothing.
	lawsEvery = 15 * time.Second
)

// sampler looks at the installation once a second, in one goroutine, for the gauges.
type sampler struct {
	stores *stores
	config Config
	gauges *gauges
	logger *slog.Logger

	judge      time.Time // when the laws are looked at next
	violations int
	suspicions map[string]suspicion // by activity
	failed     bool                 // the last sample; a failure is logged once
}

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := s.once(ctx)
		if err != nil && !s.failed && ctx.Err() == nil {
			s.logger.Warn("gauges cannot be sampled; they end until they can", "error", err)
		}
		s.failed = err != nil
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (s *sampler) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	now, err := s.look(ctx)
	if err != nil {
		return err
	}
	if err := s.judgeLaws(ctx); err != nil {
		return err
	}
	now.violations = s.violations
	now.at = time.Now()
	s.gauges.newest.Store(now)
	return nil
}

func (s *sampler) look(ctx context.Context) (*sample, error) {
	now := &sample{backlog: make([]int64, s.stores.log.Partitions())}
	held, err := s.stores.ledger.Held(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, n := range held {
		now.undecided += n
	}
	ids, err := s.stores.ledger.Activities(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := s.lookAt(ctx, now, id, held[id]); err != nil {
			return nil, err
		}
	}
	if now.due, err = s.stores.ledger.ReleaseDue(ctx, ""); err != nil {
		return nil, err
	}
	if err := s.lookAtEvents(ctx, now); err != nil {
		return nil, err
	}
	audit := s.stores.audit(s.config, "", 0)
	if now.dead, err = audit.Dead.Count(ctx, ""); err != nil {
		return nil, err
	}
	oldest, err := audit.OldestUnsettled(ctx)
	if err == nil && !oldest.IsZero() {
		now.oldest = max(time.Since(oldest), 0)
	}
	return now, err
}

func (s *sampler) lookAtEvents(ctx context.Context, now *sample) error {
	n, since, err := s.stores.ledger.Outbox(ctx)
	now.events = n
	if !since.IsZero() {
		now.eventsAge = max(time.Since(since), 0)
	}
	return err
}

func (s *sampler) lookAt(ctx context.Context, now *sample, id string, held int64) error {
	a, err := s.stores.ledger.Activity(ctx, id)
	if err != nil {
		return err
	}
	mark, err := s.stores.gate.Mark(ctx, id)
	if err != nil {
		return err
	}
	backlog := max(mark.Pending-held, 0) // held orders stay pending at the gate
	now.backlog[s.stores.log.Partition(id)] += backlog
	now.undecided += backlog
	if a.State == admission.Closed && backlog == 0 {
		return nil
	}
	shown := sampledActivity{id: id, state: gateState(a, mark)}
	for _, sku := range a.SKUs {
		shown.skus = append(shown.skus, sampledSKU{id: sku.ID, ledger: sku.Stock, gate: mark.Stock[sku.ID], hasGate: mark.Present()})
	}
	now.activities = append(now.activities, shown)
	return nil
}

// judgeLaws runs the light audit of every sale that is open or paused, now and then.
func (s *sampler) judgeLaws(ctx context.Context) error {
	if time.Now().Before(s.judge) {
		return nil
	}
	ids, err := s.stores.ledger.Activities(ctx)
	if err != nil {
		return err
	}
	found, next := 0, lawsEvery
	for _, id := range ids {
		a, err := s.stores.ledger.Activity(ctx, id)
		if err != nil {
			return err
		}
		if a.State == admission.Closed {
			delete(s.suspicions, id)
			continue
		}
		report, err := s.stores.audit(s.config, id, 0).Light(ctx)
		if err != nil {
			return fmt.Errorf("light audit of activity %s: %w", id, err)
		}
		for _, v := range report.Violations {
			s.logger.Error("a law does not hold; run seckill audit", "law", v.Law, "activity", v.Activity, "sku", v.SKU, "detail", v.Detail)
		}
		found += len(report.Violations) + report.LeftOff
		soon, err := s.suspect(ctx, id, report)
		if err != nil {
			return err
		}
		if soon {
			next = lawsAgain
		}
	}
	s.judge, s.violations = time.Now().Add(next), found
	return nil
}
