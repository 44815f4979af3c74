package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// SetupError says that this process is configured for another installation than
// the one that the ledger records.
type SetupError struct {
	What, Recorded, Configured, Next string
}

func (e *SetupError) Error() string {
	return fmt.Sprintf("the ledger records %s %s, this process is configured with %s: %s", e.What, e.Recorded, e.Configured, e.Next)
}

// Join records lock backend and number of partitions at the first start, and
// returns a *SetupError when they are not the recorded ones.
func (l *Ledger) Join(ctx context.Context, lockBackend string, partitions int) error {
	var backend string
	var n int
	err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			insert into installation (lock_backend, partitions) values ($1, $2) on conflict do nothing`, lockBackend, partitions)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `select lock_backend, partitions from installation`).Scan(&backend, &n); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			insert into partitions (partition) select generate_series(0, $1 - 1) on conflict do nothing`, n)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("read the installation's record in the ledger: %w", err)
	case backend != lockBackend:
		return &SetupError{
			What: "lock backend", Recorded: backend, Configured: lockBackend,
			Next: "set SECKILL_LOCK_BACKEND=" + backend + ", or stop every worker and run: seckill lock switch --to " + lockBackend,
		}
	}
	if err := samePartitions(n, partitions); err != nil {
		return err
	}
	l.joined.Store(lockBackend)
	return nil
}

var sqlPartitions = statement("partitions")

// PartitionRow is what the ledger records of a partition.
type PartitionRow struct {
	Partition int
	Term      int64
	Holder    string // the newest settler; it may be gone
	Settled   uint64 // log sequence up to which it is decided
}

// Partitions lists all partitions in order.
func (l *Ledger) Partitions(ctx context.Context) ([]PartitionRow, error) {
	rows, err := l.pool.Query(ctx, sqlPartitions)
	if err != nil {
		return nil, fmt.Errorf("read the partitions in the ledger: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[PartitionRow])
	if err != nil {
		return nil, fmt.Errorf("read the partitions in the ledger: %w", err)
	}
	return all, nil
}

// Settled is the log sequence up to which a partition is decided.
func (l *Ledger) Settled(ctx context.Context, partition int) (uint64, error) {
	var seq int64
	err := l.pool.QueryRow(ctx, `select settled_seq from partitions where partition = $1`, partition).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("read the settled position of partition %d: %w", partition, err)
	}
	return uint64(seq), nil
}

// TermOf reads the present term of a partition. It must be read before the lease
// is acquired, never while holding it: a stale holder that wakes up would fence
// the rightful one.
func (l *Ledger) TermOf(ctx context.Context, partition int) (int64, error) {
	var term int64
	err := l.pool.QueryRow(ctx, `select term from partitions where partition = $1`, partition).Scan(&term)
	if err != nil {
		return 0, fmt.Errorf("read the term of partition %d: %w", partition, err)
	}
	return term, nil
}

// Position is where a partition's settler begins: after Seq in the stream that was
// created at Log.
type Position struct {
	Seq uint64
	Log time.Time // zero: none yet
}

// Take raises the term that was read before the lease was acquired, and returns the
// new one with the position; ErrFenced if somebody raised it meanwhile.
func (l *Ledger) Take(ctx context.Context, partition int, before int64, holder string) (Term, Position, error) {
	if err := l.checkJoined(ctx); err != nil {
		return Term{}, Position{}, fmt.Errorf("take partition %d: %w", partition, err)
	}
	var seq int64
	var log *time.Time
	err := l.pool.QueryRow(ctx, `
		update partitions set term = term + 1, holder = $3 where partition = $1 and term = $2
		returning settled_seq, log_created`, partition, before, holder).Scan(&seq, &log)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrFenced
	}
	if err != nil {
		return Term{}, Position{}, fmt.Errorf("take partition %d at term %d: %w", partition, before, err)
	}
	return Term{Partition: partition, Number: before + 1}, Position{Seq: uint64(seq), Log: fromNull(log)}, nil
}

// Restart notes that the partition is settled from the beginning of another stream.
func (l *Ledger) Restart(ctx context.Context, term Term, log time.Time) error {
	tag, err := l.pool.Exec(ctx, `
		update partitions set settled_seq = 0, log_created = $3 where partition = $1 and term = $2`,
		term.Partition, term.Number, log)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrFenced
	}
	if err != nil {
		return fmt.Errorf("restart partition %d at the beginning of the log: %w", term.Partition, err)
	}
	return nil
}

// Forget makes the ledger match no gate of the activities: a ledger that fell back
// to an older state does not know what their gates have admitted since.
func (l *Ledger) Forget(ctx context.Context, activities []string) error {
	_, err := l.pool.Exec(ctx, `
		update activities set epoch = 0, suspect = 'the ledger fell back to an older state' where id = any($1::text[])`, activities)
	if err != nil {
		return fmt.Errorf("make the ledger forget the gates of %d activities: %w", len(activities), err)
	}
	return nil
}
