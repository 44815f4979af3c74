package consumer_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"seckill/admission"
)

// The laws, judged by what the stores have, and the comparison with the model.

// storedOrder is an order as a store has it.
type storedOrder struct {
	id, sku, user    string
	units, amount    int64
	status           admission.Status
	mark             int64
	refund, replaced string
	seq              int64
	state            admission.ReservationState // of a record
}

type storedSKU struct{ total, stock, limit int64 }

// look is what the stores have of one sale at one moment.
type look struct {
	epoch   int64
	suspect string
	settled int64
	skus    map[string]storedSKU
	rows    map[string]storedOrder

	gate    map[string]string
	stock   map[string]string
	records map[string]storedOrder
	buyers  map[string]string
	pending []string
}

// Check looks at the stores after every step.
func (m *machine) Check(t *rapid.T) {
	for _, a := range m.sales {
		l := m.look(t, a)
		m.judgeLedger(t, a, l)
		m.judgeHistory(t, l)
		if a.gate.epoch != 0 && l.gate["filled"] == l.gate["epoch"] {
			m.judgeGate(t, a, l)
		}
		if a.ready() {
			m.judgeEquation(t, a, l)
		}
		m.compare(t, a, l)
	}
	m.judgeAnswer(t)
}

func (m *machine) look(t *rapid.T, a *modelSale) look {
	l := look{skus: map[string]storedSKU{}, rows: map[string]storedOrder{}, records: map[string]storedOrder{}}
	var batch pgx.Batch
	batch.Queue(`select epoch, suspect, (select settled_seq from partitions) from activities where id = $1`, a.id).
		QueryRow(func(row pgx.Row) error { return row.Scan(&l.epoch, &l.suspect, &l.settled) })
	batch.Queue(`select sku_id, total::bigint, stock::bigint, limit_per_user::bigint from skus where activity_id = $1`, a.id).
		Query(func(rows pgx.Rows) error {
			var id string
			var s storedSKU
			_, err := pgx.ForEachRow(rows, []any{&id, &s.total, &s.stock, &s.limit}, func() error { l.skus[id] = s; return nil })
			return err
		})
	batch.Queue(`select id::text, sku_id, user_id, quantity::bigint, amount, status, coalesce(release_epoch, 0), coalesce(refund, ''),
		coalesce(replaced_by::text, ''), log_seq from orders where activity_id = $1`, a.id).
		Query(func(rows pgx.Rows) error {
			var o storedOrder
			fields := []any{&o.id, &o.sku, &o.user, &o.units, &o.amount, &o.status, &o.mark, &o.refund, &o.replaced, &o.seq}
			_, err := pgx.ForEachRow(rows, fields, func() error { l.rows[o.id] = o; return nil })
			return err
		})
	m.must(t, m.s.pool.SendBatch(t.Context(), &batch).Close())
	m.lookAtGate(t, a, &l)
	return l
}

func (m *machine) lookAtGate(t *rapid.T, a *modelSale, l *look) {
	maps := map[string]*redis.MapStringStringCmd{}
	var pending *redis.StringSliceCmd
	_, err := m.s.redis.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, what := range []string{"gate", "stock", "orders", "buyers"} {
			maps[what] = p.HGetAll(t.Context(), m.s.gateKey(a.id, what))
		}
		pending = p.ZRange(t.Context(), m.s.gateKey(a.id, "pending"), 0, -1)
		return nil
	})
	m.must(t, err)
	l.gate, l.stock, l.buyers, l.pending = maps["gate"].Val(), maps["stock"].Val(), maps["buyers"].Val(), pending.Val()
	for i, id := range l.pending {
		l.pending[i] = admission.FromGateID(id)
	}
	for short, record := range maps["orders"].Val() {
		id := admission.FromGateID(short)
		f := strings.SplitN(record, " ", 6) // state, units, time, SKU, length of the buyer's id, buyer and key
		length, _ := strconv.Atoi(f[4])
		l.records[id] = storedOrder{id: id, sku: f[3], user: f[5][:length], units: number(f[1]), state: admission.ReservationState(f[0][0])}
	}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func (o storedOrder) charged() bool {
	return o.state == admission.Pending || o.state == admission.Charged
}

// judgeLedger: no SKU is oversold, no buyer over the limit, and total = stock + live.
func (m *machine) judgeLedger(t *rapid.T, a *modelSale, l look) {
	live, bought := map[string]int64{}, map[string]int64{}
	for _, o := range l.rows {
		if o.status.Live() {
			live[o.sku] += o.units
			bought[o.sku+" "+o.user] += o.units
		}
		if o.amount != 100*o.units {
			t.Fatalf("order %s of %d units costs %d", o.id, o.units, o.amount)
		}
	}
	for id, s := range l.skus {
		if s.stock < 0 || live[id] > s.total || s.total != s.stock+live[id] {
			t.Fatalf("%s/%s: total %d, stock %d, live %d", a.id, id, s.total, s.stock, live[id])
		}
	}
	for buyer, units := range bought {
		sku, _, _ := strings.Cut(buyer, " ")
		if units > l.skus[sku].limit {
			t.Fatalf("%s has %d live units, the limit is %d", buyer, units, l.skus[sku].limit)
		}
	}
	if l.suspect != "" {
		t.Fatalf("the ledger holds the gate of %s for wrong: %s", a.id, l.suspect)
	}
}

// mayFollow are the moves of a decided order.
var mayFollow = map[admission.Status][]admission.Status{
	admission.Held:           {admission.PendingPayment, admission.Confirmed, admission.Rejected, admission.Cancelled},
	admission.PendingPayment: {admission.Paid, admission.Expired, admission.Cancelled},
	admission.Confirmed:      {admission.Paid, admission.Cancelled},
	admission.Paid:           {admission.Cancelled},
}

// judgeHistory: an order only goes forward, and never away.
func (m *machine) judgeHistory(t *rapid.T, l look) {
	for id, o := range l.rows {
		before, known := m.before[id]
		if known && before != o.status && !slices.Contains(mayFollow[before], o.status) {
			// Two moves between two looks are one more step on the way.
			if !slices.ContainsFunc(mayFollow[before], func(s admission.Status) bool { return slices.Contains(mayFollow[s], o.status) }) {
				t.Fatalf("order %s was %s and is %s", id, before, o.status)
			}
		}
		m.before[id] = o.status
	}
}

// judgeGate: the gate's counters are those of its own records.
func (m *machine) judgeGate(t *rapid.T, a *modelSale, l look) {
	charged, buyers := map[string]int64{}, map[string]int64{}
	var pending []string
	for id, o := range l.records {
		if o.charged() {
			charged[o.sku] += o.units
			buyers[o.sku+" "+o.user] += o.units
		}
		if o.state == admission.Pending {
			pending = append(pending, id)
		}
	}
	for id := range l.skus {
		_, total, _ := strings.Cut(l.gate["total:"+id], " ")
		if stock := number(l.stock[id]); stock < 0 || number(total) != stock+charged[id] {
			t.Fatalf("the gate of %s/%s: total %s, stock %d, charged %d", a.id, id, total, stock, charged[id])
		}
	}
	counted := map[string]int64{}
	for buyer, entry := range l.buyers {
		units, _, _ := strings.Cut(entry, " ")
		counted[buyer] = number(units)
	}
	if !maps.Equal(counted, buyers) {
		t.Fatalf("the gate of %s has buyers %v, its records say %v", a.id, counted, buyers)
	}
	slices.Sort(pending)
	slices.Sort(l.pending)
	if !slices.Equal(pending, l.pending) {
		t.Fatalf("the gate of %s has %v as pending, its records say %v", a.id, l.pending, pending)
	}
}

// judgeEquation: total = live + gate's stock + undecided + held + due, order by order;
// so with nothing in flight the gate's counters are the ledger's.
func (m *machine) judgeEquation(t *rapid.T, a *modelSale, l look) {
	inFlight, left := false, map[string]int64{}
	for id, o := range l.records {
		row, known := l.rows[id]
		owned := known && (row.status.Live() || row.status == admission.Held)
		due := known && row.mark == l.epoch
		if o.charged() && o.state != admission.Pending && !owned && !due {
			t.Fatalf("order %s is charged at the gate, and %q in the ledger", id, row.status)
		}
		inFlight = inFlight || o.state == admission.Pending || o.charged() && due
		if o.charged() {
			left[o.sku] += o.units
		}
	}
	for id, row := range l.rows {
		owned := row.status.Live() || row.status == admission.Held
		if owned && !l.records[id].charged() {
			t.Fatalf("order %s is %s in the ledger, and not charged at the gate", id, row.status)
		}
		inFlight = inFlight || row.status == admission.Held
	}
	for id, s := range l.skus {
		version, total, _ := strings.Cut(l.gate["total:"+id], " ")
		if behind := number(total) != s.total; version == "" || !inFlight && !behind && number(l.stock[id]) != s.stock {
			t.Fatalf("nothing is in flight, and of %s/%s the gate has %s, the ledger %d", a.id, id, l.stock[id], s.stock)
		}
	}
}

// compare wants ledger and gate as the model has them: every accepted order is there,
// once, in a truthful status.
func (m *machine) compare(t *rapid.T, a *modelSale, l look) {
	rows := 0
	for _, o := range a.orders {
		row, known := l.rows[o.id]
		if known {
			rows++
		}
		refund := row.refund == admission.RefundDue
		if row.status != o.status || row.mark != o.mark || refund != o.refund || row.replaced != o.replaced {
			t.Fatalf("the row of order %s is %+v, want status %q, mark %d, refund %v, replaced by %q", o.id, row, o.status, o.mark, o.refund, o.replaced)
		}
		if known && (row.sku != o.sku.id || row.user != o.user || row.units != o.units) {
			t.Fatalf("the row of order %s is %+v, it was placed as %+v", o.id, row, o)
		}
		if o.undecided() && o.seq != 0 && int64(o.seq) <= l.settled {
			t.Fatalf("order %s is in message %d, the log is settled to %d, and it has no row", o.id, o.seq, l.settled)
		}
		if got := l.records[o.id].state; got != o.record {
			t.Fatalf("order %s is %q at the gate, want %q; its row is %+v", o.id, got, o.record, row)
		}
	}
	if rows != len(l.rows) {
		t.Fatalf("the ledger has %d orders of %s, want %d", len(l.rows), a.id, rows)
	}
	for _, s := range a.skus {
		if total := l.skus[s.id].total; total != s.total {
			t.Fatalf("%s/%s has %d units, want %d", a.id, s.id, total, s.total)
		}
		if got := fmt.Sprint(a.gateStock(s)); a.ready() && l.stock[s.id] != got {
			t.Fatalf("the gate of %s/%s has %s, want %s", a.id, s.id, l.stock[s.id], got)
		}
	}
	if l.epoch != a.epoch {
		t.Fatalf("the ledger has epoch %d, want %d", l.epoch, a.epoch)
	}
}

// judgeAnswer: what a buyer is told of an order, one after the other in turn, is what
// the ledger has.
func (m *machine) judgeAnswer(t *rapid.T) {
	var all []*modelOrder
	for _, a := range m.sales {
		all = append(all, a.orders...)
	}
	if len(all) == 0 {
		return
	}
	o := all[m.steps%len(all)]
	row, err := m.s.service.Find(t.Context(), o.sale.id, o.user, o.id)
	if o.undecided() && o.record == 0 {
		m.want(t, "look up an order that nobody knows now", err, admission.CodeNotReady)
		return
	}
	if err != nil || row.Status != o.shown() || row.Quantity != o.units || row.Amount != o.amount() {
		t.Fatalf("look up: %+v (%v), want %s of %d units", row, err, o.shown(), o.units)
	}
	if _, err = m.s.service.Find(t.Context(), o.sale.id, "somebody", o.id); err == nil {
		t.Fatalf("a foreign order was shown")
	}
}
