package consumer

import (
	"context"
	"fmt"

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
