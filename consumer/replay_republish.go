package consumer

import (
	"context"
	"fmt"
	"time"

	"seckill/admission"
)

const (
	// replayAppend bounds the append of one batch, with all its attempts.
	replayAppend = 10 * time.Second
	// replayPoll is how often a replay looks whether the workers have caught up.
	replayPoll = 20 * time.Millisecond
	// replayPatiences is how many patiences a replay waits at most for one chunk, be the
	// workers ever so busy with what was there before it.
	replayPatiences = 20
)

// republish appends the orders again, under new message ids and the epoch of their
// reservations, and waits until the workers have settled beyond them.
func (p *replaying) republish(ctx context.Context, items []replayItem) (late bool, err error) {
	appended := map[int]uint64{}
	for _, b := range p.batches(items) {
		if err := p.pace(ctx, len(b.Orders)); err != nil {
			return false, err
		}
		appending, cancel := context.WithTimeout(ctx, replayAppend)
		seq, err := p.Log.Append(appending, b)
		cancel()
		if err != nil {
			return false, err
		}
		appended[p.Log.Partition(b.Activity)] = seq
	}
	return p.await(ctx, appended)
}

// batches packs the orders anew, as many as fit of one reservation epoch.
func (p *replaying) batches(items []replayItem) []admission.Batch {
	type kind struct {
		gateLife
		held bool
	}
	var batches []admission.Batch
	open := map[kind]int{} // index of the batch that is being filled
	for _, item := range items {
		if item.settled {
			continue
		}
		k := kind{gateLife{item.activity, item.epoch}, item.held}
		i, ok := open[k]
		full := ok && p.Rate > 0 && len(batches[i].Orders) >= p.Rate
		if !ok || full || !batches[i].Add(item.Order) {
			b := admission.NewBatch(item.activity, item.epoch)
			b.Replay = &admission.Replayed{Run: p.run.ID, From: item.from, Held: item.held}
			b.Add(item.Order)
			i = len(batches)
			open[k], batches = i, append(batches, b)
		}
	}
	return batches
}

// pace waits until the rate allows n more orders.
func (p *replaying) pace(ctx context.Context, n int) error {
	if p.limit == nil {
		return ctx.Err()
	}
	for n > 0 {
		part := min(n, p.limit.Burst())
		if err := p.limit.WaitN(ctx, part); err != nil {
			return fmt.Errorf("keep to %d orders a second: %w", p.Rate, err)
		}
		n -= part
	}
	return nil
}

// await waits until the partitions are settled up to what was appended. late: they
// are not, and nothing has moved for the replay's patience.
func (p *replaying) await(ctx context.Context, appended map[int]uint64) (late bool, err error) {
	patience := p.Patience
	if patience == 0 {
		patience = replayPatience
	}
	end, idle := time.Now().Add(replayPatiences*patience), time.Now().Add(patience)
	tick := time.NewTicker(replayPoll)
	defer tick.Stop()
	for behind := uint64(0); ; {
		progress, err := p.Ledger.Progress(ctx)
		if err != nil {
			return false, err
		}
		left := uint64(0)
		for partition, seq := range appended {
			left += seq - min(seq, uint64(progress[partition][1]))
		}
		switch now := time.Now(); {
		case left == 0:
			return false, nil
		case left != behind:
			behind, idle = left, now.Add(patience)
		case now.After(idle) || now.After(end):
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
