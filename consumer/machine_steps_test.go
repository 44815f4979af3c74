package consumer_test

import (
	"context"
	"errors"
	"time"

	"pgregory.net/rapid"

	"seckill/admission"
	"seckill/consumer"
)

// What buyers and workers do.

// order draws what a buyer may ask for.
func (m *machine) order(t *rapid.T) *modelOrder {
	a := m.sale(t)
	return &modelOrder{
		sale: a, id: admission.NewID(), sku: rapid.SampledFrom(a.skus).Draw(t, "sku"),
		user:  rapid.SampledFrom([]string{"u0", "u1", "u2", poisoned}).Draw(t, "user"),
		key:   rapid.SampledFrom([]string{"", "", "k0", "k1"}).Draw(t, "key"),
		units: rapid.SampledFrom([]int64{1, 1, 1, 2, 3}).Draw(t, "units"),
	}
}

// Ask places an order, or asks for one again.
func (m *machine) Ask(t *rapid.T) {
	o := m.order(t)
	m.ask(t, o)
}

// AskAgain asks as somebody has asked before.
func (m *machine) AskAgain(t *rapid.T) {
	before := *m.pick(t, func(*modelOrder) bool { return true })
	before.id, before.seq, before.status, before.record, before.mark = admission.NewID(), 0, "", 0, 0
	before.refund, before.replaced = false, ""
	m.ask(t, &before)
}

func (m *machine) ask(t *rapid.T, o *modelOrder) {
	code, was := o.sale.admit(o)
	placed, err := m.place(t, o, code)
	m.want(t, "ask", err, code)
	if code != "" {
		if was != nil { // the order of the key is brought to the log, whatever is asked with it now
			m.appended(t, was)
		}
		m.soldOut = m.soldOut || code == admission.CodeSoldOut
		return
	}
	if placed.Repeat != (was != nil) {
		t.Fatalf("the answer was %+v, want a repeat of %+v", placed, was)
	}
	if was == nil {
		was, o.id = o, placed.ID
		o.sale.reserve(o)
	}
	if placed.ID != was.id || placed.Status != m.toldOf(was) {
		t.Fatalf("the answer was %+v, want %s of order %s", placed, m.toldOf(was), was.id)
	}
	m.appended(t, was)
}

// toldOf is the status as the gate last knew it.
func (m *machine) toldOf(o *modelOrder) admission.Status {
	switch o.record {
	case admission.Pending:
		return admission.Accepted
	case admission.Charged:
		return admission.Confirmed
	}
	return o.status
}

// place asks until a node that remembers sold out has noticed that units came back,
// or that nobody is admitted, which it promises within 200 ms.
func (m *machine) place(t *rapid.T, o *modelOrder, want admission.Code) (placed admission.Placed, err error) {
	m.until(t, "the memory of sold out is over", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		placed, err = m.s.service.Place(ctx, admission.Ask{Activity: o.sale.id, User: o.user, SKU: o.sku.id, Key: o.key, Quantity: o.units})
		got := codeOf(err)
		return got != admission.CodeSoldOut || got == want
	})
	return placed, err
}

// appended notes where the log has an order that was appended, if it was not before.
func (m *machine) appended(t *rapid.T, o *modelOrder) {
	if o.seq != 0 || o.record != admission.Pending {
		return
	}
	last, err := m.s.log.LastSeq(t.Context(), o.sale.id)
	m.must(t, err)
	o.seq = last
}

// ReserveAndDie reserves at the gate, and the node dies before it appends.
func (m *machine) ReserveAndDie(t *rapid.T) {
	o := m.order(t)
	code, was := o.sale.admit(o)
	if code != "" || was != nil {
		t.Skip()
	}
	orders := []admission.Order{{ID: o.id, User: o.user, SKU: o.sku.id, Quantity: o.units, Key: o.key}}
	verdicts, err := m.s.gate.Reserve(t.Context(), o.sale.id, o.sale.epoch, 1000, orders)
	m.must(t, err)
	if verdicts[0].Kind != admission.VerdictReserved {
		t.Fatalf("reserve: %+v", verdicts)
	}
	o.sale.reserve(o)
}

// hold takes the partition for a worker, unless it believes that it has it.
func (m *machine) hold(t *rapid.T, n int) *consumer.Hold {
	if m.holds[n] == nil {
		h, err := m.s.workers[n].TakeHold(t.Context(), 0)
		m.must(t, err)
		m.holds[n], m.newest = h, n
	}
	return m.holds[n]
}

func (m *machine) drop(n int) {
	if m.holds[n] == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = m.holds[n].Drop(ctx)
	m.holds[n] = nil
}

// Settle is one step of a worker, which may have been fenced, and may die at any point.
func (m *machine) Settle(t *rapid.T) {
	n := rapid.IntRange(0, len(m.holds)-1).Draw(t, "worker")
	most := rapid.IntRange(1, 3).Draw(t, "messages")
	end := rapid.SampledFrom([]consumer.End{
		consumer.EndDone, consumer.EndDone, consumer.EndDone, consumer.EndNak, consumer.EndTold, consumer.EndSettled, consumer.EndFetched,
	}).Draw(t, "end")
	m.step(t, n, most, end)
}

func (m *machine) step(t *rapid.T, n, most int, end consumer.End) {
	h := m.hold(t, n)
	stale := n != m.newest
	deliveries, err := h.Step(t.Context(), most, end)
	if err != nil || end != consumer.EndDone && end != consumer.EndNak {
		m.drop(n)
	}
	if stale && m.newest >= 0 && end == consumer.EndFetched {
		m.drop(m.newest) // what a dead hand has comes after AckWait, or with the next hold
	}
	if err != nil {
		if !stale && errors.Is(err, consumer.ErrFenced) {
			t.Fatalf("the newest worker was fenced: %v", err)
		}
		if !errors.Is(err, consumer.ErrFenced) && !errors.Is(err, consumer.ErrTaken) {
			t.Fatalf("settle: %v", err)
		}
		return
	}
	if stale && len(deliveries) > 0 {
		t.Fatalf("a worker without the term has settled %d messages", len(deliveries))
	}
	for _, d := range deliveries {
		m.delivered(t, d, end != consumer.EndSettled)
	}
}

func (m *machine) delivered(t *rapid.T, d consumer.Delivery, told bool) {
	for _, got := range d.Orders {
		o := m.find(got.ID)
		if o == nil {
			continue // of an earlier run, or reserved, lost and then found: it is decided or stale
		}
		if o.undecided() && d.Epoch != o.epoch {
			t.Fatalf("order %s was reserved under epoch %d, and its message has %d", o.id, o.epoch, d.Epoch)
		}
		o.sale.decide(o)
		if told {
			o.sale.tell(o)
		}
	}
}

// Drain lets a worker settle all that the log has.
func (m *machine) Drain(t *rapid.T) { m.drain(t) }

func (m *machine) drain(t *rapid.T) {
	m.until(t, "the log is settled", func() bool { return m.drained(t) })
}

// drained is one step on the way, and whether it was the last.
func (m *machine) drained(t *rapid.T) bool {
	settled, err := m.s.ledger.Settled(t.Context(), 0)
	m.must(t, err)
	last := uint64(0)
	for _, a := range m.sales {
		seq, err := m.s.log.LastSeq(t.Context(), a.id)
		m.must(t, err)
		last = max(last, seq)
	}
	if settled >= last {
		return true
	}
	m.step(t, max(m.newest, 0), 64, consumer.EndDone)
	return false
}

// Redeliver takes the partition, and has the log deliver again from a message that is settled.
func (m *machine) Redeliver(t *rapid.T) {
	settled, err := m.s.ledger.Settled(t.Context(), 0)
	m.must(t, err)
	o := m.pick(t, func(o *modelOrder) bool { return o.seq != 0 && o.seq <= settled })
	m.drop(0)
	_ = m.hold(t, 0)
	_, err = m.s.log.JetStream().ResetConsumerToSequence(t.Context(), m.s.log.StreamName(), consumer.ConsumerName(0), o.seq)
	m.must(t, err)
}

// Sweep lets everything that is pending become overdue, and sweeps.
func (m *machine) Sweep(t *rapid.T) {
	a := m.sale(t)
	if !a.ready() {
		t.Skip()
	}
	m.sweep(t, a)
}

func (m *machine) sweep(t *rapid.T, a *modelSale) {
	m.drain(t)
	key := m.s.gateKey(a.id, "pending")
	ids, err := m.s.redis.ZRange(t.Context(), key, 0, -1).Result()
	m.must(t, err)
	for _, id := range ids {
		m.must(t, m.s.redis.ZIncrBy(t.Context(), key, -float64(time.Minute.Milliseconds()), id).Err())
	}
	m.must(t, m.s.sweep().Once(t.Context(), a.id))
	a.bring()
	for _, o := range a.orders {
		if o.undecided() {
			m.appended(t, o)
		} else if o.record == admission.Pending {
			a.tell(o)
		}
	}
	m.drain(t)
}
