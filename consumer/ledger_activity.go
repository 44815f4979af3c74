package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"seckill/admission"
)

// Errors of an operator's change to an activity.
var (
	ErrUseDelta = errors.New("the activity has been opened: change stock by a delta")
	ErrClosed   = errors.New("the activity is closed, and ids are not reused: use a new id")
	ErrNotOpen  = errors.New("the activity has not been opened")
	ErrNoSKUs   = errors.New("the activity has no SKUs: put them first")
)

// Activity reads an activity with its SKUs.
func (l *Ledger) Activity(ctx context.Context, id string) (admission.Activity, error) {
	a, err := readActivity(ctx, l.pool, id)
	if err != nil {
		return a, fmt.Errorf("read activity %s in the ledger: %w", id, err)
	}
	return a, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readActivity(ctx context.Context, q querier, id string) (admission.Activity, error) {
	var a admission.Activity
	if !admission.ValidName(id) {
		return a, admission.ErrNoActivity
	}
	rows, err := q.Query(ctx, sqlActivity, id)
	if err != nil {
		return a, err
	}
	var starts, ends *time.Time
	var sku pgtype.Text
	var total, stock, limit, price, version pgtype.Int8
	fields := []any{
		&a.ID, &a.Title, &a.State, &starts, &ends, &a.PaymentWindow, &a.Epoch, &a.LastEpoch, &a.Revision, &a.ChangedAt, &a.Suspect,
		&a.Taking, &sku, &total, &stock, &limit, &price, &version,
	}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		a.StartsAt, a.EndsAt = fromNull(starts), fromNull(ends)
		if sku.Valid {
			a.SKUs = append(a.SKUs, admission.SKU{
				ID: sku.String, Total: total.Int64, Stock: stock.Int64, LimitPerUser: limit.Int64,
				Price: price.Int64, Version: version.Int64,
			})
		}
		return nil
	})
	if err == nil && a.ID == "" {
		err = admission.ErrNoActivity
	}
	return a, err
}

func fromNull(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func toNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Activities lists the activities that have a gate to look after: all that were
// opened, but those closed a week ago or longer.
func (l *Ledger) Activities(ctx context.Context) ([]string, error) {
	return l.ids(ctx, "list the activities with a gate", `
		select id from activities
		 where epoch > 0 and (state <> 'closed' or updated_at > now() - interval '7 days')
		 order by id`)
}

// AllActivities lists every activity.
func (l *Ledger) AllActivities(ctx context.Context) ([]string, error) {
	return l.ids(ctx, "list the activities", `select id from activities order by id`)
}

var sqlActivitiesRecent = statement("activities_recent")

// RecentActivities lists what operators may want to look at: activities that sell
// first, then drafts, then those closed in the last week.
func (l *Ledger) RecentActivities(ctx context.Context, most int) ([]string, error) {
	return l.ids(ctx, "list the recent activities", sqlActivitiesRecent, most)
}

func (l *Ledger) ids(ctx context.Context, what, sql string, args ...any) ([]string, error) {
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return ids, nil
}

// Put creates an activity or changes what may be changed: everything of a draft; of
// an opened one title and window, while its SKUs must be as they are (ErrUseDelta);
// of a closed one nothing (ErrClosed). It reports whether the activity is new.
func (l *Ledger) Put(ctx context.Context, a admission.Activity) (created bool, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into activities (id) values ($1) on conflict do nothing`, a.ID)
		if err != nil {
			return err
		}
		created = tag.RowsAffected() == 1
		before, err := lockActivity(ctx, tx, a.ID)
		if err != nil {
			return err
		}
		switch before.State {
		case admission.Closed:
			return ErrClosed
		case admission.Draft:
			err = putSKUs(ctx, tx, a)
		default:
			if !sameSKUs(before, a) {
				return ErrUseDelta
			}
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			update activities set title = $2, starts_at = $3, ends_at = $4, payment_window = $5,
			       revision = revision + 1, updated_at = now()
			 where id = $1`, a.ID, a.Title, toNull(a.StartsAt), toNull(a.EndsAt), a.PaymentWindow)
		if err != nil {
			return err
		}
		return note(ctx, tx, "apply activity", a.ID, fmt.Sprintf("%d SKUs", len(a.SKUs))+movedWindow(before, a))
	})
	if err != nil {
		return false, fmt.Errorf("put activity %s into the ledger: %w", a.ID, err)
	}
	return created, nil
}

// movedWindow tells the activity log of another window for an opened activity.
func movedWindow(before, after admission.Activity) string {
	if before.State == admission.Draft || before.StartsAt.Equal(after.StartsAt) && before.EndsAt.Equal(after.EndsAt) {
		return ""
	}
	window := func(a admission.Activity) string {
		text := func(t time.Time) string {
			if t.IsZero() {
				return "open"
			}
			return t.UTC().Format(time.RFC3339Nano)
		}
		return text(a.StartsAt) + " to " + text(a.EndsAt)
	}
	return fmt.Sprintf("; window %s, before %s", window(after), window(before))
}

// lockActivity locks the activity's SKU rows and its own row, in the order of
// every transaction that changes them, and reads it.
func lockActivity(ctx context.Context, tx pgx.Tx, id string) (admission.Activity, error) {
	if _, err := tx.Exec(ctx, `select 1 from skus where activity_id = $1 order by sku_id for update`, id); err != nil {
		return admission.Activity{}, err
	}
	if _, err := tx.Exec(ctx, `select 1 from activities where id = $1 for update`, id); err != nil {
		return admission.Activity{}, err
	}
	return readActivity(ctx, tx, id)
}

func putSKUs(ctx context.Context, tx pgx.Tx, a admission.Activity) error {
	if _, err := tx.Exec(ctx, `delete from skus where activity_id = $1`, a.ID); err != nil {
		return err
	}
	var ids []string
	var totals, limits, prices []int64
	for _, s := range a.SKUs {
		ids, totals = append(ids, s.ID), append(totals, s.Total)
		limits, prices = append(limits, s.LimitPerUser), append(prices, s.Price)
	}
	_, err := tx.Exec(ctx, `
		insert into skus (activity_id, sku_id, total, stock, limit_per_user, price)
		select $1, id, total, total, limit_per_user, price
		  from unnest($2::text[], $3::int[], $4::int[], $5::bigint[]) as s (id, total, limit_per_user, price)`,
		a.ID, ids, totals, limits, prices)
	return err
}

func sameSKUs(before, after admission.Activity) bool {
	if len(before.SKUs) != len(after.SKUs) {
		return false
	}
	had := map[string]admission.SKU{}
	for _, s := range before.SKUs {
		had[s.ID] = s
	}
	for _, s := range after.SKUs {
		b, ok := had[s.ID]
		if !ok || b.Total != s.Total || b.LimitPerUser != s.LimitPerUser || b.Price != s.Price {
			return false
		}
	}
	return true
}

// SetState moves an activity to a state and returns it as it then is. Moving to the
// state it has changes nothing. A draft can only be opened or closed.
func (l *Ledger) SetState(ctx context.Context, id string, to admission.State) (admission.Activity, error) {
	var a admission.Activity
	err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		before, err := lockActivity(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := mayMove(before, to); err != nil {
			return err
		}
		if before.State != to {
			_, err = tx.Exec(ctx, `update activities set state = $2, revision = revision + 1, updated_at = now() where id = $1`, id, string(to))
			if err != nil {
				return err
			}
			if err := note(ctx, tx, "set activity state", id, string(before.State)+" to "+string(to)); err != nil {
				return err
			}
			if to == admission.Closed {
				err = refuseWaiting(ctx, tx, id)
			}
			if err != nil {
				return err
			}
		}
		a, err = readActivity(ctx, tx, id)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("set activity %s to %s in the ledger: %w", id, to, err)
	}
	return a, nil
}

func mayMove(a admission.Activity, to admission.State) error {
	switch {
	case a.State == to:
		return nil
	case a.State == admission.Closed:
		return ErrClosed
	case a.State == admission.Draft && to == admission.Paused:
		return ErrNotOpen
	case a.State == admission.Draft && to == admission.Open && len(a.SKUs) == 0:
		return ErrNoSKUs
	}
	return nil
}

// OnSale lists the activities that sell, or would if they were not paused.
func (l *Ledger) OnSale(ctx context.Context) ([]string, error) {
	return l.ids(ctx, "list the activities on sale", `select id from activities where state in ('open', 'paused') order by id`)
}

// Suspect notes why the gate of an activity cannot be right, until it is rebuilt. It
// changes nothing if the gate has been rebuilt since the epoch.
func (l *Ledger) Suspect(ctx context.Context, id string, epoch int64, why string) error {
	_, err := l.pool.Exec(ctx, `update activities set suspect = $3 where id = $1 and epoch = $2 and last_epoch = $2 and suspect = ''`, id, epoch, why)
	if err != nil {
		return fmt.Errorf("note that the gate of activity %s is suspect: %w", id, err)
	}
	return nil
}
