package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Installation is what the ledger records once for all processes.
type Installation struct {
	LockBackend string
	Partitions  int
}

// ErrNotInstalled says that no process has joined yet.
var ErrNotInstalled = errors.New("the ledger records no installation yet: start seckill serve, which records lock backend and partitions")

// Installation reads what the ledger records; ErrNotInstalled.
func (l *Ledger) Installation(ctx context.Context) (Installation, error) {
	var i Installation
	err := l.pool.QueryRow(ctx, `select lock_backend, partitions from installation`).Scan(&i.LockBackend, &i.Partitions)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotInstalled
	}
	if err != nil {
		return i, fmt.Errorf("read the installation's record in the ledger: %w", err)
	}
	return i, nil
}

// ErrTermsMove says that workers are taking or settling partitions.
var ErrTermsMove = errors.New("workers are at work on partitions: stop every worker first")

// Progress is how far every partition is: term and settled position.
type Progress map[int][2]int64

// Progress reads how far the partitions are. Two equal readings mean that nobody took
// or settled one in between.
func (l *Ledger) Progress(ctx context.Context) (Progress, error) {
	return readProgress(ctx, l.pool, `select partition, term, settled_seq from partitions`)
}

func readProgress(ctx context.Context, q querier, sql string) (Progress, error) {
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read the partitions: %w", err)
	}
	p := Progress{}
	var partition int
	var term, seq int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &term, &seq}, func() error {
		p[partition] = [2]int64{term, seq}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the partitions: %w", err)
	}
	return p, nil
}

// SwitchLock records another lock backend, if the partitions are where they were
// when the caller looked (ErrTermsMove). It raises every term, so that a settler who
// worked under a lease of the former backend, and was overlooked, is fenced; and a
// process that joined under the former backend can take no partition any more.
func (l *Ledger) SwitchLock(ctx context.Context, to string, seen Progress) error {
	err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		now, err := readProgress(ctx, tx, `select partition, term, settled_seq from partitions order by partition for update`)
		if err != nil {
			return err
		}
		if !maps.Equal(now, seen) {
			return ErrTermsMove
		}
		if _, err := tx.Exec(ctx, `update partitions set term = term + 1, holder = ''`); err != nil {
			return err
		}
		var from string
		if err := tx.QueryRow(ctx, `select lock_backend from installation for update`).Scan(&from); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `update installation set lock_backend = $1`, to); err != nil {
			return err
		}
		return note(ctx, tx, "switch lock backend", "installation", from+" to "+to)
	})
	if err != nil {
		return fmt.Errorf("record lock backend %s in the ledger: %w", to, err)
	}
	return nil
}

// checkJoined refuses a process that joined under a lock backend which has been
// switched since.
func (l *Ledger) checkJoined(ctx context.Context) error {
	joined, ok := l.joined.Load().(string)
	if !ok {
		return nil
	}
	now, err := l.Installation(ctx)
	if err == nil && now.LockBackend != joined {
		return &SetupError{
			What: "lock backend", Recorded: now.LockBackend, Configured: joined,
			Next: "it was switched; set SECKILL_LOCK_BACKEND=" + now.LockBackend + " and start this process again",
		}
	}
	return err
}

// samePartitions is the error of a process with another number of partitions.
func samePartitions(recorded, configured int) error {
	if recorded == configured {
		return nil
	}
	return &SetupError{
		What: "partitions", Recorded: strconv.Itoa(recorded), Configured: strconv.Itoa(configured),
		Next: fmt.Sprintf("set SECKILL_PARTITIONS=%d; the number is fixed for the life of an installation", recorded),
	}
}

// CheckPartitions returns a *SetupError when the log has another number of partitions
// than this process thinks: its appends would land where nobody settles them.
func (i Installation) CheckPartitions(configured int) error {
	return samePartitions(i.Partitions, configured)
}
