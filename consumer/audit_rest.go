package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// awaitRest waits until the log is settled and no gate has anything pending but
// held orders, or until the deadline; the audit itself then looks more closely.
func (a *Audit) awaitRest(ctx context.Context, deadline time.Time) error {
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		rest, err := a.looksAtRest(ctx)
		if err != nil || rest {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return ctx.Err()
}

func (a *Audit) looksAtRest(ctx context.Context) (bool, error) {
	held, err := a.Ledger.Held(ctx, a.Activity)
	if err != nil {
		return false, err
	}
	ids := []string{a.Activity}
	if a.Activity == "" {
		if ids, err = a.Ledger.AllActivities(ctx); err != nil {
			return false, err
		}
	}
	for _, id := range ids {
		mark, err := a.Gate.Mark(ctx, id)
		if err != nil || mark.Pending > held[id] {
			return false, err
		}
		a, err := a.Ledger.Activity(ctx, id)
		if err != nil || mark.Ready(a.Epoch) && mark.Behind(a) {
			return false, err
		}
	}
	return a.logSettled(ctx)
}

// logSettled asks whether the log has no message after the settled positions.
func (a *Audit) logSettled(ctx context.Context) (bool, error) {
	oldest, err := a.OldestUnsettled(ctx)
	return oldest.IsZero() && err == nil, err
}

// OldestUnsettled is when the oldest message after the settled positions came into
// the log; zero: there is none.
func (a *Audit) OldestUnsettled(ctx context.Context) (time.Time, error) {
	var oldest time.Time
	stream, err := a.stream(ctx)
	if err != nil {
		return oldest, err
	}
	settled, err := a.positions(ctx, a.Ledger.pool, stream.CachedInfo())
	if err != nil {
		return oldest, err
	}
	for partition := range a.Log.Partitions() {
		filter := a.Log.Filter(partition)
		if a.Activity != "" {
			if partition != a.Log.Partition(a.Activity) {
				continue
			}
			filter = a.Log.Subject(a.Activity)
		}
		if settled[partition] >= stream.CachedInfo().State.LastSeq {
			continue
		}
		msg, err := stream.GetMsg(ctx, settled[partition]+1, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return oldest, fmt.Errorf("read the first unsettled message of partition %d: %w", partition, err)
		}
		if oldest.IsZero() || msg.Time.Before(oldest) {
			oldest = msg.Time
		}
	}
	return oldest, nil
}

func (a *Audit) stream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := a.Log.JetStream().Stream(ctx, a.Log.StreamName())
	if err != nil {
		return nil, fmt.Errorf("look stream %s up: %w", a.Log.StreamName(), err)
	}
	return stream, nil
}

// lastSeq is the newest sequence number of what is audited.
func (a *Audit) lastSeq(ctx context.Context) (uint64, error) {
	if a.Activity != "" {
		return a.Log.LastSeq(ctx, a.Activity)
	}
	stream, err := a.stream(ctx)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// positions reads up to where each partition is settled in this stream. Of another
// one (created anew, or shorter) nothing is settled.
func (a *Audit) positions(ctx context.Context, q querier, info *jetstream.StreamInfo) (map[int]uint64, error) {
	rows, err := q.Query(ctx, sqlAuditPartitions)
	if err != nil {
		return nil, fmt.Errorf("read the settled positions: %w", err)
	}
	settled := map[int]uint64{}
	var partition int
	var seq int64
	var created *time.Time
	_, err = pgx.ForEachRow(rows, []any{&partition, &seq, &created}, func() error {
		settled[partition] = 0
		if created != nil && created.Equal(info.Created.Truncate(time.Microsecond)) && uint64(seq) <= info.State.LastSeq {
			settled[partition] = uint64(seq)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the settled positions: %w", err)
	}
	if n := len(settled); n > 0 && n != a.Log.Partitions() {
		return nil, fmt.Errorf("the ledger records %d partitions, this process is configured with %d: set SECKILL_PARTITIONS=%d", n, a.Log.Partitions(), n)
	}
	return settled, nil
}
