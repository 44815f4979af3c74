package consumer_test

import (
	"context"
	"errors"

	"pgregory.net/rapid"

	"seckill/admission"
	"seckill/consumer"
)

// What operators do, and what happens to servers.

// Move pauses or resumes a sale, and perhaps dies before the gate knows.
func (m *machine) Move(t *rapid.T) {
	m.move(t, m.sale(t), rapid.Bool().Draw(t, "paused"), rapid.Bool().Draw(t, "told"))
}

func (m *machine) move(t *rapid.T, a *modelSale, paused, told bool) {
	to := admission.Open
	if paused {
		to = admission.Paused
	}
	_, err := m.s.ledger.SetState(t.Context(), a.id, to)
	m.must(t, err)
	a.paused = paused
	if told {
		m.bring(t, a)
	}
}

func (m *machine) bring(t *rapid.T, a *modelSale) {
	now, err := m.s.ledger.Activity(t.Context(), a.id)
	m.must(t, err)
	err = m.s.gate.Bring(t.Context(), now)
	var notReady *admission.NotReadyError
	if errors.As(err, &notReady) != !a.ready() || err != nil && a.ready() {
		t.Fatalf("bring: %v; the gate is ready: %v", err, a.ready())
	}
	a.bring()
}

// Stock changes what a SKU has. Units are taken away by the next rebuild.
func (m *machine) Stock(t *rapid.T) {
	a := m.sale(t)
	s := rapid.SampledFrom(a.skus).Draw(t, "sku")
	delta := rapid.SampledFrom([]int64{-2, -1, 1, 2, 3}).Draw(t, "delta")
	_, state, err := m.s.ledger.ChangeStock(t.Context(), consumer.StockDelta{Activity: a.id, SKU: s.id, Delta: delta})
	m.must(t, err)
	want := consumer.DeltaApplied
	if delta < 0 {
		want = consumer.DeltaWaiting
		a.deltas = append(a.deltas, modelDelta{s, delta})
	} else {
		s.total += delta
	}
	if state != want {
		t.Fatalf("a change of stock by %+d is %s, want %s", delta, state, want)
	}
	if rapid.Bool().Draw(t, "told") {
		m.bring(t, a)
	}
}

// Wipe loses the gate.
func (m *machine) Wipe(t *rapid.T) {
	a := m.sale(t)
	var keys []string
	for _, what := range []string{"gate", "stock", "orders", "buyers", "keys", "pending"} {
		keys = append(keys, m.s.gateKey(a.id, what))
	}
	m.must(t, m.s.redis.Del(t.Context(), keys...).Err())
	a.wipe()
}

// Rebuild lets the product rebuild a gate, beside a worker.
func (m *machine) Rebuild(t *rapid.T) {
	a := m.sale(t)
	if a.ready() && rapid.IntRange(0, 3).Draw(t, "chance") != 0 {
		t.Skip()
	}
	m.rebuilt(t, a)
}

func (m *machine) rebuilt(t *rapid.T, a *modelSale) {
	a.gate.open = false // from some moment of it on
	var n int64
	m.beside(t, "rebuild", func(ctx context.Context) (err error) {
		n, err = m.s.rebuild().Run(ctx, a.id)
		return err
	})
	h := a.snapshot(n)
	a.fill(h)
	a.open(h)
}

// beside runs something that needs a worker, and is one.
func (m *machine) beside(t *rapid.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	var err error
	over := false
	m.until(t, what, func() bool {
		select {
		case err = <-done:
			over = true
		default:
			m.drained(t)
		}
		return over
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// RebuildByHand begins a rebuild, or goes on with one; it may die after any call.
func (m *machine) RebuildByHand(t *rapid.T) {
	a := m.sale(t)
	ctx := t.Context()
	if a.half == nil {
		now, err := m.s.ledger.Activity(ctx, a.id)
		m.must(t, err)
		n, err := m.s.ledger.NextEpoch(ctx, a.id, now.LastEpoch)
		m.must(t, err)
		server, err := m.s.gate.Server(ctx, a.id)
		m.must(t, err)
		m.must(t, m.s.gate.Close(ctx, a.id, n))
		a.gate.epoch, a.gate.open = n, false
		a.half = &halfRebuild{epoch: n, server: server}
	}
	for _, next := range []func(*rapid.T, *modelSale) error{m.takeSnapshot, m.fill, m.open} {
		if rapid.IntRange(0, 3).Draw(t, "dies") == 0 {
			return
		}
		if err := next(t, a); err != nil {
			if newest := a.gate.epoch == a.half.epoch && !a.gate.open; newest || !errors.Is(err, admission.ErrSuperseded) {
				t.Fatal(err)
			}
			a.half = nil
			return
		}
	}
	a.half = nil
}

// takeSnapshot appends what is pending, waits until all is decided, and begins the epoch.
func (m *machine) takeSnapshot(t *rapid.T, a *modelSale) error {
	if a.half.snapshot != nil {
		return nil
	}
	for _, o := range a.orders {
		if o.undecided() && o.seq == 0 {
			reserved, _, err := m.s.gate.Find(t.Context(), a.id, o.id)
			m.must(t, err)
			b := admission.NewBatch(a.id, o.epoch)
			b.Add(reserved.Order)
			seq, err := m.s.log.Append(t.Context(), b)
			m.must(t, err)
			o.seq = seq
		}
	}
	m.drain(t)
	s, err := m.s.ledger.Snapshot(t.Context(), a.id, a.half.epoch)
	if err == nil {
		h := a.snapshot(a.half.epoch)
		h.server, h.snapshot = a.half.server, &s
		a.half = h
	}
	return err
}

func (m *machine) fill(t *rapid.T, a *modelSale) error {
	if a.half.filled {
		return nil
	}
	err := m.s.gate.Fill(t.Context(), a.half.epoch, *a.half.snapshot)
	if err == nil {
		a.half.filled = true
		a.fill(a.half)
	}
	return err
}

func (m *machine) open(t *rapid.T, a *modelSale) error {
	err := m.s.gate.Open(t.Context(), a.half.epoch, *a.half.snapshot, a.half.server)
	if err == nil {
		a.open(a.half)
	}
	return err
}

// Replay passes a sale's whole log through settlement again, by the worker.
func (m *machine) Replay(t *rapid.T) {
	a := m.sale(t)
	before := m.undecidedOf(a)
	var summary consumer.ReplaySummary
	m.beside(t, "replay", func(ctx context.Context) (err error) {
		summary, err = m.replay().Start(ctx, consumer.Selection{Source: consumer.ReplayOrders, Mode: consumer.ReplayRepublish, Activity: a.id})
		return err
	})
	m.replayed(t, a, summary, before)
}

// ReplayApply settles a sale's whole log itself; whoever had the partition is fenced.
func (m *machine) ReplayApply(t *rapid.T) {
	a := m.sale(t)
	before := m.undecidedOf(a)
	summary, err := m.replay().Start(t.Context(), consumer.Selection{Source: consumer.ReplayOrders, Mode: consumer.ReplayApply, Activity: a.id})
	m.must(t, err)
	m.newest = -1
	for _, o := range a.orders {
		if o.seq != 0 {
			a.decide(o)
			a.tell(o)
		}
	}
	m.replayed(t, a, summary, before)
}

func (m *machine) replay() *consumer.Replay {
	return &consumer.Replay{Ledger: m.s.ledger, Gate: m.s.gate, Log: m.s.log, Dead: m.s.dead(), Leases: m.s.replays, Logger: m.s.logger}
}

func (m *machine) undecidedOf(a *modelSale) (n uint64) {
	for _, o := range a.orders {
		if o.undecided() && o.seq != 0 && o.user != poisoned {
			n++
		}
	}
	return n
}

func (m *machine) replayed(t *rapid.T, a *modelSale, s consumer.ReplaySummary, undecided uint64) {
	held := uint64(0)
	for _, o := range a.orders {
		if o.status == admission.Held {
			held++
		}
	}
	if s.Unknown != 0 || s.Rejected != 0 || s.Settled > undecided || s.Dead < held {
		t.Fatalf("%d orders were undecided, %d are held, and the replay says %+v", undecided, held, s)
	}
}

// DecideHeld has an operator decide a held order, or drop it.
func (m *machine) DecideHeld(t *rapid.T) {
	o := m.pick(t, func(o *modelOrder) bool { return o.status == admission.Held })
	if rapid.Bool().Draw(t, "drop") {
		ruling, err := m.s.desk().Drop(t.Context(), o.id)
		m.must(t, err)
		if ruling.Status != admission.Rejected {
			t.Fatalf("a dropped order is %+v", ruling)
		}
		o.sale.die(o, admission.Rejected, true, true)
		return
	}
	m.decideHeld(t, o)
}

func (m *machine) decideHeld(t *rapid.T, o *modelOrder) {
	ruling, err := m.s.desk().Replay(t.Context(), o.id)
	m.must(t, err)
	o.status = admission.Confirmed
	if o.sale.window {
		o.status = admission.PendingPayment
	}
	o.sale.tell(o)
	if ruling.Status != o.status {
		t.Fatalf("a held order is %+v, want %s", ruling, o.status)
	}
}

// Release gives back what is due.
func (m *machine) Release(t *rapid.T) {
	m.must(t, m.s.release().Round(t.Context()))
	for _, a := range m.sales {
		for _, o := range a.orders {
			a.clear(o)
		}
	}
}
