package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

// books is what the ledger and the gate of one sale hold, read past the service.
type books struct {
	total, stock, limit int64
	orders              []bookedOrder
	releaseDue          int64
	epoch               int64 // of the ledger

	gate       map[string]string // the gate's own hash; empty: there is none
	gateStock  int64
	records    map[string]string // order id to state: p, c or r
	gateBuyers map[string]int64  // units charged to each
	pending    int64

	unpublished int64             // changes of status whose events wait
	told        map[string]string // order id to the status that its last event says
}

// readBooks reads the ledger in one snapshot, then the gate in one transaction. While orders are under way the
// two differ; at rest they have to agree.
func (f *field) readBooks(ctx context.Context, activity, sku string) (*books, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*storeCall)
	defer cancel()
	b := &books{}
	if err := b.readLedger(ctx, f, activity, sku); err != nil {
		return nil, fmt.Errorf("read the ledger of %s: %w", activity, err)
	}
	if err := b.readGate(ctx, f, activity, sku); err != nil {
		return nil, fmt.Errorf("read the gate of %s: %w", activity, err)
	}
	if err := b.readEvents(ctx, f, activity); err != nil {
		return nil, fmt.Errorf("read the events of %s: %w", activity, err)
	}
	return b, nil
}

func (b *books) readLedger(ctx context.Context, f *field, activity, sku string) error {
	db, err := f.ledger(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	err = tx.QueryRow(ctx, `select s.total, s.stock, s.limit_per_user, a.epoch,
			(select count(*) from `+f.table("orders")+` where activity_id = $1 and release_epoch is not null)
		from `+f.table("skus")+` s join `+f.table("activities")+` a on a.id = s.activity_id
		where s.activity_id = $1 and s.sku_id = $2`, activity, sku).Scan(&b.total, &b.stock, &b.limit, &b.epoch, &b.releaseDue)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `select id::text, user_id, status, quantity from `+f.table("orders")+`
		where activity_id = $1 and sku_id = $2`, activity, sku)
	if err != nil {
		return err
	}
	b.orders, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o bookedOrder, err error) {
		return o, row.Scan(&o.id, &o.user, &o.status, &o.quantity)
	})
	return err
}

func (b *books) readGate(ctx context.Context, f *field, activity, sku string) error {
	client := f.redis()
	defer client.Close()
	tx := client.TxPipeline()
	gate := tx.HGetAll(ctx, f.gateKey(activity, "gate"))
	stock := tx.HGetAll(ctx, f.gateKey(activity, "stock"))
	records := tx.HGetAll(ctx, f.gateKey(activity, "orders"))
	charged := tx.HGetAll(ctx, f.gateKey(activity, "buyers"))
	pending := tx.ZCard(ctx, f.gateKey(activity, "pending"))
	if _, err := tx.Exec(ctx); err != nil {
		return err
	}
	b.gate, b.pending = gate.Val(), pending.Val()
	b.gateStock, _ = strconv.ParseInt(stock.Val()[sku], 10, 64)
	b.records = make(map[string]string, len(records.Val()))
	for id, record := range records.Val() {
		if fields := strings.SplitN(record, " ", 5); len(fields) == 5 && fields[3] == sku {
			b.records[admission.FromGateID(id)] = fields[0]
		}
	}
	b.gateBuyers = make(map[string]int64, len(charged.Val()))
	for buyer, entry := range charged.Val() {
		user, ours := strings.CutPrefix(buyer, sku+" ")
		units, _, _ := strings.Cut(entry, " ")
		if n, err := strconv.ParseInt(units, 10, 64); ours && err == nil && n > 0 {
			b.gateBuyers[user] = n
		}
	}
	return nil
}
