package consumer

import (
	"context"
	"fmt"

	"seckill/admission"
)

// readMarks begins an audit: it marks every gate, before anything else is read.
func (r *auditing) readMarks(ctx context.Context) error {
	ids := []string{r.Activity}
	if r.Activity == "" {
		all, err := r.Ledger.AllActivities(ctx)
		if err != nil {
			return err
		}
		ids = all
	} else if _, err := r.Ledger.Activity(ctx, r.Activity); err != nil {
		return err
	}
	for _, id := range ids {
		mark, err := r.Gate.Mark(ctx, id)
		if err != nil {
			return err
		}
		r.activities = append(r.activities, &auditedActivity{
			id: id, mark: mark, skus: map[string]*AuditedSKU{}, held: map[string]bool{},
		})
	}
	last, err := r.lastSeq(ctx)
	r.report.Log.LastSeq = last
	return err
}

// compareMarks ends an audit: it looks whether anything has moved.
func (r *auditing) compareMarks(ctx context.Context) error {
	for _, a := range r.activities {
		if err := r.compareMark(ctx, a, int64(len(a.held))); err != nil {
			return err
		}
	}
	last, err := r.lastSeq(ctx)
	if err != nil {
		return err
	}
	r.moving = r.moving || last != r.report.Log.LastSeq
	return nil
}

func (r *auditing) compareMark(ctx context.Context, a *auditedActivity, held int64) error {
	mark, err := r.Gate.Mark(ctx, a.id)
	if err == nil && (!mark.Equal(a.mark) || mark.Pending > held) {
		r.moving = true
	}
	return err
}

// compareGates compares every gate with the ledger, in both directions.
func (r *auditing) compareGates(ctx context.Context) error {
	for _, a := range r.activities {
		if err := r.gateToLedger(ctx, a); err != nil {
			return err
		}
		if err := r.ledgerToGate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// gateToLedger looks for what the gate has charged.
func (r *auditing) gateToLedger(ctx context.Context, a *auditedActivity) error {
	if !a.mark.Present() {
		return nil
	}
	for cursor := uint64(0); ; {
		page, next, err := r.Gate.Records(ctx, a.id, cursor)
		if err != nil {
			return err
		}
		for _, id := range page.Damaged {
			r.resting.add(Violation{Law: LawStatus, Activity: a.id, Order: id, Detail: "the gate's record of the order cannot be read"})
		}
		ids := make([]string, 0, len(page.List))
		for _, reservation := range page.List {
			ids = append(ids, reservation.ID)
		}
		rows, err := r.rows(ctx, ids)
		if err != nil {
			return err
		}
		for _, reservation := range page.List {
			row, ok := rows[reservation.ID]
			r.judgeReservation(a, reservation, row, ok)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (r *auditing) judgeReservation(a *auditedActivity, got admission.Reservation, row auditRow, known bool) {
	if got.State == admission.Released {
		return
	}
	pending := got.State == admission.Pending
	owned := known && (row.status.Live() || row.status == admission.Held)
	due := known && row.release == a.mark.Epoch
	if pending && known && row.status == admission.Held {
		a.held[got.ID] = true
	}
	if sku := a.skus[got.SKU]; sku != nil && pending && !owned && !due {
		sku.Undecided += got.Quantity
	}
	if !a.mark.Ready(a.epoch) {
		return
	}
	detail := ""
	switch {
	case known && (row.activity != a.id || row.sku != got.SKU || row.user != got.User || row.quantity != got.Quantity):
		detail = "activity, SKU, buyer or quantity at the gate is not that of the row"
	case pending && row.status != admission.Held:
		// At rest the pending list is empty, so the sweep does not find this one.
		detail = "the order is pending at the gate, and its list of pending orders lacks it"
	case !known:
		detail = "the order is charged at the gate, and the ledger has no row"
	case !owned && !due:
		detail = fmt.Sprintf("the order is charged at the gate, and %s in the ledger: its release was forgotten", row.status)
	}
	if detail != "" {
		r.resting.add(Violation{Law: LawStatus, Activity: a.id, SKU: got.SKU, Order: got.ID, Detail: detail})
	}
}

// ledgerToGate looks for what the gate must have charged, and sums up what it has
// yet to give back.
func (r *auditing) ledgerToGate(ctx context.Context, a *auditedActivity) error {
	for after := ""; ; {
		rows, err := r.charged(ctx, a.id, after)
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1].id
		ids := make([]string, len(rows))
		for i, row := range rows {
			ids[i] = row.id
		}
		records, err := r.Gate.RecordsOf(ctx, a.id, ids)
		if err != nil {
			return err
		}
		for _, row := range rows {
			r.judgeRow(a, row, records[row.id].State)
		}
	}
}

func (r *auditing) judgeRow(a *auditedActivity, row auditRow, state admission.ReservationState) {
	charged := state == admission.Pending || state == admission.Charged
	sku := a.skus[row.sku]
	if sku == nil {
		return // a held order of something unknown; a live one is judged with the rows
	}
	if row.release != 0 {
		// A newer gate was filled without it; a gate that has released it is done.
		if !a.mark.Present() || charged && row.release == a.mark.Epoch {
			sku.ReleaseDue += row.quantity
		}
		return
	}
	if !charged && a.mark.Ready(a.epoch) {
		r.resting.add(Violation{
			Law: LawStatus, Activity: a.id, SKU: row.sku, Order: row.id,
			Detail: fmt.Sprintf("the order is %s in the ledger, and not charged at the gate", row.status),
		})
	}
}
