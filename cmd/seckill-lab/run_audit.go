package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const (
	settlePoll = 50 * time.Millisecond
	settleWait = 60 * time.Second // after the load, for what was admitted
	auditTime  = 30 * time.Second
)

var (
	liveStatuses = []string{"pending_payment", "confirmed", "paid"}
	deadStatuses = []string{"cancelled", "expired", "rejected"}
)

// settlement is how far the ledger has come.
type settlement struct {
	decided int64         // orders with a final or live row
	last    time.Duration // when their number last grew, from the start of the load, to within settlePoll
}

// watch polls the ledger until everything in told is decided after loadOver is closed, or ctx ends. told belongs
// to somebody else until then.
func (s *settlement) watch(ctx context.Context, db *pgx.Conn, start time.Time, loadOver <-chan struct{}, told map[string]uint32) error {
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for {
		var decided int64
		err := db.QueryRow(ctx, `select count(*) from seckill.orders where activity_id = $1 and status <> 'held'`,
			saleActivity).Scan(&decided)
		if err != nil {
			return fmt.Errorf("count the settled orders: %w", err)
		}
		if decided != s.decided {
			s.decided, s.last = decided, time.Since(start)
		}
		select {
		case <-loadOver:
			if all, err := allDecided(ctx, db, decided, told); all || err != nil {
				return err
			}
		default:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// waitFor is watch when the load is over, for settleWait at most.
func (s *settlement) waitFor(ctx context.Context, db *pgx.Conn, start time.Time, told map[string]uint32) error {
	waiting, stop := context.WithTimeout(ctx, settleWait)
	defer stop()
	over := make(chan struct{})
	close(over)
	err := s.watch(waiting, db, start, over, told)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil // too slow: the audit and the report say so
	}
	return err
}

// allDecided looks at the orders themselves: if outcomes are unknown, their rows are in the count as well.
func allDecided(ctx context.Context, db *pgx.Conn, decided int64, told map[string]uint32) (bool, error) {
	if decided < int64(len(told)) {
		return false, nil
	}
	var found int
	err := db.QueryRow(ctx, `select count(*) from seckill.orders where id = any($1::uuid[]) and status <> 'held'`,
		slices.Collect(maps.Keys(told))).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for the admitted orders: %w", err)
	}
	return found == len(told), nil
}

// stores says where the books are kept.
type stores struct{ postgresURL, redisURL string }

// audit is what the stores say after a sale, and what does not fit.
type audit struct {
	total, stock, live, rejected, held, gate int64
	paid, expired                            int64 // paid: of live
	violations                               []string
	more                                     int // beyond those shown
}

func (a *audit) violation(format string, args ...any) {
	if len(a.violations) >= faultsShown {
		a.more++
		return
	}
	a.violations = append(a.violations, fmt.Sprintf(format, args...))
}

func (a *audit) clean() bool { return len(a.violations) == 0 }

// auditSale reads the ledger and the gate, not the service, and compares them with each other and with the
// answers that the buyers got.
func auditSale(ctx context.Context, s stores, activity, sku string, t *tally) (*audit, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	a := &audit{}
	limit, orders, err := a.readLedger(ctx, s.postgresURL, activity, sku)
	if err != nil {
		return nil, fmt.Errorf("audit: read the ledger: %w", err)
	}
	if a.gate, err = gateStock(ctx, s.redisURL, activity, sku); err != nil {
		return nil, fmt.Errorf("audit: read the gate: %w", err)
	}
	a.judgeBooks(limit, orders)
	a.judgeAnswers(orders, t)
	for _, fault := range t.faults {
		a.violation("answers: %s", fault)
	}
	return a, nil
}

// bookedOrder is a row of the ledger.
type bookedOrder struct {
	id, user, status string
	quantity         int64
}

// readLedger takes SKU and orders from one snapshot.
func (a *audit) readLedger(ctx context.Context, url, activity, sku string) (limit int64, orders []bookedOrder, err error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	err = tx.QueryRow(ctx, `select total, stock, limit_per_user from seckill.skus
		where activity_id = $1 and sku_id = $2`, activity, sku).Scan(&a.total, &a.stock, &limit)
	if err != nil {
		return 0, nil, err
	}
	rows, err := tx.Query(ctx, `select id::text, user_id, status, quantity from seckill.orders
		where activity_id = $1 and sku_id = $2`, activity, sku)
	if err != nil {
		return 0, nil, err
	}
	orders, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o bookedOrder, err error) {
		return o, row.Scan(&o.id, &o.user, &o.status, &o.quantity)
	})
	return limit, orders, err
}

// gateStock is what the gate would still sell.
func gateStock(ctx context.Context, url, activity, sku string) (int64, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return 0, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	units, err := client.HGet(ctx, "seckill:{"+activity+"/0}:stock", sku).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("no stock of %s: there is no gate of %s", sku, activity)
	}
	return units, err
}

// judgeBooks checks the books against themselves.
func (a *audit) judgeBooks(limit int64, orders []bookedOrder) {
	units := map[string]int64{}
	for _, o := range orders {
		switch {
		case slices.Contains(liveStatuses, o.status):
			a.live += o.quantity
			if o.status == "paid" {
				a.paid += o.quantity
			}
			units[o.user] += o.quantity
		case o.status == "held":
			a.held++
			a.violation("order %s of %s is held: it waits for an operator", o.id, o.user)
		case o.status == "expired":
			a.expired++
		case slices.Contains(deadStatuses, o.status):
			a.rejected++
		default:
			a.violation("order %s has the status %q", o.id, o.status)
		}
	}
	for user, n := range units {
		if n > limit {
			a.violation("%s has %d units, the limit is %d", user, n, limit)
		}
	}
	if a.live > a.total {
		a.violation("oversold: %d units in live orders, %d to sell", a.live, a.total)
	}
	if a.total != a.stock+a.live {
		a.violation("stock: total %d is not stock %d plus live %d", a.total, a.stock, a.live)
	}
	if a.held == 0 && a.gate != a.stock {
		a.violation("stranded: the gate would sell %d more, the ledger has %d", a.gate, a.stock)
	}
}

// judgeAnswers checks that every buyer was told the truth.
func (a *audit) judgeAnswers(orders []bookedOrder, t *tally) {
	booked := make(map[string]string, len(orders))
	for _, o := range orders {
		if _, twice := booked[o.id]; twice {
			a.violation("order %s has two rows", o.id)
		}
		booked[o.id] = o.user
	}
	check := func(told map[string]uint32, answer string) {
		for id, buyer := range told {
			switch user, ok := booked[id]; {
			case !ok:
				a.violation("lost: %s got %s for order %s, and the ledger does not have it", buyerName(buyer), answer, id)
			case user != buyerName(buyer):
				a.violation("order %s was given to %s, and the ledger has it for %s", id, buyerName(buyer), user)
			}
		}
	}
	check(t.admitted, "202")
	check(t.repeated, "200")
	for _, o := range orders {
		if o.status == "rejected" {
			if buyer, ok := t.admitted[o.id]; ok {
				a.violation("order %s of %s was answered with 202 and rejected", o.id, buyerName(buyer))
			}
		}
	}
}
