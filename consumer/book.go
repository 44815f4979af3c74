package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"seckill/admission"
)

type skuKey struct{ activity, sku string }

type buyerKey struct{ activity, sku, user string }

// book is what a settlement has read under its locks, and what it decides from:
// stock and units are counted down and up as orders are accepted.
type book struct {
	skus       map[skuKey]*skuRow
	activities map[string]activityRow
	decided    map[string]outcome // by order id, final or held
	units      map[buyerKey]int64 // live units of a buyer
	reserved   map[string]int64   // epoch of the reservation, by order id
	taken      map[skuKey]int64   // units that this settlement takes
	hold       string             // why the one order of the batch is to be held; empty: decide
	liars      map[string]bool    // activities whose gate admitted what the ledger could not
}

type outcome struct {
	status admission.Status
	reason string
	row    rowKey // of a row that was there
}

// rowKey is what a row says of its order beside the outcome.
type rowKey struct {
	activity, sku, user string
	quantity            int64
}

type skuRow struct{ stock, limit, price int64 }

type activityRow struct {
	epoch  int64
	window time.Duration
}

// readBook checks the term and reads everything that the deliveries touch, after
// locking the SKU rows.
func readBook(ctx context.Context, tx pgx.Tx, term Term, deliveries []Delivery) (*book, error) {
	b := &book{
		skus: map[skuKey]*skuRow{}, decided: map[string]outcome{},
		units: map[buyerKey]int64{}, reserved: map[string]int64{}, taken: map[skuKey]int64{}, liars: map[string]bool{},
	}
	var ids, activities, skus, users, names []string
	for _, d := range deliveries {
		names = append(names, d.Activity)
		for _, o := range d.Orders {
			ids = append(ids, o.ID)
			activities = append(activities, d.Activity)
			skus = append(skus, o.SKU)
			users = append(users, o.User)
		}
	}
	// One round trip; each statement is a new one, with a snapshot of its own
	// taken after the lock was granted.
	var batch pgx.Batch
	traced := queueTrace(ctx, &batch)
	if !term.operator {
		batch.Queue(sqlTerm, term.Partition, term.Number)
	}
	batch.Queue(sqlLockSKUs, activities, skus)
	batch.Queue(sqlActivities, names)
	batch.Queue(sqlDecided, ids)
	batch.Queue(sqlLiveUnits, activities, skus, users)
	results := tx.SendBatch(ctx, &batch)
	defer func() { _ = results.Close() }()

	if traced {
		if _, err := results.Exec(); err != nil {
			return nil, fmt.Errorf("tell the transaction its trace: %w", err)
		}
	}
	if err := checkTerm(results, term); err != nil {
		return nil, err
	}
	if err := b.readSKUs(results); err != nil {
		return nil, fmt.Errorf("lock the SKUs: %w", err)
	}
	var err error
	if b.activities, err = scanActivities(results); err != nil {
		return nil, fmt.Errorf("read the activities: %w", err)
	}
	if err := b.readDecided(results); err != nil {
		return nil, fmt.Errorf("read which orders are decided: %w", err)
	}
	if err := b.readUnits(results); err != nil {
		return nil, fmt.Errorf("count the buyers' units: %w", err)
	}
	return b, results.Close()
}

func checkTerm(results pgx.BatchResults, term Term) error {
	if term.operator {
		return nil
	}
	var settled int64
	if err := results.QueryRow().Scan(&settled); errors.Is(err, pgx.ErrNoRows) {
		return ErrFenced
	} else if err != nil {
		return fmt.Errorf("check the term: %w", err)
	}
	if uint64(settled) < term.Reached {
		return ErrFellBack
	}
	return nil
}

func (b *book) readSKUs(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var k skuKey
	var r skuRow
	_, err = pgx.ForEachRow(rows, []any{&k.activity, &k.sku, &r.stock, &r.limit, &r.price}, func() error {
		row := r
		b.skus[k] = &row
		return nil
	})
	return err
}

// scanActivities reads the result of sqlActivities, by id.
func scanActivities(results pgx.BatchResults) (map[string]activityRow, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	found := map[string]activityRow{}
	var id string
	var a activityRow
	_, err = pgx.ForEachRow(rows, []any{&id, &a.epoch, &a.window}, func() error {
		found[id] = a
		return nil
	})
	return found, err
}

func (b *book) readDecided(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var id string
	var was outcome
	_, err = pgx.ForEachRow(rows, []any{&id, &was.status, &was.reason, &was.row.activity, &was.row.sku, &was.row.user, &was.row.quantity}, func() error {
		b.decided[id] = was
		return nil
	})
	return err
}

func (b *book) readUnits(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var k buyerKey
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&k.activity, &k.sku, &k.user, &n}, func() error {
		b.units[k] = n
		return nil
	})
	return err
}

// decideAll decides every delivered order, in log order.
func (b *book) decideAll(deliveries []Delivery) []Decision {
	var decisions []Decision
	for _, d := range deliveries {
		for _, o := range d.Orders {
			decisions = append(decisions, b.decideOne(d, o))
		}
	}
	return decisions
}

func (b *book) decideOne(d Delivery, o admission.Order) Decision {
	decision := Decision{
		Order: o, Activity: d.Activity, Epoch: b.activities[d.Activity].epoch, Seq: d.Seq, Deliveries: d.Deliveries,
	}
	was, known := b.decided[o.ID]
	switch {
	case !known:
		was.status, was.reason = b.decide(d, o)
	case b.reopens(d, o, was):
		// Whatever the epoch: every gate since has counted the held order.
		was.status, was.reason = b.decideCharged(d, o)
		decision.Reopened = was.status != admission.Held
		decision.Already = !decision.Reopened
	default:
		decision.Already = true
	}
	if !decision.Already {
		// A right gate of this epoch would not have admitted it.
		if d.Epoch == decision.Epoch && was.status == admission.Rejected {
			b.liars[d.Activity] = true
		}
		b.decided[o.ID] = was
		b.reserved[o.ID] = d.Epoch
	}
	decision.Status, decision.Reason = was.status, was.reason
	return decision
}

// reopens says whether a delivery asks to decide an order that is held. One that is
// not what the row says is not this order.
func (b *book) reopens(d Delivery, o admission.Order, was outcome) bool {
	return was.status == admission.Held && d.Replay != nil && d.Replay.Held &&
		was.row == rowKey{d.Activity, o.SKU, o.User, o.Quantity}
}

// decide is the rule: an order of an older epoch is stale, because the gate that
// charged it is gone and the new one was filled without it; else limit, then stock.
func (b *book) decide(d Delivery, o admission.Order) (admission.Status, string) {
	if activity, known := b.activities[d.Activity]; known && d.Epoch < activity.epoch {
		return admission.Rejected, admission.ReasonStale
	}
	return b.decideCharged(d, o)
}

// decideCharged decides an order that the present gate has charged.
func (b *book) decideCharged(d Delivery, o admission.Order) (admission.Status, string) {
	activity, known := b.activities[d.Activity]
	sku := b.skus[skuKey{d.Activity, o.SKU}]
	if !known || sku == nil {
		return admission.Held, "unknown activity or SKU"
	}
	if b.hold != "" {
		return admission.Held, b.hold
	}
	buyer := buyerKey{d.Activity, o.SKU, o.User}
	if b.units[buyer]+o.Quantity > sku.limit {
		return admission.Rejected, admission.ReasonLimit
	}
	if sku.stock < o.Quantity {
		return admission.Rejected, admission.ReasonSoldOut
	}
	sku.stock -= o.Quantity
	b.units[buyer] += o.Quantity
	b.taken[skuKey{d.Activity, o.SKU}] += o.Quantity
	if activity.window > 0 {
		return admission.PendingPayment, ""
	}
	return admission.Confirmed, ""
}

// row is the row that a decision makes.
func (b *book) row(d *Decision) admission.Row {
	row := admission.Row{
		ID: d.ID, Activity: d.Activity, SKU: d.SKU, User: d.User, Key: d.Key, Quantity: d.Quantity,
		Status: d.Status, Reason: d.Reason, CreatedAt: d.At,
	}
	if sku := b.skus[skuKey{d.Activity, d.SKU}]; sku != nil {
		row.Amount = d.Quantity * sku.price
	}
	return row
}

// window is the time to pay in that a decision begins; 0: none.
func (b *book) window(d *Decision) time.Duration {
	if d.Status != admission.PendingPayment {
		return 0
	}
	return b.activities[d.Activity].window
}

// moveStock takes the units of what was inserted and notes the position, with the
// guard as the last word.
func (b *book) moveStock(ctx context.Context, tx pgx.Tx, term Term, upTo uint64) error {
	var batch pgx.Batch
	batch.Queue(sqlStock, stockArgs(b.taken)...)
	if !term.operator {
		batch.Queue(sqlPosition, term.Partition, int64(upTo))
	}
	if len(b.liars) > 0 {
		batch.Queue(sqlSuspect, slices.Collect(maps.Keys(b.liars)))
	}
	results := tx.SendBatch(ctx, &batch)
	defer func() { _ = results.Close() }()
	tag, err := results.Exec()
	if err := stockGuard(tag, err, len(b.taken)); err != nil {
		return err
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("note the settled position: %w", err)
	}
	return nil
}

// stockArgs are those of the statement that moves units out of the stock.
func stockArgs(taken map[skuKey]int64) []any {
	var activities, skus []string
	var units []int64
	for k, n := range taken {
		activities, skus, units = append(activities, k.activity), append(skus, k.sku), append(units, n)
	}
	return []any{activities, skus, units}
}

// stockGuard judges what that statement has done: it leaves out a SKU that has not
// the units.
func stockGuard(tag pgconn.CommandTag, err error, skus int) error {
	if err != nil {
		return fmt.Errorf("move the units: %w", err)
	}
	if left := skus - int(tag.RowsAffected()); left != 0 {
		return fmt.Errorf("move the units: the guard stopped %d of %d SKUs; the books do not agree, run seckill audit", left, skus)
	}
	return nil
}
