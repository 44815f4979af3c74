package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"seckill/admission"
	"seckill/consumer"
)

// What commands say they would do, before they ask.

// counted is a number with its noun, "1 unit" or "2 units".
func counted[N int | int64 | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// named is an activity with its state.
func named(a admission.Activity) string { return fmt.Sprintf("Activity %s (%s)", a.ID, a.State) }

func sizeOf(a admission.Activity) (units, unsold int64, size string) {
	for _, s := range a.SKUs {
		units, unsold = units+s.Total, unsold+s.Stock
	}
	return units, unsold, counted(units, "unit") + " of " + counted(len(a.SKUs), "SKU")
}

func (s *stores) wouldOpen(ctx context.Context, id string) (string, error) {
	a, err := s.ledger.Activity(ctx, id)
	if err != nil {
		return "", err
	}
	if a.State != admission.Draft {
		return named(a) + " has been opened: this makes sure of its gate, and changes nothing else.", nil
	}
	_, _, size := sizeOf(a)
	when := "at once"
	if a.StartsAt.After(time.Now()) {
		when = "from " + shownTime(a.StartsAt)
	}
	return fmt.Sprintf("%s opens to buyers: %s are for sale %s.", named(a), size, when), nil
}

// wouldMove says what becomes of an opened sale and of what is not sold.
func wouldMove(becomes string) func(*stores, context.Context, string) (string, error) {
	return func(s *stores, ctx context.Context, id string) (string, error) {
		a, err := s.ledger.Activity(ctx, id)
		if err != nil {
			return "", err
		}
		units, unsold, _ := sizeOf(a)
		return fmt.Sprintf("%s %s; %d of %s are not sold.", named(a), becomes, unsold, counted(units, "unit")), nil
	}
}

func (s *stores) wouldApply(ctx context.Context, a admission.Activity, path string) (string, error) {
	_, _, size := sizeOf(a)
	now, err := s.ledger.Activity(ctx, a.ID)
	switch {
	case errors.Is(err, admission.ErrNoActivity):
		return fmt.Sprintf("Activity %s is created as a draft: %s. Nobody can buy before it is opened.", a.ID, size), nil
	case err != nil:
		return "", err
	}
	_, _, before := sizeOf(now)
	return fmt.Sprintf("%s with %s becomes what %s says: %s.", named(now), before, path, size), nil
}

func (s *stores) wouldStock(ctx context.Context, d consumer.StockDelta) (string, error) {
	a, err := s.ledger.Activity(ctx, d.Activity)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(a.SKUs, func(sku admission.SKU) bool { return sku.ID == d.SKU })
	if i < 0 {
		return "", fmt.Errorf("activity %s has no SKU %s", d.Activity, d.SKU)
	}
	total := a.SKUs[i].Total
	if d.Delta > 0 {
		return fmt.Sprintf("%s gets %s of %s more, for sale at once: its total of %d becomes %d.",
			named(a), counted(d.Delta, "unit"), d.SKU, total, total+d.Delta), nil
	}
	return fmt.Sprintf("%s loses %s of %s, if they are free: its total of %d becomes %d. It sells nothing for some seconds meanwhile.",
		named(a), counted(-d.Delta, "unit"), d.SKU, total, total+d.Delta), nil
}

func wouldCancel(row admission.Row, refund bool) string {
	what := fmt.Sprintf("Order %s (%s, %s of %s for %s in activity %s) is cancelled: its units can be sold again",
		row.ID, row.Status, counted(row.Quantity, "unit"), row.SKU, row.User, row.Activity)
	if row.Status == admission.Paid && refund {
		what += fmt.Sprintf(", and its money (%d) is marked as due to go back", row.Amount)
	}
	return what + "."
}

// wouldRule says what becomes of dead letters, activity by activity.
func (s *stores) wouldRule(ctx context.Context, ids []string, becomes string) (string, error) {
	rows, err := s.ledger.Orders(ctx, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !admission.ValidID(id) }))
	if err != nil {
		return "", err
	}
	type sum struct{ orders, units int64 }
	sums := map[string]sum{}
	var unread, other int64
	for _, id := range ids {
		row, known := rows[id]
		switch {
		case known && row.Status == admission.Held:
			n := sums[row.Activity]
			sums[row.Activity] = sum{n.orders + 1, n.units + row.Quantity}
		case consumer.IsLetterID(id):
			unread++
		default:
			other++
		}
	}
	var parts []string
	for _, activity := range slices.Sorted(maps.Keys(sums)) {
		n := sums[activity]
		parts = append(parts, fmt.Sprintf("%s (%s) of activity %s", counted(n.orders, "held order"), counted(n.units, "unit"), activity))
	}
	if unread > 0 {
		parts = append(parts, counted(unread, "message")+" that cannot be read")
	}
	if other > 0 {
		parts = append(parts, counted(other, "id")+" without a held order")
	}
	return fmt.Sprintf("%s: %s.", becomes, strings.Join(parts, ", ")), nil
}

func wouldReplay(plan consumer.ReplaySummary, mode string) string {
	return fmt.Sprintf("%s of messages %d to %d pass through settlement again (%s): %d are decided and stay so, %d are held, %d have no decision yet.",
		counted(plan.Matched, "order"), plan.FromSeq, plan.ToSeq, mode, plan.Already, plan.Dead, plan.Undecided)
}

func (s *stores) wouldTrim(ctx context.Context, before uint64) (string, error) {
	info, err := s.logKeeper().Info(ctx)
	if err != nil {
		return "", err
	}
	if before <= info.FirstSeq {
		return fmt.Sprintf("Nothing is thrown away: the log begins with message %d.", info.FirstSeq), nil
	}
	return fmt.Sprintf("Messages %d to %d of the log are thrown away for good; their orders stay in the ledger, and cannot be replayed.",
		info.FirstSeq, min(before-1, info.LastSeq)), nil
}

func (s *stores) wouldSwitch(ctx context.Context, to string) (string, error) {
	now, err := s.ledger.Installation(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The leases of all %s move from %s to %s; every process has to be configured so and started again.",
		counted(now.Partitions, "partition"), now.LockBackend, to), nil
}

func (s *stores) wouldMigrate(ctx context.Context, schema string) (string, error) {
	var version int64
	err := s.pool.QueryRow(ctx, `select coalesce(max(version_id), 0) from goose_db_version`).Scan(&version)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42P01":
		return fmt.Sprintf("Schema %s is created.", schema), nil
	case err != nil:
		return "", fmt.Errorf("read the version of schema %s: %w", schema, err)
	}
	return fmt.Sprintf("Schema %s, now of version %d, is brought to that of this release.", schema, version), nil
}

func wouldRepair(plan consumer.Plan) string {
	repairs := map[string]int{}
	for _, f := range plan.Findings {
		if f.Repair != "" {
			repairs[f.Activity]++
		}
	}
	var parts []string
	for _, activity := range slices.Sorted(maps.Keys(repairs)) {
		parts = append(parts, fmt.Sprintf("%d in activity %s", repairs[activity], activity))
	}
	return counted(plan.Repairs(), "repair") + ": " + strings.Join(parts, ", ") + "."
}
