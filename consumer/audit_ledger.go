package consumer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"seckill/admission"
)

var (
	sqlAuditPartitions = statement("audit_partitions")
	sqlAuditSKUs       = statement("audit_skus")
	sqlAuditRows       = statement("audit_rows")
	sqlAuditCharged    = statement("audit_charged")
	sqlAuditHeld       = statement("audit_held")

	// Each finds the rows that break one law: activity, SKU, order, detail.
	auditLaws = []struct{ law, sql string }{
		{LawLimit, statement("audit_limit")},
		{LawDuplicate, statement("audit_duplicate")},
		{LawStatus, statement("audit_status")},
	}
)

// readBooks reads every SKU with the sums of its orders, and puts the gate's side
// beside it.
func (r *auditing) readBooks(ctx context.Context) error {
	byID := map[string]*auditedActivity{}
	for _, a := range r.activities {
		byID[a.id] = a
	}
	rows, err := r.tx.Query(ctx, sqlAuditSKUs, r.Activity)
	if err != nil {
		return fmt.Errorf("read the SKUs in the ledger: %w", err)
	}
	var id string
	var sku pgtype.Text
	var epoch int64
	var version pgtype.Int8
	var s AuditedSKU
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &sku, &version, &s.Total, &s.Stock, &s.Live, &s.Undecided}, func() error {
		a := byID[id]
		if a == nil {
			return nil // created since the gates were marked
		}
		a.epoch = epoch
		if sku.Valid {
			book := s
			book.SKU, book.Epoch = sku.String, epoch
			if a.mark.Present() {
				units := a.mark.Stock[book.SKU]
				book.GateStock = &units
			}
			// An operator's change is on its way to the gate: sweep or rebuild bring it.
			if a.mark.Ready(epoch) && a.mark.Versions[book.SKU] < version.Int64 {
				r.moving = true
			}
			a.skus[book.SKU] = &book
			a.order = append(a.order, book.SKU)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the SKUs in the ledger: %w", err)
	}
	return nil
}

// judgeRows looks for the laws that the ledger alone can break.
func (r *auditing) judgeRows(ctx context.Context) error {
	for _, l := range auditLaws {
		rows, err := r.tx.Query(ctx, l.sql, r.Activity, mostViolations)
		if err != nil {
			return fmt.Errorf("look for broken law %s in the ledger: %w", l.law, err)
		}
		v := Violation{Law: l.law}
		_, err = pgx.ForEachRow(rows, []any{&v.Activity, &v.SKU, &v.Order, &v.Detail}, func() error {
			r.always.add(v)
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for broken law %s in the ledger: %w", l.law, err)
		}
	}
	return nil
}

// auditRow is what the ledger says about one order.
type auditRow struct {
	id, activity, sku, user string
	quantity                int64
	status                  admission.Status
	release                 int64 // epoch of the gate that gets the units back; 0: none
}

// rows reads the given orders in the snapshot.
func (r *auditing) rows(ctx context.Context, ids []string) (map[string]auditRow, error) {
	list, err := r.scanRows(ctx, sqlAuditRows, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d orders in the ledger: %w", len(ids), err)
	}
	found := make(map[string]auditRow, len(list))
	for _, row := range list {
		found[row.id] = row
	}
	return found, nil
}

// scanRows reads order rows with a statement that selects what audit_rows does.
func (r *auditing) scanRows(ctx context.Context, sql string, args ...any) ([]auditRow, error) {
	rows, err := r.tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(c pgx.CollectableRow) (auditRow, error) {
		var row auditRow
		var release pgtype.Int8
		err := c.Scan(&row.id, &row.activity, &row.sku, &row.user, &row.quantity, &row.status, &release)
		row.release = release.Int64
		return row, err
	})
}

// charged reads one page of the rows that an open gate must know as charged.
func (r *auditing) charged(ctx context.Context, activity, after string) ([]auditRow, error) {
	rows, err := r.tx.Query(ctx, sqlAuditCharged, activity, after, auditChunk)
	if err != nil {
		return nil, fmt.Errorf("list the charged orders of activity %s in the ledger: %w", activity, err)
	}
	list, err := pgx.CollectRows(rows, func(c pgx.CollectableRow) (auditRow, error) {
		row := auditRow{activity: activity}
		var release pgtype.Int8
		err := c.Scan(&row.id, &row.sku, &row.quantity, &row.status, &release)
		row.release = release.Int64
		return row, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the charged orders of activity %s in the ledger: %w", activity, err)
	}
	return list, nil
}
