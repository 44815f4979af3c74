package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"seckill/admission"
)

const (
	// momentTries is how often a moment without motion is looked for.
	momentTries = 3
	// momentOrders bounds the undecided orders, and those to be released, that are
	// looked at one by one.
	momentOrders = 2048
)

var (
	sqlMomentUnits = statement("moment_units")
	sqlMomentDue   = statement("moment_due")
)

// Moment is one activity in gate and ledger, read so that the units of a SKU add up:
//
//	total = gate stock + undecided + live + release due + difference
//
// An exact moment had nothing moving between the two stores while it was read, and a
// difference in it is a broken law. Else the sale is faster than the look, or its gate
// is not to be believed yet, and the difference is what moved meanwhile.
type Moment struct {
	Activity admission.Activity
	Mark     admission.GateMark
	Exact    bool
	SKUs     []MomentSKU // in the order of Activity.SKUs
}

// MomentSKU is one SKU of a moment, in units.
type MomentSKU struct {
	GateStock  *int64 // nil without a gate
	Undecided  int64  // reserved at the gate and not decided, and held
	ReleaseDue int64  // dead in the ledger, not yet given back at the gate
	Difference int64  // 0 without a gate
	Units      map[admission.Status]int64
}

// Live is the units of the live orders.
func (s MomentSKU) Live() (n int64) {
	for status, units := range s.Units {
		if status.Live() {
			n += units
		}
	}
	return n
}

// Moment reads an activity. It marks the gate before and after everything else, as the
// audit does, and looks again if the marks differ.
func (a *Audit) Moment(ctx context.Context, id string) (Moment, error) {
	for try := 1; ; try++ {
		m, err := a.moment(ctx, id)
		if err != nil {
			return Moment{}, fmt.Errorf("look at activity %s: %w", id, a.failed(err))
		}
		if m.Exact || try == momentTries || !m.Mark.Ready(m.Activity.Epoch) {
			return m, nil
		}
	}
}

// glance is what one try has read.
type glance struct {
	Moment
	few     bool // all undecided and due orders were looked at
	pending []admission.Order
	rows    map[string]auditRow // of the pending orders
	due     []auditRow
	records map[string]admission.Reservation // of the due orders
}

func (a *Audit) moment(ctx context.Context, id string) (Moment, error) {
	var g glance
	var err error
	if g.Mark, err = a.Gate.Mark(ctx, id); err != nil {
		return g.Moment, err
	}
	if g.few = g.Mark.Pending <= momentOrders; g.few {
		if g.pending, err = a.pendingAt(ctx, id); err != nil {
			return g.Moment, err
		}
	}
	if err := a.glanceLedger(ctx, id, &g); err != nil {
		return g.Moment, err
	}
	ids := make([]string, len(g.due))
	for i, row := range g.due {
		ids[i] = row.id
	}
	if g.records, err = a.Gate.RecordsOf(ctx, id, ids); err != nil {
		return g.Moment, err
	}
	after, err := a.Gate.Mark(ctx, id)
	if err != nil {
		return g.Moment, err
	}
	g.Exact = g.few && after.Equal(g.Mark) && g.Mark.Ready(g.Activity.Epoch) && !g.Mark.Behind(g.Activity) && !g.Activity.Taking
	g.addUp()
	return g.Moment, nil
}

func (a *Audit) pendingAt(ctx context.Context, id string) (all []admission.Order, err error) {
	for skip := int64(0); skip <= momentOrders; {
		page, err := a.Gate.Pending(ctx, id, time.Time{}, skip)
		if err != nil || page.Page == 0 {
			return all, err
		}
		skip += int64(page.Page)
		all = append(all, page.List...)
	}
	return all, nil
}

// glanceLedger reads the ledger's side in one snapshot.
func (a *Audit) glanceLedger(ctx context.Context, id string, g *glance) error {
	tx, err := a.Ledger.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has only read
	run := &auditing{Audit: a, tx: tx}
	if g.Activity, err = readActivity(ctx, tx, id); err != nil {
		return err
	}
	if err := g.readUnits(ctx, tx); err != nil {
		return err
	}
	ids := make([]string, len(g.pending))
	for i, o := range g.pending {
		ids[i] = o.ID
	}
	if g.rows, err = run.rows(ctx, ids); err != nil {
		return err
	}
	due, err := run.scanRows(ctx, sqlMomentDue, id, momentOrders)
	if err != nil {
		return fmt.Errorf("read the orders whose release is due: %w", err)
	}
	g.due, g.few = due, g.few && len(due) < momentOrders
	return nil
}

func (g *glance) readUnits(ctx context.Context, tx pgx.Tx) error {
	of := map[string]int{}
	for i, sku := range g.Activity.SKUs {
		of[sku.ID] = i
		s := MomentSKU{Units: map[admission.Status]int64{}}
		if g.Mark.Present() {
			units := g.Mark.Stock[sku.ID]
			s.GateStock = &units
		}
		g.SKUs = append(g.SKUs, s)
	}
	rows, err := tx.Query(ctx, sqlMomentUnits, g.Activity.ID)
	if err != nil {
		return fmt.Errorf("add the orders up: %w", err)
	}
	var sku string
	var status admission.Status
	var units int64
	_, err = pgx.ForEachRow(rows, []any{&sku, &status, &units}, func() error {
		if i, ok := of[sku]; ok {
			g.SKUs[i].Units[status] = units
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add the orders up: %w", err)
	}
	return nil
}

// addUp fills in what is between the two stores. The words are those of the audit.
func (g *glance) addUp() {
	undecided, due := map[string]int64{}, map[string]int64{}
	for _, o := range g.pending {
		row, decided := g.rows[o.ID]
		if owned := decided && (row.status.Live() || row.status == admission.Held); !owned && row.release != g.Mark.Epoch {
			undecided[o.SKU] += o.Quantity
		}
	}
	for _, row := range g.due {
		state := g.records[row.id].State
		charged := state == admission.Pending || state == admission.Charged
		if !g.Mark.Present() || charged && row.release == g.Mark.Epoch {
			due[row.sku] += row.quantity
		}
	}
	for i, sku := range g.Activity.SKUs {
		s := &g.SKUs[i]
		s.Undecided, s.ReleaseDue = s.Units[admission.Held]+undecided[sku.ID], due[sku.ID]
		if s.GateStock == nil {
			continue
		}
		rest := sku.Total - *s.GateStock - s.Live() - s.ReleaseDue
		if !g.few { // too many to be looked at: what is missing is taken to be undecided
			s.Undecided = max(rest, 0)
		}
		s.Difference = rest - s.Undecided
	}
}
