package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"seckill/admission"
)

// Ledger is the only decider: what it has committed is so. Safe for concurrent use.
//
// Every transaction that decides or changes an order locks the SKU rows first, in
// one order, and reads in a new statement after the lock.
type Ledger struct {
	pool *pgxpool.Pool

	joined atomic.Value // string: the lock backend under which this process has joined
}

// NewLedger returns the ledger behind a pool whose connections have the
// installation's schema as search path; see OpenPool.
func NewLedger(pool *pgxpool.Pool) *Ledger { return &Ledger{pool: pool} }

// settleTimeout bounds one settlement transaction.
const settleTimeout = 5 * time.Second

// ErrFenced says that another worker has taken the partition: this one must stop
// and may not acknowledge.
var ErrFenced = errors.New("another settler has a newer term of the partition")

// errRaced says that a row appeared between the read and the insert.
var errRaced = errors.New("an order was decided by somebody else meanwhile")

// ErrFellBack says that the ledger is behind what this settler knows it had
// committed: an older copy of it was promoted.
var ErrFellBack = errors.New("the ledger is behind what it had committed")

// Term is the right to settle one partition, as the ledger gave it.
type Term struct {
	Partition int
	Number    int64
	Reached   uint64 // position that the holder knows to be committed

	operator bool // an operator decides held orders: no partition is settled, their rows are the guard
}

// Delivery is one message of the order log.
type Delivery struct {
	admission.Batch
	Seq        uint64
	Deliveries uint64 // how often the log has delivered it
}

// Decision is what the ledger has decided about one delivered order.
type Decision struct {
	admission.Order
	Activity string
	Epoch    int64 // of the gate, as read in the transaction; 0: no such activity
	Status   admission.Status
	Reason   string
	Already  bool // it had been decided before
	Reopened bool // it was held, and is decided now

	Seq        uint64
	Deliveries uint64
}

// Settle decides the orders of a partition's deliveries, in log order, in one
// transaction, and moves the settled position to upTo. It may be called any number
// of times with the same orders: a decision is final and comes back as Already.
//
// If one of them is held, the position stays: whoever dies before the dead letters are
// written finds the orders again. Settle without deliveries then moves it.
//
// ErrFenced: nothing was written. Any other error leaves the outcome unknown: do
// not acknowledge, deliver again.
func (l *Ledger) Settle(ctx context.Context, term Term, deliveries []Delivery, upTo uint64) ([]Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return l.settleOr(ctx, term, deliveries, upTo, "")
}

// Hold decides one order that cannot be settled as it stands: it is held for an
// operator, unless it has a row or is stale. The position does not move.
func (l *Ledger) Hold(ctx context.Context, term Term, d Delivery, why error) ([]Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return l.settleOr(ctx, term, []Delivery{d}, 0, why.Error())
}

func (l *Ledger) settleOr(ctx context.Context, term Term, deliveries []Delivery, upTo uint64, hold string) ([]Decision, error) {
	for attempt := 1; ; attempt++ {
		decisions, err := l.settle(ctx, term, deliveries, upTo, hold)
		if errors.Is(err, errRaced) && attempt < 3 {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("settle %d messages of partition %d under term %d: %w", len(deliveries), term.Partition, term.Number, err)
		}
		return decisions, nil
	}
}

func (l *Ledger) settle(ctx context.Context, term Term, deliveries []Delivery, upTo uint64, hold string) ([]Decision, error) {
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no effect after Commit

	b, err := readBook(ctx, tx, term, deliveries)
	if err != nil {
		return nil, err
	}
	b.hold = hold
	decisions := b.decideAll(deliveries)
	if err := insertDecisions(ctx, tx, term, b, decisions); err != nil {
		return nil, err
	}
	if err := decideHeld(ctx, tx, term, b, decisions); err != nil {
		return nil, err
	}
	if holdsAny(decisions) {
		upTo = 0 // stays where it is until they have their dead letters
	}
	if err := b.moveStock(ctx, tx, term, upTo); err != nil {
		return nil, err
	}
	return decisions, tx.Commit(ctx)
}

// holdsAny says whether an order of the decisions is held, now or from before.
func holdsAny(decisions []Decision) bool {
	return slices.ContainsFunc(decisions, func(d Decision) bool { return d.Status == admission.Held })
}

// insertDecisions writes the new outcomes; errRaced if one of them had a row.
func insertDecisions(ctx context.Context, tx pgx.Tx, term Term, b *book, decisions []Decision) error {
	var c columns
	for i := range decisions {
		if !decisions[i].Already && !decisions[i].Reopened {
			c.add(&decisions[i], b)
		}
	}
	return insertOrders(ctx, tx, term, c)
}

// insertOrders writes the first status of orders; errRaced if one of them had a row.
func insertOrders(ctx context.Context, tx pgx.Tx, term Term, c columns) error {
	if len(c.id) == 0 {
		return nil
	}
	inserted, err := tx.Exec(ctx, sqlInsert, c.id, c.activity, c.sku, c.user, c.quantity, c.amount, c.status, c.reason,
		c.at, c.window, c.key, c.epoch, c.seq, term.Partition, term.Number)
	if err != nil {
		return err
	}
	if inserted.RowsAffected() != int64(len(c.id)) {
		return errRaced
	}
	return nil
}

// columns are the arrays that one insert takes.
type columns struct {
	id, activity, sku, user, status, reason, key []string
	quantity, amount, epoch, seq                 []int64
	at                                           []time.Time
	window                                       []time.Duration
}

// add adds a decision.
func (c *columns) add(d *Decision, b *book) {
	c.row(b.row(d), b.reserved[d.ID])
	last := len(c.id) - 1
	c.seq[last] = int64(d.Seq)
	c.window[last] = b.window(d)
}

// row adds an order that no message of the log has brought.
func (c *columns) row(r admission.Row, epoch int64) {
	c.id = append(c.id, r.ID)
	c.activity = append(c.activity, r.Activity)
	c.sku = append(c.sku, r.SKU)
	c.user = append(c.user, r.User)
	c.status = append(c.status, string(r.Status))
	c.reason = append(c.reason, r.Reason)
	c.key = append(c.key, r.Key)
	c.quantity = append(c.quantity, r.Quantity)
	c.amount = append(c.amount, r.Amount)
	c.epoch = append(c.epoch, epoch)
	c.seq = append(c.seq, 0)
	c.at = append(c.at, r.CreatedAt)
	c.window = append(c.window, 0)
}

// Orders reads the decided ones of the given orders.
func (l *Ledger) Orders(ctx context.Context, ids []string) (map[string]admission.Row, error) {
	found := make(map[string]admission.Row, len(ids))
	for part := range slices.Chunk(ids, 5000) {
		rows, err := l.rows(ctx, sqlOrdersByID, part)
		if err != nil {
			return nil, fmt.Errorf("read %d orders in the ledger: %w", len(ids), err)
		}
		for _, r := range rows {
			found[r.ID] = r
		}
	}
	return found, nil
}

// OrdersOf lists a buyer's decided orders, newest first, below the id before.
func (l *Ledger) OrdersOf(ctx context.Context, activity, user, before string, limit int) ([]admission.Row, error) {
	rows, err := l.rows(ctx, sqlOrdersOf, activity, user, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list a buyer's orders of activity %s in the ledger: %w", activity, err)
	}
	return rows, nil
}

func (l *Ledger) rows(ctx context.Context, sql string, args ...any) ([]admission.Row, error) {
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRow)
}

func scanRow(r pgx.CollectableRow) (admission.Row, error) {
	var row admission.Row
	var payBefore *time.Time
	err := r.Scan(&row.ID, &row.Activity, &row.SKU, &row.User, &row.Key, &row.Quantity, &row.Amount,
		&row.Status, &row.Reason, &row.CreatedAt, &row.DecidedAt, &payBefore, &row.Refund, &row.ReplacedBy)
	if payBefore != nil {
		row.PayBefore = *payBefore
	}
	return row, err
}

// Ping asks whether Postgres answers.
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ask Postgres whether it answers: %w", err)
	}
	return nil
}
