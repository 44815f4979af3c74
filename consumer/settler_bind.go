package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// bind finds or creates the partition's consumer and sets it to the ledger's
// position, so that nothing waits for the former owner's deliveries to run out.
func (s *settler) bind(ctx context.Context, from Position) error {
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	s.reconnects = s.Log.Reconnects()
	stream, err := s.Log.Stream(ctx)
	if err != nil {
		return err
	}
	if err := s.findConsumer(ctx, stream); err != nil {
		return err
	}
	if from, err = s.check(ctx, stream.CachedInfo(), from); err != nil {
		return err
	}
	s.term.Reached = from.Seq
	name := ConsumerName(s.term.Partition)
	if _, err := s.Log.JetStream().ResetConsumerToSequence(ctx, s.Log.StreamName(), name, from.Seq+1); err != nil {
		return fmt.Errorf("reset consumer %s to %d: %w", name, from.Seq+1, err)
	}
	s.delivered = 0 // the reset made the log count from the beginning
	return nil
}

func (s *settler) findConsumer(ctx context.Context, stream jetstream.Stream) (err error) {
	name := ConsumerName(s.term.Partition)
	if s.consumer, err = stream.Consumer(ctx, name); errors.Is(err, jetstream.ErrConsumerNotFound) {
		s.consumer, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:       name,
			Description:   "settles partition " + strconv.Itoa(s.term.Partition),
			FilterSubject: s.Log.Filter(s.term.Partition),
			DeliverPolicy: jetstream.DeliverAllPolicy,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       s.AckWait,
			MaxDeliver:    -1,
			MaxAckPending: 4000,
		})
	}
	if err != nil {
		return fmt.Errorf("bind consumer %s: %w", name, err)
	}
	return nil
}

// check compares the ledger's position with the log. A log that is not the recorded
// one, or has lost its tail, is settled from its beginning: everything that was
// decided is found decided. A ledger that is behind what was acknowledged has lost
// what it had committed.
func (s *settler) check(ctx context.Context, log *jetstream.StreamInfo, from Position) (Position, error) {
	created := log.Created.UTC().Truncate(time.Microsecond) // as Postgres keeps it
	same := created.Equal(from.Log)
	floor := s.consumer.CachedInfo().AckFloor.Stream
	if (same || from.Log.IsZero()) && floor > from.Seq {
		s.Logger.Error("the ledger is behind what it had committed: its gates are rebuilt, the log is settled again",
			"partition", s.term.Partition, "settled", from.Seq, "acknowledged", floor)
		if err := s.fellBack(ctx); err != nil {
			return from, err
		}
	}
	if same && log.State.LastSeq >= from.Seq {
		return from, nil
	}
	return Position{Log: created}, s.Ledger.Restart(ctx, s.term, created)
}

// fellBack makes every gate of the partition wait for a rebuild from what the
// ledger knows now. Nothing is stale meanwhile: what the log has is decided again.
func (s *settler) fellBack(ctx context.Context) error {
	ids, err := s.Ledger.Activities(ctx)
	if err != nil {
		return err
	}
	here := slices.DeleteFunc(ids, func(id string) bool { return s.Log.Partition(id) != s.term.Partition })
	return s.Ledger.Forget(ctx, here)
}
