package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Operator is who changes something by hand, and why, for the activity log.
type Operator struct {
	Name   string // such as ann@host1
	Reason string // may be empty
}

type operatorKey struct{}

// OnBehalf makes the changes under ctx appear in the activity log as the operator's.
// Changes under a context without an operator, the system's own, are not written.
func OnBehalf(ctx context.Context, o Operator) context.Context {
	return context.WithValue(ctx, operatorKey{}, o)
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// note writes a change to the activity log, in the transaction of the change.
func note(ctx context.Context, tx execer, action, subject, detail string) error {
	o, ok := ctx.Value(operatorKey{}).(Operator)
	if !ok {
		return nil
	}
	_, err := tx.Exec(ctx, `
		insert into activity_log (actor, action, subject, detail, reason) values ($1, $2, $3, $4, $5)`,
		o.Name, action, subject, detail, o.Reason)
	if err != nil {
		return fmt.Errorf("write %q of %s to the activity log: %w", action, subject, err)
	}
	return nil
}

// Note writes what was changed outside the ledger to the activity log.
func (l *Ledger) Note(ctx context.Context, action, subject, detail string) error {
	return note(ctx, l.pool, action, subject, detail)
}

var sqlActivityLog = statement("activity_log")

// LogEntry is one change in the activity log.
type LogEntry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Subject string    `json:"subject" doc:"id of the activity, order, replay, lock or installation"`
	Detail  string    `json:"detail"`
	Reason  string    `json:"reason"`
}

// LogFilter picks entries of the activity log. Empty fields pick all.
type LogFilter struct {
	Subject string
	Actor   string
	Before  int64 // id of the last entry of the page before
	Limit   int   // entries of a page; needed
}

// ActivityLog lists what was changed, newest first, one page at a time.
func (l *Ledger) ActivityLog(ctx context.Context, f LogFilter) ([]LogEntry, error) {
	rows, err := l.pool.Query(ctx, sqlActivityLog, f.Subject, f.Actor, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the activity log: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LogEntry])
	if err != nil {
		return nil, fmt.Errorf("read the activity log: %w", err)
	}
	for i := range entries {
		entries[i].At = entries[i].At.UTC()
	}
	return entries, nil
}
