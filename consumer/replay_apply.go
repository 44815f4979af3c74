package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill/admission"
	"seckill/lockprovider"
)

// applyAttempts bounds how often a replay tries to settle the same orders itself.
const applyAttempts = 8

// hold takes every partition that the selection may touch, each under its lease and a
// fresh term, as a worker does; nothing is taken if one is held. Call the function it
// returns when the replay is over.
func (p *replaying) hold(ctx context.Context) (release func(), err error) {
	p.holds = map[int]*settler{}
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		for _, s := range p.holds {
			_ = s.lease.Release(ctx) // goes on in the background, or expires
		}
	}
	for _, n := range p.run.Selection.partitions(p.Log) {
		if err := p.take(ctx, n); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

func (p *replaying) take(ctx context.Context, partition int) error {
	before, err := p.Ledger.TermOf(ctx, partition)
	if err != nil {
		return err
	}
	lease, err := p.Leases.TryAcquire(ctx, PartitionLock(partition), lockprovider.WithNote("replay"), lockprovider.WithPurpose("partition"))
	var held *lockprovider.HeldError
	if errors.As(err, &held) {
		who := held.Holder.Note
		if who == "" {
			who = held.Holder.Owner
		}
		return fmt.Errorf("partition %d is held by %s: stop the workers first, or let them settle with --mode republish: %w", partition, who, err)
	}
	if err != nil {
		return err
	}
	w := &Worker{Ledger: p.Ledger, Log: p.Log, Gate: p.Gate, Dead: p.Dead, Logger: p.Logger}
	s := &settler{Worker: w, lease: lease}
	p.holds[partition] = s
	s.term, _, err = p.Ledger.Take(ctx, partition, before, "replay")
	return err
}

// apply settles the orders here. The position of their partitions does not move: what
// the workers have yet to settle stays theirs.
func (p *replaying) apply(ctx context.Context, items []replayItem) error {
	byPartition := map[int][]replayItem{}
	for _, item := range items {
		if !item.settled {
			n := p.Log.Partition(item.activity)
			byPartition[n] = append(byPartition[n], item)
		}
	}
	for partition, list := range byPartition {
		s := p.holds[partition]
		if s == nil {
			return fmt.Errorf("partition %d is not held by this replay", partition)
		}
		for part := range slices.Chunk(list, settleOrders) {
			if err := p.pace(ctx, len(part)); err != nil {
				return err
			}
			if err := p.settle(s, deliveriesOf(part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliveriesOf puts the orders of one message together again.
func deliveriesOf(items []replayItem) []Delivery {
	var deliveries []Delivery
	for i, item := range items {
		last := len(deliveries) - 1
		if i > 0 && items[i-1].seq == item.seq && items[i-1].epoch == item.epoch &&
			items[i-1].activity == item.activity && items[i-1].held == item.held {
			deliveries[last].Orders = append(deliveries[last].Orders, item.Order)
			continue
		}
		b := admission.NewBatch(item.activity, item.epoch)
		b.Orders = []admission.Order{item.Order}
		b.Replay = &admission.Replayed{From: item.from, Held: item.held}
		deliveries = append(deliveries, Delivery{Batch: b, Seq: item.seq})
	}
	return deliveries
}

// settle decides deliveries as a worker does, with its own bounded retries.
func (p *replaying) settle(s *settler, deliveries []Delivery) error {
	ctx := s.lease.Context()
	wait := firstRetry
	for attempt := 1; ; attempt++ {
		if err := s.lease.Err(); err != nil {
			return err
		}
		decisions, err := s.settleOrIsolate(ctx, deliveries, 0)
		if err == nil {
			if err := p.Dead.Held(ctx, decisions); err != nil {
				return err
			}
			tellGate(ctx, p.Gate, p.Logger, decisions)
			notify(p.Log, decisions)
			return p.Dead.Decided(ctx, decisions)
		}
		if errors.Is(err, ErrFenced) || ctx.Err() != nil || attempt == applyAttempts {
			return err
		}
		p.Logger.Warn("ledger did not settle; the same orders are tried again", "partition", s.term.Partition, "error", err)
		pause(ctx, wait)
		wait = min(2*wait, lastRetry)
	}
}
