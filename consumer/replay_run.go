package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// Errors of a replay's record.
var (
	ErrNoRun    = errors.New("there is no such replay; its id was printed when it began, and is in the table replays")
	ErrRunTaken = errors.New("somebody else goes on with this replay at the same time")
)

// ReplayRun is the record of one replay in the ledger.
type ReplayRun struct {
	ID        string
	Selection Selection
	Log       time.Time // when the stream was created whose numbers From, To and Position are
	From, To  uint64
	Position  uint64 // everything up to here is done
	Started   time.Time
	Updated   time.Time
	Finished  bool
	Ended     time.Time // zero: it is not finished
	Counts    ReplayCounts
}

// ReplayCounts says how the orders of a replay ended. An order that is in the log
// twice counts twice, but for copies of what the same replay reads.
type ReplayCounts struct {
	Read     uint64 `json:"read"`    // messages
	Matched  uint64 `json:"matched"` // orders selected
	Settled  uint64 `json:"settled"`
	Already  uint64 `json:"already"`
	Rejected uint64 `json:"rejected"`
	Dead     uint64 `json:"dead"`
	Unknown  uint64 `json:"unknown"`
}

func (c *ReplayCounts) add(o ReplayCounts) {
	c.Read += o.Read
	c.Matched += o.Matched
	c.Settled += o.Settled
	c.Already += o.Already
	c.Rejected += o.Rejected
	c.Dead += o.Dead
	c.Unknown += o.Unknown
}

// beginRun records a new replay.
func (l *Ledger) beginRun(ctx context.Context, run *ReplayRun) error {
	run.ID = admission.NewID()
	err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			insert into replays (id, selection, log_created, from_seq, to_seq, position) values ($1, $2, $3, $4, $5, $6)
			returning started_at`, run.ID, run.Selection, run.Log, int64(run.From), int64(run.To), int64(run.Position)).Scan(&run.Started)
		if err != nil {
			return err
		}
		return note(ctx, tx, "replay", run.ID, fmt.Sprintf("%s from %s, messages %d to %d", run.Selection.Mode, run.Selection.Source, run.From, run.To))
	})
	if err != nil {
		return fmt.Errorf("record the replay in the ledger: %w", err)
	}
	return nil
}

// Run reads the record of a replay; ErrNoRun.
func (l *Ledger) Run(ctx context.Context, id string) (ReplayRun, error) {
	runs, err := l.runs(ctx, sqlReplay, id)
	if err == nil && len(runs) == 0 {
		err = ErrNoRun
	}
	if err != nil {
		return ReplayRun{}, fmt.Errorf("read replay %s in the ledger: %w", id, err)
	}
	return runs[0], nil
}

// Runs lists the records of replays, newest first, below the id before (empty: from the
// newest).
func (l *Ledger) Runs(ctx context.Context, before string, limit int) ([]ReplayRun, error) {
	runs, err := l.runs(ctx, sqlReplays, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list the replays in the ledger: %w", err)
	}
	return runs, nil
}

var (
	sqlReplay  = statement("replay")
	sqlReplays = statement("replays")
)

func (l *Ledger) runs(ctx context.Context, sql string, args ...any) ([]ReplayRun, error) {
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (ReplayRun, error) {
		var run ReplayRun
		var ended *time.Time
		c := &run.Counts
		err := r.Scan(&run.ID, &run.Selection, &run.Log, &run.From, &run.To, &run.Position, &run.Started, &run.Updated, &ended,
			&c.Read, &c.Matched, &c.Settled, &c.Already, &c.Rejected, &c.Dead, &c.Unknown)
		run.Ended, run.Finished = fromNull(ended), ended != nil
		return run, err
	})
}

// moveRun commits that a replay is done up to a position, and how that went;
// ErrRunTaken unless it is where the caller left it.
func (l *Ledger) moveRun(ctx context.Context, run *ReplayRun, to uint64, c ReplayCounts, finished bool) error {
	tag, err := l.pool.Exec(ctx, `
		update replays set position = $3, read = read + $4, matched = matched + $5, settled = settled + $6, already = already + $7,
		       rejected = rejected + $8, dead = dead + $9, unknown = unknown + $10, updated_at = clock_timestamp(),
		       finished_at = case when $11 then clock_timestamp() end
		 where id = $1 and position = $2 and finished_at is null`, run.ID, int64(run.Position), int64(to),
		c.Read, c.Matched, c.Settled, c.Already, c.Rejected, c.Dead, c.Unknown, finished)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrRunTaken
	}
	if err != nil {
		return fmt.Errorf("move replay %s from message %d to %d: %w", run.ID, run.Position, to, err)
	}
	run.Position, run.Finished = to, finished
	run.Counts.add(c)
	return nil
}

// ended is how an order stands for a replay.
type ended struct {
	status admission.Status
	reason string
	now    bool // decided since the replay began
}

// ends reads how orders stand, and whether they were decided after a moment of the
// ledger's clock.
func (l *Ledger) ends(ctx context.Context, ids []string, since time.Time) (map[string]ended, error) {
	rows, err := l.pool.Query(ctx, `
		select id::text, status, coalesce(reason, ''), decided_at >= $2 from orders where id = any($1::uuid[])`, ids, since)
	if err != nil {
		return nil, fmt.Errorf("read how %d orders ended: %w", len(ids), err)
	}
	found := make(map[string]ended, len(ids))
	var id string
	var e ended
	if _, err := pgx.ForEachRow(rows, []any{&id, &e.status, &e.reason, &e.now}, func() error { found[id] = e; return nil }); err != nil {
		return nil, fmt.Errorf("read how %d orders ended: %w", len(ids), err)
	}
	return found, nil
}
