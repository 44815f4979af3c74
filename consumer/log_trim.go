package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"seckill/admission"
)

// ErrUnsettled says that a trim would throw away what is not settled.
var ErrUnsettled = errors.New("the log is not settled that far")

// LogInfo is the order log and how far it is settled.
type LogInfo struct {
	Stream     string          `json:"stream"`
	Created    time.Time       `json:"created"`
	FirstSeq   uint64          `json:"first_seq"`
	LastSeq    uint64          `json:"last_seq"`
	Messages   uint64          `json:"messages"`
	Bytes      uint64          `json:"bytes"`
	MaxBytes   int64           `json:"max_bytes"`
	TrimBefore uint64          `json:"trim_before"` // every message before this one is settled
	Partitions []PartitionInfo `json:"partitions"`
}

// PartitionInfo is how far one partition is settled.
type PartitionInfo struct {
	Partition  int    `json:"partition"`
	SettledSeq uint64 `json:"settled_seq"`
	Backlog    uint64 `json:"backlog"` // messages after it
	Holder     string `json:"holder"`  // who took it last
	Term       int64  `json:"term"`

	oldest uint64 // message of the backlog; 0: there is none
}

// LogKeeper looks at the order log and trims it.
type LogKeeper struct {
	Ledger *Ledger
	Log    *admission.Log
}

// Info reads where the log is and how far it is settled.
func (k *LogKeeper) Info(ctx context.Context) (LogInfo, error) {
	stream, err := k.Log.JetStream().Stream(ctx, k.Log.StreamName())
	if err != nil {
		return LogInfo{}, fmt.Errorf("look stream %s up: %w", k.Log.StreamName(), err)
	}
	info := stream.CachedInfo()
	l := LogInfo{
		Stream: k.Log.StreamName(), Created: info.Created.UTC(), FirstSeq: info.State.FirstSeq, LastSeq: info.State.LastSeq,
		Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes, TrimBefore: info.State.LastSeq + 1,
	}
	settled, err := (&Audit{Log: k.Log}).positions(ctx, k.Ledger.pool, info)
	if err != nil {
		return l, err
	}
	takers, err := k.Ledger.takers(ctx)
	if err != nil {
		return l, err
	}
	for n := range k.Log.Partitions() {
		p := takers[n]
		p.Partition, p.SettledSeq = n, settled[n]
		if err := k.backlog(ctx, stream, &p, l.LastSeq); err != nil {
			return l, err
		}
		if p.oldest > 0 {
			l.TrimBefore = min(l.TrimBefore, p.oldest)
		}
		l.Partitions = append(l.Partitions, p)
	}
	return l, nil
}

// backlog finds the first message after a partition's settled position and counts
// them, up to where the log ended when it was looked at.
func (k *LogKeeper) backlog(ctx context.Context, stream jetstream.Stream, p *PartitionInfo, last uint64) error {
	filter := k.Log.Filter(p.Partition)
	msg, err := stream.GetMsg(ctx, p.SettledSeq+1, jetstream.WithGetMsgSubject(filter))
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence > last {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the first unsettled message of partition %d: %w", p.Partition, err)
	}
	p.oldest = msg.Sequence
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "counts a backlog", FilterSubject: filter, MemoryStorage: true, InactiveThreshold: 5 * time.Second,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: p.oldest, AckPolicy: jetstream.AckNonePolicy,
	})
	if err != nil {
		return fmt.Errorf("count the backlog of partition %d: %w", p.Partition, err)
	}
	p.Backlog = consumer.CachedInfo().NumPending
	_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) // or the server does, when it is idle
	return nil
}

// takers reads who has taken each partition last.
func (l *Ledger) takers(ctx context.Context) (map[int]PartitionInfo, error) {
	rows, err := l.pool.Query(ctx, `select partition, holder, term from partitions`)
	if err != nil {
		return nil, fmt.Errorf("read the partitions: %w", err)
	}
	defer rows.Close()
	found := map[int]PartitionInfo{}
	for rows.Next() {
		var p PartitionInfo
		if err := rows.Scan(&p.Partition, &p.Holder, &p.Term); err != nil {
			return nil, fmt.Errorf("read the partitions: %w", err)
		}
		found[p.Partition] = p
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the partitions: %w", err)
	}
	return found, nil
}

// Trim throws away the messages before one, if all of them are settled; else
// ErrUnsettled, and the error says how far it may go. The rows of their orders stay.
// It returns how many messages are gone.
func (k *LogKeeper) Trim(ctx context.Context, before uint64) (removed uint64, err error) {
	info, err := k.Info(ctx)
	if err != nil {
		return 0, err
	}
	if before > info.TrimBefore {
		return 0, fmt.Errorf("trim the log before message %d: %w; at most --before-seq %d is allowed now", before, ErrUnsettled, info.TrimBefore)
	}
	stream, err := k.Log.JetStream().Stream(ctx, k.Log.StreamName())
	if err != nil {
		return 0, fmt.Errorf("look stream %s up: %w", k.Log.StreamName(), err)
	}
	if !stream.CachedInfo().Created.UTC().Equal(info.Created) {
		return 0, fmt.Errorf("trim the log before message %d: the stream was made anew meanwhile: %w", before, ErrUnsettled)
	}
	// Written first: what is gone cannot be told from the log.
	if err := k.Ledger.Note(ctx, "trim log", info.Stream, fmt.Sprintf("messages %d to %d", info.FirstSeq, before-1)); err != nil {
		return 0, err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(before)); err != nil {
		return 0, fmt.Errorf("trim the log before message %d: %w", before, err)
	}
	after, err := stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("trim the log before message %d: it is done: %w", before, err)
	}
	return info.Messages - min(info.Messages, countAfter(after, info.LastSeq)), nil
}

// countAfter counts the messages that a trimmed log still has of those up to last;
// what came since is left out.
func countAfter(info *jetstream.StreamInfo, last uint64) uint64 {
	return info.State.Msgs - min(info.State.Msgs, info.State.LastSeq-min(info.State.LastSeq, last))
}
