package main

import (
	"context"
	"time"

	"seckill/consumer"
)

const (
	// lawsAgain is when a gate that was found wrong is looked at again: once may be
	// the eye of the beholder, three stores have no common moment.
	lawsAgain = 3 * time.Second
	// Pauses before the gate of one activity is declared suspect again, since a
	// rebuild closes the sale for seconds and may not be what helps.
	firstCalm, lastCalm = time.Minute, time.Hour
)

// suspicion remembers the gate of an activity that the light audit found wrong.
type suspicion struct {
	epoch    int64     // of the gate when it was found wrong
	once     bool      // in the look before this one
	declared time.Time // when it was declared suspect last
	calm     time.Duration
}

// suspect declares a gate suspect that was found wrong at rest twice in a row, so
// that it is rebuilt. It reports whether the gate has to be looked at again soon.
func (s *sampler) suspect(ctx context.Context, id string, report consumer.Report) (soon bool, err error) {
	past := s.suspicions[id]
	why := report.WrongGate(id)
	if why == "" {
		if past.once = false; time.Since(past.declared) > past.calm {
			delete(s.suspicions, id)
		} else {
			s.suspicions[id] = past
		}
		return false, nil
	}
	epoch := report.Activities[0].SKUs[0].Epoch
	twice := past.once && past.epoch == epoch
	past.epoch, past.once = epoch, true
	defer func() { s.suspicions[id] = past }()
	if !twice {
		return true, nil
	}
	if time.Since(past.declared) < past.calm {
		return false, nil // logged as a broken law, every time
	}
	if err := s.stores.ledger.Suspect(ctx, id, epoch, "the audit found at rest: "+why); err != nil {
		return false, err
	}
	past.declared, past.calm = time.Now(), min(max(2*past.calm, firstCalm), lastCalm)
	s.logger.Error("a gate was found wrong twice and is declared suspect; it will be rebuilt", "activity", id, "epoch", epoch, "detail", why)
	return false, nil
}
