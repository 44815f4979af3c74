package consumer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Held counts the held orders of one activity, or (empty) of all, by activity.
func (l *Ledger) Held(ctx context.Context, activity string) (map[string]int64, error) {
	rows, err := l.pool.Query(ctx, sqlAuditHeld, activity)
	if err != nil {
		return nil, fmt.Errorf("count the held orders: %w", err)
	}
	held := map[string]int64{}
	var id string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { held[id] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count the held orders: %w", err)
	}
	return held, nil
}

// ReleaseDue counts the orders of one activity, or (empty) of all, whose units have
// yet to be given back at a gate.
func (l *Ledger) ReleaseDue(ctx context.Context, activity string) (int64, error) {
	var n int64
	err := l.pool.QueryRow(ctx, sqlReleaseDue, activity).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the orders whose release is due: %w", err)
	}
	return n, nil
}
